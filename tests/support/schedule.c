/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c - the other end of the linker's --wrap for all that a thread can wait for: fibers, and
 * a random walk, or a search of all ways, that says which of them goes on. */
#include "support/schedule.h"

#include "support/expect.h"
#include "support/pattern.h"
#include "support/sanitizers.h"

#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#if UNDER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

enum {
    FIBERS = 12,           /* at a time; number 0 runs the body */
    STACK_BYTES = 1 << 18, /* of each */
    LOCKS = 16,            /* that are held at a time */
    OWN_BYTES = 4096,      /* the program's thread-local variables, at most */
    MOST_STEPS = 300000,   /* a schedule that is longer goes round in circles */
    MOST_CHOICES = 4096    /* in a schedule that is searched */
};

enum state {
    FREE,
    READY,
    WANTS_LOCK, /* `on` */
    WAITS,      /* on the condition `on`, and then wants `lock` */
    JOINS,      /* the fiber `on` */
    SLEEPS,
    ENDED /* and has not been joined */
};

struct fiber {
    ucontext_t context;
    enum state state;
    const void *on;
    pthread_mutex_t *lock;
    uint64_t until; /* WAITS, SLEEPS: when that may be over; 0: never */
    bool timed_out;
    bool detached;
    void *(*run)(void *arg);
    void *arg, *result;
    int os_errno;
    char own[OWN_BYTES]; /* its thread-local variables, while another one runs */
#if UNDER_ASAN
    void *fake_stack;
#endif
};

struct held {
    const pthread_mutex_t *lock;
    const struct fiber *by;
};

struct schedule_figures schedule_figures;
bool schedule_is_quiet;

static struct fiber fibers[FIBERS];
static _Alignas(64) char stacks[FIBERS][STACK_BYTES];
static struct held held[LOCKS];
static struct fiber *current; /* NULL: no schedule is running */
static ucontext_t home;       /* schedule_run() */
static const char *verdict;
static char name[64], crash_name[80]; /* of the schedule that runs: how to have it again */
static uint64_t walk, clock_ns;
static unsigned stay, patience, spurious, refuse; /* one in so many; 0: never */

/* All ways instead of a walk: what was chosen where there was a choice, and
 * among how many.  The next schedule changes the last that can be. */
static struct {
    bool on;
    unsigned preemptions, left; /* of one schedule: allowed, not yet made */
    unsigned at, made;
    uint8_t choice[MOST_CHOICES], of[MOST_CHOICES];
} search;

/* ---- what belongs to a thread ---- */

/* The thread-local variables of this program (not those of its libraries), as
 * a thread starts with them. */
static char *own_bytes;
static const char *own_image;
static size_t own_size, own_image_size;

static int find_own(struct dl_phdr_info *program, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    own_bytes = program->dlpi_tls_data;
    for (unsigned i = 0; own_bytes && i < program->dlpi_phnum; i++)
        if (program->dlpi_phdr[i].p_type == PT_TLS) {
            own_size = program->dlpi_phdr[i].p_memsz;
            own_image = (const char *)(program->dlpi_addr + program->dlpi_phdr[i].p_vaddr);
            own_image_size = program->dlpi_phdr[i].p_filesz;
        }
    return 1; /* the first is the program itself */
}

static void give_own(struct fiber *f)
{
    memset(f->own, 0, own_size);
    memcpy(f->own, own_image, own_image_size);
}

/* ---- from one to the other ---- */

#if UNDER_ASAN
static const void *home_stack;
static size_t home_size;
static void *home_fake_stack;

/* `save`: where to keep what of the present stack is beside it, in "fake" frames
 * (detect_stack_use_after_return); NULL: it has ended, and they with it. */
static void leave_stack(void **save, const struct fiber *to)
{
    __sanitizer_start_switch_fiber(save, to ? stacks[to - fibers] : home_stack,
                                   to ? STACK_BYTES : home_size);
}

static void leave_home(const struct fiber *to)
{
    leave_stack(&home_fake_stack, to);
}

static void leave_fiber(struct fiber *from, const struct fiber *to)
{
    bool over = from->state == ENDED || from->state == FREE || !to;

    leave_stack(over ? NULL : &from->fake_stack, to);
}

