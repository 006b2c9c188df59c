/* SPDX-License-Identifier: Apache-2.0 */
/* sanitizers.h - which sanitizer this is built with, under gcc and clang. */
#ifndef TESTS_SUPPORT_SANITIZERS_H
#define TESTS_SUPPORT_SANITIZERS_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#endif

#ifndef UNDER_ASAN
#define UNDER_ASAN 0
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

#endif
