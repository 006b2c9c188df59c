/* SPDX-License-Identifier: Apache-2.0 */
/* failing.c - the other end of the linker's --wrap: counts, fails, passes on. */
#include "support/failing.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FD_MAX = 4096 }; /* descriptors above are passed on uncounted */

atomic_int live;
atomic_size_t largest, live_bytes, most_bytes;
static atomic_int live_by_kind[FAILING_KINDS];
static atomic_bool always[FAILING_KINDS];
static atomic_bool ours[FD_MAX]; /* whether a wrapped call gave this descriptor */
static atomic_int steps_left;    /* 0: no step is set, or it was reached */
static atomic_bool reached;
int (*on_failing)(const char *call);

bool fail_step(int n)
{
    atomic_store(&steps_left, n);
    return atomic_exchange(&reached, false);
}

void fail_always(enum failing_kind kind, bool fails)
{
    atomic_store(&always[kind], fails);
}

int live_of(enum failing_kind kind)
{
    return atomic_load(&live_by_kind[kind]);
}

/* The error of this call, `error` unless the test has another; 0: it is made. */
static int failure(const char *wrapper, enum failing_kind kind, int error)
{
    int left = atomic_load(&steps_left);

    if (on_failing)
        return on_failing(wrapper + sizeof "__wrap_" - 1);
    if (atomic_load(&always[kind]))
        return error;
    while (left > 0 && !atomic_compare_exchange_weak(&steps_left, &left, left - 1))
        ;
    if (left != 1)
        return 0;
    atomic_store(&reached, true);
    return error;
}

static void count(enum failing_kind kind, int n)
{
    atomic_fetch_add(&live, n);
    atomic_fetch_add(&live_by_kind[kind], n);
}

/* The result of a call that returns 0 when it acquired one of a kind. */
static int acquired(enum failing_kind kind, int error)
{
    if (error == 0)
        count(kind, 1);
    return error;
}

/* The same for one that released it. */
static int released(enum failing_kind kind, int error)
{
    if (error == 0)
        count(kind, -1);
    return error;
}

/* Memory. */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
int __real_posix_memalign(void **out, size_t align, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t len);
void __real_free(void *p);

static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

/* Whether an allocation of so many bytes is to fail. */
static bool fails_memory(const char *wrapper, size_t size)
{
    size_t old = atomic_load(&largest);

    while (old < size && !atomic_compare_exchange_weak(&largest, &old, size))
        ;
    return failure(wrapper, FAILING_MEMORY, ENOMEM);
}

static void gain_bytes(void *p)
{
    size_t gained = malloc_usable_size(p);
    size_t now = atomic_fetch_add(&live_bytes, gained) + gained;
    size_t most = atomic_load(&most_bytes);

    while (most < now && !atomic_compare_exchange_weak(&most_bytes, &most, now))
        ;
}

static void lose_bytes(void *p)
{
    atomic_fetch_sub(&live_bytes, malloc_usable_size(p));
}

static void *memory(void *p)
{
    if (p) {
        count(FAILING_MEMORY, 1);
        gain_bytes(p);
    }
    return p;
}

void *__wrap_malloc(size_t size)
{
    return fails_memory(__func__, size) ? no_memory() : memory(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails_memory(__func__, n * size) ? no_memory() : memory(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t size)
{
    void *grown;

    if (!p)
        return __wrap_malloc(size);
    if (size == 0)
        abort(); /* what that does differs between systems: ours never does it */
    if (fails_memory(__func__, size))
        return no_memory();
    lose_bytes(p);
    grown = __real_realloc(p, size);
    gain_bytes(grown ? grown : p);
    return grown;
}

int __wrap_posix_memalign(void **out, size_t align, size_t size)
{
    int error = fails_memory(__func__, size) ? ENOMEM : __real_posix_memalign(out, align, size);

    if (!error)
        memory(*out);
    return error;
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
    return fails_memory(__func__, size) ? no_memory() : memory(__real_aligned_alloc(align, size));
}

char *__wrap_strdup(const char *s)
{
    return fails_memory(__func__, strlen(s) + 1) ? no_memory() : memory(__real_strdup(s));
}

char *__wrap_strndup(const char *s, size_t len)
{
    return fails_memory(__func__, strnlen(s, len) + 1) ? no_memory()
                                                       : memory(__real_strndup(s, len));
}

void __wrap_free(void *p)
{
    if (p) {
        count(FAILING_MEMORY, -1);
        lose_bytes(p);
    }
    __real_free(p);
}

/* Threads and locks. */

typedef void *thread_main(void *);

int __real_pthread_create(pthread_t *t, const pthread_attr_t *attr, thread_main *run, void *arg);
int __real_pthread_join(pthread_t t, void **result);
int __real_pthread_clockjoin_np(pthread_t t, void **result, clockid_t clock,
                                const struct timespec *until);
int __real_pthread_timedjoin_np(pthread_t t, void **result, const struct timespec *until);
int __real_pthread_detach(pthread_t t);
int __real_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr);
int __real_pthread_mutex_destroy(pthread_mutex_t *m);
int __real_pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr);
int __real_pthread_cond_destroy(pthread_cond_t *c);

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, thread_main *run, void *arg)
{
    int error = failure(__func__, FAILING_THREAD, EAGAIN);

    return error ? error : acquired(FAILING_THREAD, __real_pthread_create(t, attr, run, arg));
}