static void enter_stack(const struct fiber *f, bool from_home)
{
    __sanitizer_finish_switch_fiber(f ? f->fake_stack : home_fake_stack,
                                    from_home ? &home_stack : NULL, from_home ? &home_size : NULL);
}
#else
static void leave_home(const struct fiber *to)
{
    (void)to;
}

static void leave_fiber(struct fiber *from, const struct fiber *to)
{
    (void)from;
    (void)to;
}

static void enter_stack(const struct fiber *f, bool from_home)
{
    (void)f;
    (void)from_home;
}
#endif

/* Also where a fiber begins. */
static void arrive(void)
{
    memcpy(own_bytes, current->own, own_size);
    errno = current->os_errno;
}

static void go_to(struct fiber *to)
{
    struct fiber *from = current;

    if (to == from)
        return;
    schedule_figures.switches++;
    from->os_errno = errno;
    memcpy(from->own, own_bytes, own_size);
    leave_fiber(from, to);
    current = to;
    swapcontext(&from->context, &to->context);
    enter_stack(current, false);
    arrive();
}

_Noreturn static void go_home(const char *why)
{
    verdict = why;
    leave_fiber(current, NULL);
    setcontext(&home);
    __builtin_unreachable();
}

static const char *doing(const struct fiber *f)
{
    switch (f->state) {
    case FREE: return "is not there";
    case READY: return "could go on";
    case WANTS_LOCK: return "wants a lock";
    case WAITS: return f->until ? "waits on a condition, with a limit" : "waits on a condition";
    case JOINS: return "joins a thread";
    case SLEEPS: return "sleeps";
    case ENDED: return "has ended, and was not joined";
    }
    return "?";
}

static void explain(const char *why)
{
    fprintf(stderr, "%s: %s, at step %" PRIu64 "\n", name, why, schedule_figures.steps);
    for (const struct fiber *f = fibers; f < fibers + FIBERS; f++)
        if (f->state != FREE)
            fprintf(stderr, "  thread %d %s%s\n", (int)(f - fibers), doing(f),
                    f == current ? ", and was the last to run" : "");
}

_Noreturn static void fault(const char *why)
{
    if (!schedule_is_quiet)
        explain(why);
    go_home(why);
}

/* ---- locks ---- */

static struct held *find_held(const pthread_mutex_t *lock)
{
    for (struct held *h = held; h < held + LOCKS; h++)
        if (h->lock == lock)
            return h;
    return NULL;
}

static void take(const pthread_mutex_t *lock)
{
    struct held *free_one = find_held(NULL);

    if (!free_one)
        fault("more locks are held than this can count");
    *free_one = (struct held){ lock, current };
}

static void drop(const pthread_mutex_t *lock)
{
    struct held *h = find_held(lock);

    if (!h || h->by != current)
        fault("a lock is let go of that its thread does not hold");
    h->lock = NULL;
}

/* ---- the walk ---- */

static bool one_in(unsigned n)
{
    return n > 0 && random_below(&walk, n) == 0;
}

/* Less than n. */
static unsigned pick(unsigned n)
{
    if (n == 1)
        return 0;
    if (!search.on)
        return (unsigned)random_below(&walk, n);
    if (search.at == MOST_CHOICES)
        fault("more choices than a search can count");
    if (search.at == search.made) {
        search.choice[search.made] = 0;
        search.of[search.made++] = (uint8_t)n;
    }
    return search.choice[search.at++];
}

/* Whether there is another way to search. */
static bool search_next(void)
{
    while (search.made > 0 && ++search.choice[search.made - 1] == search.of[search.made - 1])
        search.made--;
    search.at = 0;
    search.left = search.preemptions;
    return search.made > 0;
}

static bool can_go_on(const struct fiber *f)
{
    switch (f->state) {
    case READY: return true;
    case WANTS_LOCK: return !find_held(f->on);
    case JOINS: return ((const struct fiber *)f->on)->state == ENDED;
    case FREE:
    case WAITS:
    case SLEEPS:
    case ENDED: return false;
    }
    return false;
}

