/* SPDX-License-Identifier: Apache-2.0 */
/* expect.h - what a test is written in, under Criterion and under the plain runner.
 *
 * The same test_*.c is built twice: with Criterion, and with -DNO_CRITERION on
 * plain.c, which runs under the tools that Criterion does not (TSan, helgrind).
 * So tests use the words of this header and nothing of Criterion's.
 *
 * Each Test() runs in a process of its own.  A failed expectation ends it, on
 * whichever thread it was made, and prints both values. */
#ifndef TESTS_SUPPORT_EXPECT_H
#define TESTS_SUPPORT_EXPECT_H

#include <ahead/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How much longer things take in this build: for .timeout, in seconds of wall
 * time, as in Test(swap, ends, .timeout = 5 * TIME_SCALE).  The plain runner
 * multiplies it by AHEAD_TIME_SCALE of the environment, which valgrind's test
 * setups set. */
#ifndef TIME_SCALE
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TIME_SCALE 5
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TIME_SCALE 5
#endif
#endif
#ifndef TIME_SCALE
#define TIME_SCALE 1
#endif
#endif

/* TIME_SCALE times AHEAD_TIME_SCALE of the environment, for limits in a test's body. */
#define time_scale() (TIME_SCALE * expect_time_scale_())

/* Whether a stress test has time for another round: true at the first call,
 * and until AHEAD_STRESS_SECONDS (1) have passed since then. */
bool time_left(void);

/* Test(suite, name, ...) { body }: .timeout in seconds, .init and .fini run before and after the
 * body, .signal is how it must end.  Without .timeout: 60 * TIME_SCALE. */
#ifdef NO_CRITERION
struct plain_test {
    const char *suite, *name;
    void (*run)(void), (*init)(void), (*fini)(void);
    double timeout;
    int signal;
    int last_; /* lets Test() do without options */
    struct plain_test *next;
};
void plain_add(struct plain_test *test);

#define Test(...) PLAIN_TEST_(__VA_ARGS__, .last_ = 0)
#define PLAIN_TEST_(suite_, name_, ...)                                                            \
    static void test_##suite_##_##name_(void);                                                     \
    static struct plain_test plain_##suite_##_##name_ = {                                          \
        .suite = #suite_, .name = #name_, .run = test_##suite_##_##name_, __VA_ARGS__              \
    };                                                                                             \
    __attribute__((constructor)) static void add_##suite_##_##name_(void)                          \
    {                                                                                              \
        plain_add(&plain_##suite_##_##name_);                                                      \
    }                                                                                              \
    static void test_##suite_##_##name_(void)
#else
#include <criterion/criterion.h>
#endif

/* End this test here: it is counted as skipped, and `why` is printed. */
_Noreturn void skip(const char *why);

/* Say where the test is, as "buffer of %zu bytes": printed with this thread's
 * next failure, until the next note.  expect_no_note() takes it back. */
void expect_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void expect_no_note(void);

#define expect_status(got, want) expect_status_(EXPECT_HERE_(#got), got, want)
#define expect_int(got, want) expect_int_(EXPECT_HERE_(#got), got, want)
#define expect_u64(got, want) expect_u64_(EXPECT_HERE_(#got), got, want)
#define expect_size(got, want) expect_u64_(EXPECT_HERE_(#got), got, want)
#define expect_true(fact) ((fact) ? (void)0 : expect_fail_(EXPECT_HERE_(#fact), "is not so"))
#define expect_mem(got, want, len) expect_mem_(EXPECT_HERE_(#got), got, want, len)
#define expect_str(got, want) expect_str_(EXPECT_HERE_(#got), got, want)

/* Under the macros. */
struct expect_here {
    const char *file;
    unsigned line;
    const char *text; /* the expression that was looked at */
};
#define EXPECT_HERE_(text) ((struct expect_here){ __FILE__, __LINE__, text })

void expect_mem_(struct expect_here at, const void *got, const void *want, size_t len);
void expect_str_(struct expect_here at, const char *got, const char *want);
_Noreturn void
expect_fail_(struct expect_here at, const char *format, ...) __attribute__((format(printf, 2, 3)));
double expect_time_scale_(void);

/* Inline, so that the compiler sees that nothing goes on behind a failure. */
static inline void
expect_status_(struct expect_here at, enum ahead_status got, enum ahead_status want)
{
    if (got != want)
        expect_fail_(at, "got %s, want %s", ahead_status_name(got), ahead_status_name(want));
}

static inline void expect_int_(struct expect_here at, intmax_t got, intmax_t want)
{
    if (got != want)
        expect_fail_(at, "got %jd, want %jd", got, want);
}

static inline void expect_u64_(struct expect_here at, uint64_t got, uint64_t want)
{
    if (got != want)
        expect_fail_(at, "got %ju (%#jx), want %ju (%#jx)", (uintmax_t)got, (uintmax_t)got,
                     (uintmax_t)want, (uintmax_t)want);
}

/* What a runner does: under_criterion.c or plain.c. */
_Noreturn void runner_fail_(struct expect_here at, const char *message);

#endif
