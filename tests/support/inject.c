/* SPDX-License-Identifier: Apache-2.0 */
/* inject.c - the other end of the linker's --wrap: counts the calls, and does to one of them what
 * the test has chosen. */
#include "support/inject.h"

#include "support/failing.h"
#include "support/sanitizers.h"

#include <errno.h>
#include <lz4frame.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- what can happen ---- */

enum { MOST_WAYS = 9, FOREVER = 1 << 20 };

/* `times` in a row; `hidden`: whoever called has to get round it. */
struct way {
    int error;
    int times;
    bool hidden;
};

struct call {
    const char *name;
    enum inject_kind kind;
    struct way way[MOST_WAYS + 1]; /* the last has no times */
};

/* clang-format off */
#define HIDDEN(error_)     { (error_), 1, true }, { (error_), FOREVER, true }
#define RETRIED(error_)    { (error_), 1, true }, { (error_), 3, true }
#define WORN_OUT(error_)   { (error_), 1, true }, { (error_), FOREVER, false }
#define TOLD(error_)       { (error_), 1, false }, { (error_), FOREVER, false }
#define SHORT              { INJECT_SHORT, 1, true }, { INJECT_SHORT, FOREVER, true }
#define NO_DESCRIPTOR      TOLD(EMFILE), { ENFILE, 1, false }, { ENOMEM, 1, false }

static const struct call calls[] = {
    { "malloc", INJECT_MEMORY, { TOLD(ENOMEM) } },
    { "calloc", INJECT_MEMORY, { TOLD(ENOMEM) } },
    { "realloc", INJECT_MEMORY, { TOLD(ENOMEM) } },
    { "posix_memalign", INJECT_MEMORY, { TOLD(ENOMEM) } },
    { "aligned_alloc", INJECT_MEMORY, { TOLD(ENOMEM) } },
    { "strdup", INJECT_MEMORY, { TOLD(ENOMEM) } },
    { "strndup", INJECT_MEMORY, { TOLD(ENOMEM) } },
    { "LZ4F_createCompressionContext", INJECT_MEMORY, { TOLD(ENOMEM) } },
    { "LZ4F_compressBegin", INJECT_MEMORY, { TOLD(ENOMEM) } },
    { "XXH32_createState", INJECT_MEMORY, { TOLD(ENOMEM) } },
    { "fopencookie", INJECT_MEMORY, { TOLD(ENOMEM) } },

    { "pthread_mutex_init", INJECT_LOCK, { TOLD(ENOMEM), { EAGAIN, 1, false } } },
    { "pthread_cond_init", INJECT_LOCK, { TOLD(ENOMEM), { EAGAIN, 1, false } } },
    { "pthread_attr_init", INJECT_LOCK, { TOLD(ENOMEM) } },
    { "pthread_mutexattr_init", INJECT_LOCK, { TOLD(ENOMEM) } },
    { "pthread_condattr_init", INJECT_LOCK, { TOLD(ENOMEM) } },
    { "pthread_attr_setstacksize", INJECT_LOCK, { HIDDEN(EINVAL) } },
    { "pthread_mutexattr_settype", INJECT_LOCK, { HIDDEN(EINVAL) } },
    { "pthread_condattr_setclock", INJECT_LOCK, { HIDDEN(EINVAL) } },
    { "pthread_atfork", INJECT_LOCK, { HIDDEN(ENOMEM) } },
    { "pthread_create", INJECT_THREAD, { TOLD(EAGAIN), { EPERM, 1, false } } },
    { "pthread_setname_np", INJECT_CALL, { HIDDEN(EACCES) } },

    { "open", INJECT_DESCRIPTOR, { NO_DESCRIPTOR, RETRIED(EINTR), { EACCES, 1, false } } },
    { "open64", INJECT_DESCRIPTOR, { NO_DESCRIPTOR, RETRIED(EINTR), { EACCES, 1, false } } },
    { "eventfd", INJECT_DESCRIPTOR, { NO_DESCRIPTOR, HIDDEN(ENOSYS) } },
    { "pipe2", INJECT_DESCRIPTOR, { NO_DESCRIPTOR } },

    { "close", INJECT_CALL, { RETRIED(EINTR), TOLD(EIO), { ENOSPC, 1, false } } },
    { "fstat", INJECT_CALL, { TOLD(EIO), { EOVERFLOW, 1, false }, { ENOMEM, 1, false } } },
    { "fstat64", INJECT_CALL, { TOLD(EIO), { EOVERFLOW, 1, false }, { ENOMEM, 1, false } } },
    { "stat64", INJECT_CALL, { TOLD(EIO), { ENOMEM, 1, false } } },
    { "lseek64", INJECT_CALL, { { ESPIPE, 1, false } } },
    { "isatty", INJECT_CALL, { HIDDEN(ENOTTY) } },
    { "posix_fadvise64", INJECT_CALL, { HIDDEN(EINVAL), HIDDEN(EIO) } },
    { "madvise", INJECT_CALL, { HIDDEN(EINVAL), HIDDEN(EAGAIN) } },
    { "pread64", INJECT_CALL, { SHORT, RETRIED(EINTR), WORN_OUT(EAGAIN), TOLD(EIO), { ENOMEM, 1, false } } },
    { "read", INJECT_CALL, { SHORT, RETRIED(EINTR), WORN_OUT(EAGAIN), TOLD(EIO) } },
    { "recv", INJECT_CALL, { SHORT, RETRIED(EINTR), WORN_OUT(EAGAIN), TOLD(ECONNRESET), { ENOMEM, 1, false } } },
    { "preadv64v2", INJECT_CALL, { SHORT, RETRIED(EINTR), WORN_OUT(EAGAIN), HIDDEN(EOPNOTSUPP), { EIO, 1, false } } },
    { "poll", INJECT_CALL, { RETRIED(EINTR), WORN_OUT(EAGAIN), HIDDEN(EINVAL), { ENOMEM, 1, true } } },
    { "ppoll", INJECT_CALL, { RETRIED(EINTR), HIDDEN(EAGAIN), HIDDEN(ENOMEM) } },
    { "write", INJECT_CALL, { SHORT, RETRIED(EINTR), WORN_OUT(EAGAIN), TOLD(ENOSPC), { EIO, 1, false } } },
    { "ring", INJECT_CALL, { RETRIED(EINTR) } },
    { "send", INJECT_CALL, { SHORT, RETRIED(EINTR), WORN_OUT(EAGAIN), TOLD(EPIPE), { ENOMEM, 1, false } } },
    { "pwritev64v2", INJECT_CALL, { SHORT, RETRIED(EINTR), WORN_OUT(EAGAIN), HIDDEN(EOPNOTSUPP), { EPIPE, 1, false } } },
    { "sysconf", INJECT_CALL, { HIDDEN(EINVAL) } },
    { "sigtimedwait", INJECT_CALL, { RETRIED(EINTR), HIDDEN(EAGAIN) } },
};
/* clang-format on */