/* Back from a condition: the lock is to be had first. */
static void wake(struct fiber *f)
{
    f->state = WANTS_LOCK;
    f->on = f->lock;
}

static unsigned count(bool (*is)(const struct fiber *f))
{
    unsigned n = 0;

    for (const struct fiber *f = fibers; f < fibers + FIBERS; f++)
        n += is(f);
    return n;
}

/* Any of those of which `is` holds; NULL: there is none. */
static struct fiber *any(bool (*is)(const struct fiber *f))
{
    unsigned n = count(is);
    struct fiber *f = fibers;

    if (n == 0)
        return NULL;
    for (n = pick(n); !is(f) || n-- > 0;)
        f++;
    return f;
}

static bool another_can_go_on(const struct fiber *f)
{
    return f != current && can_go_on(f);
}

static bool has_limit(const struct fiber *f)
{
    return (f->state == WAITS || f->state == SLEEPS) && f->until > 0;
}

static bool waits(const struct fiber *f)
{
    return f->state == WAITS;
}

static bool end_by_time(void)
{
    struct fiber *f = any(has_limit);

    if (!f)
        return false;
    if (clock_ns < f->until)
        clock_ns = f->until;
    f->timed_out = true;
    if (f->state == WAITS)
        wake(f);
    else
        f->state = READY;
    return true;
}

/* One that takes the turn of the present thread, which could go on. */
static struct fiber *preempt(void)
{
    if (!search.on)
        return one_in(stay) ? any(can_go_on) : current;
    if (search.left == 0 || count(another_can_go_on) == 0 || pick(2) == 0)
        return current;
    search.left--;
    return any(another_can_go_on);
}

/* Of those that can go on.  Time passes when there is none. */
static struct fiber *walk_on(void)
{
    struct fiber *f;

    if (can_go_on(current))
        return preempt();
    while (!(f = any(can_go_on)))
        if (!end_by_time())
            return NULL;
    return f;
}

/* Who is next.  NULL: nobody can go on. */
static struct fiber *choose(void)
{
    struct fiber *f;

    if (++schedule_figures.steps > MOST_STEPS)
        fault("no end");
    if (one_in(patience))
        end_by_time();
    if (one_in(spurious) && (f = any(waits)))
        wake(f);
    f = walk_on();
    if (f)
        schedule_figures.trace = (schedule_figures.trace ^ (uint64_t)(f - fibers)) * 0x100000001b3u;
    return f;
}

static void go_on(void)
{
    struct fiber *next = choose();

    if (!next)
        fault("deadlock");
    go_to(next);
}

void schedule_pause(void)
{
    if (current)
        go_on();
}

/* ---- life of a fiber ---- */

/* What is left when the body has ended and nobody can go on. */
_Noreturn static void end(void)
{
    for (const struct fiber *f = fibers; f < fibers + FIBERS; f++)
        if (f->state != FREE)
            fault("a thread is left behind");
    for (const struct held *h = held; h < held + LOCKS; h++)
        if (h->lock)
            fault("a lock is left held");
    go_home("ok");
}

static void fiber_main(void)
{
    struct fiber *f = current, *next;

    enter_stack(f, f == fibers && schedule_figures.steps == 0);
    arrive();
    expect_note("%s", name);
    f->result = f->run(f->arg);
    f->state = f->detached ? FREE : ENDED;
    next = choose();
    if (!next && fibers[0].state == FREE)
        end();
    if (!next)
        fault("deadlock");
    go_to(next);
    __builtin_unreachable();
}

static void begin(struct fiber *f, void *(*run)(void *arg), void *arg)
{
    f->state = READY;
    f->detached = false;
    f->run = run;
    f->arg = arg;
    f->os_errno = 0;
    give_own(f);
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stacks[f - fibers];
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = NULL;
#if UNDER_ASAN
    f->fake_stack = NULL;
#endif
    makecontext(&f->context, fiber_main, 0);
}

static struct {
    void (*body)(void *arg);
    void *arg;
} job;

static void *run_body(void *unused)
{
    job.body(job.arg);
    return unused;
}

/* How this schedule is walked: mostly by one thread or to and fro, with time that
 * is short or long, and with what else can happen. */