int __wrap_pthread_join(pthread_t t, void **result)
{
    return released(FAILING_THREAD, __real_pthread_join(t, result));
}

int __wrap_pthread_clockjoin_np(pthread_t t, void **result, clockid_t clock,
                                const struct timespec *until)
{
    return released(FAILING_THREAD, __real_pthread_clockjoin_np(t, result, clock, until));
}

int __wrap_pthread_timedjoin_np(pthread_t t, void **result, const struct timespec *until)
{
    return released(FAILING_THREAD, __real_pthread_timedjoin_np(t, result, until));
}

int __wrap_pthread_detach(pthread_t t)
{
    return released(FAILING_THREAD, __real_pthread_detach(t));
}

int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
    int error = failure(__func__, FAILING_MUTEX, ENOMEM);

    return error ? error : acquired(FAILING_MUTEX, __real_pthread_mutex_init(m, attr));
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *m)
{
    return released(FAILING_MUTEX, __real_pthread_mutex_destroy(m));
}

int __wrap_pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr)
{
    int error = failure(__func__, FAILING_COND, ENOMEM);

    return error ? error : acquired(FAILING_COND, __real_pthread_cond_init(c, attr));
}

int __wrap_pthread_cond_destroy(pthread_cond_t *c)
{
    return released(FAILING_COND, __real_pthread_cond_destroy(c));
}

/* Descriptors.  open and fstat have a second name where off_t was made 64 bits wide. */

int __real_eventfd(unsigned count, int flags);
int __real_pipe2(int fd[2], int flags);
int __real_open(const char *path, int flags, ...);
int __real_open64(const char *path, int flags, ...);
int __real_close(int fd);
int __real_fstat(int fd, struct stat *st);
int __real_fstat64(int fd, struct stat *st);

static int failed(int error)
{
    errno = error;
    return -1;
}

static int descriptor(int fd)
{
    if (fd >= 0 && fd < FD_MAX) {
        atomic_store(&ours[fd], true);
        count(FAILING_DESCRIPTOR, 1);
    }
    return fd;
}

int __wrap_eventfd(unsigned count, int flags)
{
    int error = failure(__func__, FAILING_DESCRIPTOR, EMFILE);

    return error ? failed(error) : descriptor(__real_eventfd(count, flags));
}

int __wrap_pipe2(int fd[2], int flags)
{
    int error = failure(__func__, FAILING_DESCRIPTOR, EMFILE);

    if (error)
        return failed(error);
    if (__real_pipe2(fd, flags))
        return -1;
    descriptor(fd[0]);
    descriptor(fd[1]);
    return 0;
}

/* The mode that follows, where there is one. */
static mode_t mode_of(int flags, va_list args)
{
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t) : 0;
}

int __wrap_open(const char *path, int flags, ...)
{
    int error = failure(__func__, FAILING_DESCRIPTOR, EMFILE);
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = mode_of(flags, args);
    va_end(args);
    return error ? failed(error) : descriptor(__real_open(path, flags, mode));
}

int __wrap_open64(const char *path, int flags, ...)
{
    int error = failure(__func__, FAILING_DESCRIPTOR, EMFILE);
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = mode_of(flags, args);
    va_end(args);
    return error ? failed(error) : descriptor(__real_open64(path, flags, mode));
}

/* Before the call: once closed, the number may be another thread's at once.  What
 * fails has closed it all the same; only a hook lets it fail. */
int __wrap_close(int fd)
{
    int error = on_failing ? on_failing("close") : 0;
    int rc;

    if (fd >= 0 && fd < FD_MAX && atomic_exchange(&ours[fd], false))
        count(FAILING_DESCRIPTOR, -1);
    rc = __real_close(fd);
    return rc == 0 && error ? failed(error) : rc;
}

int __wrap_fstat(int fd, struct stat *st)
{
    int error = failure(__func__, FAILING_STAT, EIO);

    return error ? failed(error) : __real_fstat(fd, st);
}

int __wrap_fstat64(int fd, struct stat *st)
{
    int error = failure(__func__, FAILING_STAT, EIO);

    return error ? failed(error) : __real_fstat64(fd, st);
}