static const struct call *find(const char *name)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, name) == 0)
            return &calls[i];
    return NULL;
}

/* ---- what the test has chosen ---- */

static unsigned chosen_way;   /* set while nobody makes calls, like `fault` */
static atomic_uint countdown; /* points until the chosen one; 0: it was reached, or none is */
static atomic_bool armed;
static struct inject_fault fault; /* of the one that has reached it; then `done` is set */
static atomic_bool done;
static atomic_int times_left;
static atomic_ullong given;

static bool has(const struct call *c, int error)
{
    for (const struct way *w = c->way; w->times; w++)
        if (w->error == error)
            return true;
    return false;
}

/* A fault that goes on is one of the machine, not of a function: what has no memory for one has
 * none for another.  System calls are too different for that. */
static bool goes_on_in(const struct call *c)
{
    int left = atomic_load(&times_left);

    if (!atomic_load(&done) || strcmp(fault.call, c->name) != 0)
        if (!atomic_load(&done) || fault.kind != c->kind || c->kind == INJECT_CALL ||
            !has(c, fault.error))
            return false;
    while (left > 0 && !atomic_compare_exchange_weak(&times_left, &left, left - 1))
        ;
    return left > 0;
}

/* The chosen point is this call. */
static int reach(const struct call *c, int64_t at)
{
    const struct way *w = c->way;

    for (unsigned i = 0; i < chosen_way && w->times; i++)
        w++;
    fault = (struct inject_fault){ .what = w->times ? INJECT_DONE : INJECT_NO_WAY,
                                   .call = c->name,
                                   .kind = c->kind,
                                   .error = w->error,
                                   .lasting = w->times == FOREVER,
                                   .hidden = w->hidden,
                                   .at = at };
    atomic_store(&times_left, w->times - 1);
    atomic_store(&done, true);
    return w->error;
}