static void choose_ways(void)
{
    static const unsigned stays[] = { 1, 2, 4, 16 }, patiences[] = { 4, 16, 64, 0 };

    stay = patience = spurious = refuse = 0;
    if (search.on)
        return;
    stay = stays[random_below(&walk, 4)];
    patience = patiences[random_below(&walk, 4)];
    spurious = one_in(8) ? 16 : 0;
    refuse = one_in(16) ? 2 : 0;
}

/* A crash says which schedule it was in, too, and then goes on as without. */
static void name_crash(int sig)
{
    if (current && write(STDERR_FILENO, crash_name, strlen(crash_name)) < 0)
        (void)sig; /* nothing more can be done */
}

static void prepare(void)
{
    struct sigaction once = { .sa_handler = name_crash, .sa_flags = (int)SA_RESETHAND };

    dl_iterate_phdr(find_own, NULL);
    sigaction(SIGABRT, &once, NULL);
#if !UNDER_ASAN /* which has more to say, and aborts in the end */
    sigaction(SIGSEGV, &once, NULL);
    sigaction(SIGBUS, &once, NULL);
#endif
}

const char *schedule_run(uint64_t seed, void (*body)(void *arg), void *arg)
{
    static char own[OWN_BYTES];
    volatile bool started = false;
    struct fiber *first = fibers;

    if (!own_bytes)
        prepare();
    if (!own_bytes || own_size > sizeof own)
        return "the thread-local variables are too many";
    memset(held, 0, sizeof held);
    for (struct fiber *f = fibers; f < fibers + FIBERS; f++)
        f->state = FREE;
    schedule_figures = (struct schedule_figures){ .trace = 0xcbf29ce484222325u };
    snprintf(name, sizeof name,
             search.on ? "schedule %" PRIu64 " of the search" : "AHEAD_SCHEDULE_SEED=%" PRIu64,
             seed);
    snprintf(crash_name, sizeof crash_name, "%s: crash\n", name);
    walk = pattern_word(seed);
    clock_ns = UINT64_C(1000000000000);
    choose_ways();
    job.body = body;
    job.arg = arg;
    begin(first, run_body, NULL);
    first->detached = true;
    memcpy(own, own_bytes, own_size);
    getcontext(&home);
    if (!started) {
        started = true;
        current = first;
        leave_home(first);
        setcontext(&first->context);
    }
    enter_stack(NULL, false);
    current = NULL;
    memcpy(own_bytes, own, own_size);
    return verdict;
}

const char *
schedule_search(unsigned preemptions, void (*body)(void *arg), void *arg, uint64_t *schedules)
{
    const char *found = "ok";

    search.on = true;
    search.preemptions = preemptions;
    search.made = 0;
    search_next();
    *schedules = 0;
    do {
        ++*schedules;
        found = schedule_run(*schedules, body, arg);
    } while (strcmp(found, "ok") == 0 && search_next());
    search.on = false;
    return found;
}

/* ---- what is wrapped ---- */

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __real_pthread_mutex_destroy(pthread_mutex_t *lock);
int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until);
int __real_pthread_cond_signal(pthread_cond_t *cond);
int __real_pthread_cond_broadcast(pthread_cond_t *cond);
int __real_pthread_cond_destroy(pthread_cond_t *cond);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);
int __real_pthread_join(pthread_t thread, void **result);
int __real_pthread_detach(pthread_t thread);
pthread_t __real_pthread_self(void);
int __real_pthread_setname_np(pthread_t thread, const char *name);
int __real_sched_yield(void);
int __real_nanosleep(const struct timespec *t, struct timespec *rest);
int __real_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    const struct held *h;

    if (!current)
        return __real_pthread_mutex_lock(lock);
    h = find_held(lock);
    if (h && h->by == current)
        fault("a lock is taken that its thread holds");
    current->state = WANTS_LOCK;
    current->on = lock;
    go_on();
    current->state = READY;
    take(lock);
    return 0;
}

