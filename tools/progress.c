/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - how far it is, on standard error, while it goes on. */
#include "progress.h"

#include "size.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)

enum {
    LINE = 160,
    NAME = 30,   /* columns; of a longer name the end is shown */
    COLUMNS = 80 /* of a terminal that does not say */
};

/* Where the reading thread was at one moment. */
struct moment {
    uint64_t at_ns;
    uint64_t bytes;
    uint64_t spent_ns[PROGRESS_SIDES];
};

static struct moment moment_locked(const struct progress *p)
{
    struct moment m = { .at_ns = now_ns(), .bytes = p->bytes };

    memcpy(m.spent_ns, p->spent_ns, sizeof m.spent_ns);
    m.spent_ns[p->side] += m.at_ns - p->since_ns;
    return m;
}

/* What most of the time between two moments went into, if there is such. */
static const char *who_waits(const struct moment *from, const struct moment *to)
{
    static const char *const words[] = {
        [PROGRESS_INPUT] = "waiting for input",
        [PROGRESS_WORK] = "busy with the bytes",
        [PROGRESS_OUTPUT] = "waiting for output",
    };

    for (int side = 0; side < PROGRESS_SIDES; side++)
        if ((to->spent_ns[side] - from->spent_ns[side]) * 2 > to->at_ns - from->at_ns)
            return words[side];
    return "both sides busy";
}

/* "31 %  ", and the time to go: h:mm:ss. */
static void put_rest(char *text, size_t cap, uint64_t bytes, uint64_t total, double rate)
{
    double share = total > 0 && bytes < total ? (double)bytes / (double)total : 1;
    double rest = bytes < total && rate > 0 ? (double)(total - bytes) / rate : 0;
    uint64_t s = (uint64_t)(rest + 0.5);
    char size[SIZE_TEXT];
    int n;

    n = snprintf(text, cap, " of %s  %.0f %%", size_format(size, (double)total), share * 100);
    if (bytes >= total || rate <= 0 || rest > 1e6)
        return;
    text += n;
    cap -= (size_t)n;
    if (s >= 3600)
        snprintf(text, cap, "  ETA %" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600, s / 60 % 60,
                 s % 60);
    else
        snprintf(text, cap, "  ETA %" PRIu64 ":%02" PRIu64, s / 60, s % 60);
}

/* "NAME: ", without what could move the cursor. */
static size_t put_name(char text[LINE], const char *name)
{
    size_t len = strlen(name), n;

    if (len > NAME)
        n = (size_t)snprintf(text, LINE, "...%s: ", name + len - NAME + 3);
    else
        n = (size_t)snprintf(text, LINE, "%s: ", name);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = '?';
    return n;
}

static int columns(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col == 0)
        return COLUMNS;
    return size.ws_col;
}

static void put_line(struct progress *p, const char *text, bool last)
{
    char line[LINE];
    size_t n = p->name ? put_name(line, p->name) : 0;
    int width = columns() - 1;

    snprintf(line + n, sizeof line - n, "%s", text);
    if (p->terminal)
        fprintf(stderr, "\r%-*.*s%s", width, width, line, last ? "\n" : "");
    else
        fprintf(stderr, "%s\n", line);
    p->drawn = true;
}

/* `rate` in bytes a second, evened out over some lines. */
static void
draw(struct progress *p, const struct moment *from, const struct moment *to, double rate)
{
    char line[LINE], done[SIZE_TEXT], speed[SIZE_TEXT], rest[LINE / 2] = "";

    if (p->total != UINT64_MAX)
        put_rest(rest, sizeof rest, to->bytes, p->total, rate);
    snprintf(line, sizeof line, "%s%s  %s/s  %s", size_format(done, (double)to->bytes), rest,
             size_format(speed, rate), who_waits(from, to));
    put_line(p, line, false);
}

/* Sleeps until it is time for a line.  false: it is over. */
static bool wait_locked(struct progress *p, uint64_t until_ns)
{
    struct timespec until = {
        .tv_sec = (time_t)(until_ns / NS_PER_S),
        .tv_nsec = (long)(until_ns % NS_PER_S),
    };

    while (!p->stop && now_ns() < until_ns)
        pthread_cond_timedwait(&p->over, &p->lock, &until);
    return !p->stop;
}

static void *show(void *arg)
{
    struct progress *p = arg;
    struct moment from = { .at_ns = p->began_ns }, to;
    uint64_t next = p->began_ns + NS_PER_S;
    double rate = 0;

    pthread_mutex_lock(&p->lock);
    while (wait_locked(p, next)) {
        double now;

        to = moment_locked(p);
        pthread_mutex_unlock(&p->lock);
        now = (double)(to.bytes - from.bytes) * 1e9 / (double)(to.at_ns - from.at_ns);
        rate = p->drawn ? rate * 0.7 + now * 0.3 : now;
        draw(p, &from, &to, rate);
        from = to;
        next = to.at_ns + (p->terminal ? NS_PER_S / 4 : NS_PER_S);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

enum progress_show progress_choose(bool asked, int out_fd)
{
    struct stat st;

    if (asked)
        return PROGRESS_ASKED;
    if (tcgetpgrp(STDERR_FILENO) != getpgrp()) /* no terminal, or another job has it */
        return PROGRESS_NOT;
    if (out_fd >= 0 && (fstat(out_fd, &st) || !S_ISREG(st.st_mode)))
        return PROGRESS_NOT;
    return PROGRESS_LONG;
}

static bool init_lock(struct progress *p)
{
    pthread_condattr_t attr;
    bool good;

    if (pthread_mutex_init(&p->lock, NULL))
        return false;
    if (pthread_condattr_init(&attr))
        goto err_lock;
    good =
        !pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) && !pthread_cond_init(&p->over, &attr);
    pthread_condattr_destroy(&attr);
    if (good)
        return true;

err_lock:
    pthread_mutex_destroy(&p->lock);
    return false;
}

static void destroy_lock(struct progress *p)
{
    pthread_cond_destroy(&p->over);
    pthread_mutex_destroy(&p->lock);
}

/* Signals are the reading thread's. */
static bool start(struct progress *p)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&p->thread, NULL, show, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !rc;
}

void progress_begin(struct progress *p, enum progress_show show_it, const char *name,
                    uint64_t total)
{
    *p = (struct progress){ .show = show_it, .name = name, .total = total };
    if (show_it == PROGRESS_NOT)
        return;
    p->terminal = isatty(STDERR_FILENO);
    p->began_ns = p->since_ns = now_ns();
    if (init_lock(p)) {
        if (start(p))
            return;
        destroy_lock(p);
    }
    p->show = PROGRESS_NOT;
}

void progress_at(struct progress *p, enum progress_side side, uint64_t bytes)
{
    uint64_t now;

    if (p->show == PROGRESS_NOT)
        return;
    now = now_ns();
    pthread_mutex_lock(&p->lock);
    p->spent_ns[p->side] += now - p->since_ns;
    p->since_ns = now;
    p->side = side;
    p->bytes = bytes;
    pthread_mutex_unlock(&p->lock);
}

void progress_end(struct progress *p)
{
    char line[LINE], size[SIZE_TEXT], time[SIZE_TEXT], rate[SIZE_TEXT];
    uint64_t ns;

    if (p->show == PROGRESS_NOT)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_signal(&p->over);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    destroy_lock(p);

    ns = now_ns() - p->began_ns;
    snprintf(line, sizeof line, "%s in %s, %s", size_format(size, (double)p->bytes),
             time_format(time, ns), rate_format(rate, p->bytes, ns));
    if (p->show == PROGRESS_ASKED || p->drawn)
        put_line(p, line, true);
}