/* 0: make this call; else what is to be done in its stead. */
static int inject_at(const char *name, int64_t at)
{
    unsigned left = atomic_load(&countdown);
    const struct call *c;

    if (!atomic_load(&armed) || !(c = find(name)))
        return 0;
    while (left > 0 && !atomic_compare_exchange_weak(&countdown, &left, left - 1))
        ;
    if (left == 1)
        return reach(c, at);
    return left == 0 && goes_on_in(c) ? fault.error : 0;
}

static int inject(const char *name)
{
    return inject_at(name, -1);
}

void inject_arm(unsigned point, unsigned way)
{
    chosen_way = way;
    fault = (struct inject_fault){ .what = INJECT_NO_POINT, .at = -1 };
    atomic_store(&done, false);
    atomic_store(&times_left, 0);
    atomic_store(&given, 0);
    atomic_store(&countdown, point);
    on_failing = inject; /* and stays: it asks for nothing unless armed */
    atomic_store(&armed, true);
}

struct inject_fault inject_disarm(void)
{
    atomic_store(&armed, false);
    return fault;
}

uint64_t inject_given(void)
{
    return atomic_load(&given);
}

/* ---- the wrapped functions: those that failing.c has not ---- */

static int failed(int error)
{
    errno = error;
    return -1;
}

static size_t half(int error, size_t len)
{
    return error == INJECT_SHORT && len > 1 ? len / 2 : len;
}

static ssize_t count_given(ssize_t n)
{
    if (n > 0)
        atomic_fetch_add(&given, (unsigned long long)n);
    return n;
}

/* CALL(type, name, parameters, arguments): fails with errno and -1. */
#define CALL(type, name, parameters, arguments)                                                    \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        int error = inject(#name);                                                                 \
                                                                                                   \
        return error ? failed(error) : __real_##name arguments;                                    \
    }