/* The pause comes after: what is done without the lock may be late. */
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    if (!current)
        return __real_pthread_mutex_unlock(lock);
    drop(lock);
    go_on();
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *lock)
{
    if (!current)
        return __real_pthread_mutex_destroy(lock);
    if (find_held(lock))
        fault("a lock is destroyed that is held");
    for (const struct fiber *f = fibers; f < fibers + FIBERS; f++)
        if (f->state == WANTS_LOCK && f->on == lock)
            fault("a lock is destroyed that somebody wants");
    return 0;
}

/* Whether the wait was over by its limit. */
static bool wait_for(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until)
{
    drop(lock);
    current->state = WAITS;
    current->on = cond;
    current->lock = lock;
    current->until = until;
    current->timed_out = false;
    go_on();
    current->state = READY;
    take(lock);
    return current->timed_out;
}

static uint64_t to_ns(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
    if (!current)
        return __real_pthread_cond_wait(cond, lock);
    wait_for(cond, lock, 0);
    return 0;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until)
{
    if (!current)
        return __real_pthread_cond_timedwait(cond, lock, until);
    return wait_for(cond, lock, to_ns(until)) ? ETIMEDOUT : 0;
}

static const pthread_cond_t *signalled;

static bool waits_for_signal(const struct fiber *f)
{
    return f->state == WAITS && f->on == signalled;
}

/* The pause comes first: a signal is late, and never early. */
static void signal_to(pthread_cond_t *cond, bool all)
{
    struct fiber *f;

    go_on();
    signalled = cond;
    while ((f = any(waits_for_signal))) {
        wake(f);
        if (!all)
            break;
    }
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    if (!current)
        return __real_pthread_cond_signal(cond);
    signal_to(cond, false);
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    if (!current)
        return __real_pthread_cond_broadcast(cond);
    signal_to(cond, true);
    return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *cond)
{
    if (!current)
        return __real_pthread_cond_destroy(cond);
    for (const struct fiber *f = fibers; f < fibers + FIBERS; f++)
        if (f->state == WAITS && f->on == cond)
            fault("a condition is destroyed that somebody waits on");
    return 0;
}

static pthread_t name_of(const struct fiber *f)
{
    return (pthread_t)(f - fibers + 1);
}

static struct fiber *fiber_of(pthread_t thread)
{
    uintptr_t number = (uintptr_t)thread;

    if (number < 1 || number > FIBERS || fibers[number - 1].state == FREE ||
        fibers[number - 1].detached)
        fault("a thread is named that is not there to be joined");
    return &fibers[number - 1];
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg)
{
    struct fiber *f = fibers;

    if (!current)
        return __real_pthread_create(thread, attr, run, arg);
    if (one_in(refuse))
        return EAGAIN;
    while (f < fibers + FIBERS && f->state != FREE)
        f++;
    if (f == fibers + FIBERS)
        fault("more threads than this can count");
    begin(f, run, arg);
    *thread = name_of(f);
    schedule_figures.threads++;
    go_on();
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    struct fiber *f;

    if (!current)
        return __real_pthread_join(thread, result);
    f = fiber_of(thread);
    current->state = JOINS;
    current->on = f;
    go_on();
    current->state = READY;
    f->state = FREE;
    if (result)
        *result = f->result;
    return 0;
}

int __wrap_pthread_detach(pthread_t thread)
{
    struct fiber *f;

    if (!current)
        return __real_pthread_detach(thread);
    f = fiber_of(thread);
    f->detached = true;
    if (f->state == ENDED)
        f->state = FREE;
    go_on();
    return 0;
}

pthread_t __wrap_pthread_self(void)
{
    return current ? name_of(current) : __real_pthread_self();
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    return current ? 0 : __real_pthread_setname_np(thread, name);
}

int __wrap_sched_yield(void)
{
    if (!current)
        return __real_sched_yield();
    go_on();
    return 0;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *rest)
{
    if (!current)
        return __real_nanosleep(t, rest);
    current->state = SLEEPS;
    current->until = clock_ns + to_ns(t) + 1;
    go_on();
    return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    if (!current)
        return __real_clock_gettime(clock, t);
    clock_ns += 50;
    *t = (struct timespec){ .tv_sec = (time_t)(clock_ns / 1000000000u),
                            .tv_nsec = (long)(clock_ns % 1000000000u) };
    return 0;
}