/* The same for one that returns its error. */
#define CODE(name, parameters, arguments)                                                          \
    int __real_##name parameters;                                                                  \
    int __wrap_##name parameters;                                                                  \
    int __wrap_##name parameters                                                                   \
    {                                                                                              \
        int error = inject(#name);                                                                 \
                                                                                                   \
        return error ? error : __real_##name arguments;                                            \
    }

/* The same for one that moves `len` bytes, or half of them. */
#define MOVE(name, counted, parameters, arguments)                                                 \
    ssize_t __real_##name parameters;                                                              \
    ssize_t __wrap_##name parameters;                                                              \
    ssize_t __wrap_##name parameters                                                               \
    {                                                                                              \
        int error = inject(#name);                                                                 \
                                                                                                   \
        if (error > 0)                                                                             \
            return failed(error);                                                                  \
        len = half(error, len);                                                                    \
        return counted(__real_##name arguments);                                                   \
    }

CODE(pthread_mutexattr_init, (pthread_mutexattr_t * a), (a))
CODE(pthread_condattr_init, (pthread_condattr_t * a), (a))
CODE(pthread_mutexattr_settype, (pthread_mutexattr_t * a, int type), (a, type))
CODE(pthread_condattr_setclock, (pthread_condattr_t * a, clockid_t clock), (a, clock))
CODE(pthread_setname_np, (pthread_t t, const char *name), (t, name))
CODE(posix_fadvise64, (int fd, off_t at, off_t len, int advice), (fd, at, len, advice))
CALL(int, madvise, (void *p, size_t len, int advice), (p, len, advice))
CALL(int, stat64, (const char *path, struct stat *st), (path, st))
CALL(off_t, lseek64, (int fd, off_t at, int whence), (fd, at, whence))
CALL(int, sigtimedwait, (const sigset_t *set, siginfo_t *info, const struct timespec *t),
     (set, info, t))
CALL(int, ppoll, (struct pollfd * fds, nfds_t n, const struct timespec *t, const sigset_t *set),
     (fds, n, t, set))
MOVE(read, count_given, (int fd, void *dst, size_t len), (fd, dst, len))
MOVE(recv, count_given, (int fd, void *dst, size_t len, int flags), (fd, dst, len, flags))
MOVE(send, , (int fd, const void *src, size_t len, int flags), (fd, src, len, flags))

/* Eight bytes ring an eventfd: all or nothing, and never in vain. */
ssize_t __real_write(int fd, const void *src, size_t len);
ssize_t __wrap_write(int fd, const void *src, size_t len);
ssize_t __wrap_write(int fd, const void *src, size_t len)
{
    int error = inject(len == sizeof(uint64_t) ? "ring" : "write");

    return error > 0 ? failed(error) : __real_write(fd, src, half(error, len));
}

#if !UNDER_TSAN /* whose runtime calls these, and before it is ready */
CODE(pthread_atfork, (void (*a)(void), void (*b)(void), void (*c)(void)), (a, b, c))
CODE(pthread_attr_init, (pthread_attr_t * a), (a))
CODE(pthread_attr_setstacksize, (pthread_attr_t * a, size_t n), (a, n))
CALL(int, isatty, (int fd), (fd))

/* What a page is, is known everywhere. */
long __real_sysconf(int name);
long __wrap_sysconf(int name);
long __wrap_sysconf(int name)
{
    int error = name == _SC_PAGESIZE ? 0 : inject("sysconf");

    return error ? failed(error) : __real_sysconf(name);
}
#endif

ssize_t __real_pread64(int fd, void *dst, size_t len, off_t at);
ssize_t __wrap_pread64(int fd, void *dst, size_t len, off_t at);
ssize_t __wrap_pread64(int fd, void *dst, size_t len, off_t at)
{
    int error = inject_at("pread64", at);

    return error > 0 ? failed(error) : __real_pread64(fd, dst, half(error, len), at);
}

/* Of one vector, as the library calls them. */
#define VECTOR(name, counted)                                                                      \
    ssize_t __real_##name(int fd, const struct iovec *v, int n, off_t at, int flags);              \
    ssize_t __wrap_##name(int fd, const struct iovec *v, int n, off_t at, int flags);              \
    ssize_t __wrap_##name(int fd, const struct iovec *v, int n, off_t at, int flags)               \
    {                                                                                              \
        int error = inject(#name);                                                                 \
        struct iovec part = *v;                                                                    \
                                                                                                   \
        if (error > 0)                                                                             \
            return failed(error);                                                                  \
        part.iov_len = half(error, part.iov_len);                                                  \
        return counted(__real_##name(fd, &part, n, at, flags));                                    \
    }

VECTOR(preadv64v2, count_given)
VECTOR(pwritev64v2, )

/* A poll of nothing only lets time pass. */
int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    int error = n > 0 ? inject("poll") : 0;

    if (n == 0 && atomic_load(&armed))
        return 0;
    return error ? failed(error) : __real_poll(fds, n, timeout_ms);
}

int __real_nanosleep(const struct timespec *t, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *t, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *t, struct timespec *rest)
{
    return atomic_load(&armed) ? 0 : __real_nanosleep(t, rest);
}

FILE *__real_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions);
FILE *__wrap_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions);
FILE *__wrap_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions)
{
    return inject("fopencookie") ? NULL : __real_fopencookie(cookie, mode, functions);
}

XXH32_state_t *__real_XXH32_createState(void);
XXH32_state_t *__wrap_XXH32_createState(void);
XXH32_state_t *__wrap_XXH32_createState(void)
{
    return inject("XXH32_createState") ? NULL : __real_XXH32_createState();
}

/* Of liblz4: an allocation failed. */
#define LZ4F_NO_MEMORY ((size_t)-9)

LZ4F_errorCode_t __real_LZ4F_createCompressionContext(LZ4F_cctx **out, unsigned version);
LZ4F_errorCode_t __wrap_LZ4F_createCompressionContext(LZ4F_cctx **out, unsigned version);
LZ4F_errorCode_t __wrap_LZ4F_createCompressionContext(LZ4F_cctx **out, unsigned version)
{
    return inject("LZ4F_createCompressionContext")
               ? LZ4F_NO_MEMORY
               : __real_LZ4F_createCompressionContext(out, version);
}

/* Allocates what the preferences ask for. */
size_t __real_LZ4F_compressBegin(LZ4F_cctx *c, void *dst, size_t cap, const LZ4F_preferences_t *p);
size_t __wrap_LZ4F_compressBegin(LZ4F_cctx *c, void *dst, size_t cap, const LZ4F_preferences_t *p);
size_t __wrap_LZ4F_compressBegin(LZ4F_cctx *c, void *dst, size_t cap, const LZ4F_preferences_t *p)
{
    return inject("LZ4F_compressBegin") ? LZ4F_NO_MEMORY
                                        : __real_LZ4F_compressBegin(c, dst, cap, p);
}
