/* SPDX-License-Identifier: Apache-2.0 */
/* 07_cancel_on_signal.c - count the bytes of a pipe, a silent one too, until it ends or ^C comes. */
#include <ahead/ahead.h>

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

/* SIGINT and SIGTERM cancel; SIGUSR1 is main()'s, when there is nothing more to be cancelled. */
struct watch {
    sigset_t signals;
    struct ahead_stream *stream;
};

/* An ordinary thread: where a signal handler may call next to nothing, it may cancel. */
static void *wait_for_signal(void *arg)
{
    struct watch *w = arg;
    int signal;

    if (!sigwait(&w->signals, &signal) && signal != SIGUSR1)
        ahead_cancel(w->stream); /* a reader that sleeps wakes up */
    return NULL;
}

int main(void)
{
    struct ahead_source src;
    struct watch watch;
    enum ahead_status st;
    uint64_t bytes = 0;
    pthread_t thread;
    uint8_t part[4096];
    size_t got;

    /* Before any other thread is there: they all inherit it. */
    sigemptyset(&watch.signals);
    sigaddset(&watch.signals, SIGINT);
    sigaddset(&watch.signals, SIGTERM);
    sigaddset(&watch.signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &watch.signals, NULL);

    if (ahead_source_fd(&src, 0, 0) || ahead_open(&watch.stream, src, NULL)) {
        perror("standard input");
        return 1;
    }
    if (pthread_create(&thread, NULL, wait_for_signal, &watch)) {
        fprintf(stderr, "no thread could be started\n");
        (void)ahead_close(watch.stream);
        return 1;
    }

    while (!(st = ahead_read(watch.stream, part, sizeof part, &got)))
        bytes += got;
    printf("%s after %" PRIu64 " bytes\n", ahead_status_name(st), bytes);
    if (st != AHEAD_EOF && st != AHEAD_CANCELLED)
        fprintf(stderr, "standard input: %s\n", ahead_error(watch.stream)->text);

    /* cancel() may not begin after close(): so the thread ends first. */
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
    (void)ahead_close(watch.stream); /* standard input stays open */
    if (fflush(stdout)) {
        perror("standard output");
        return 1;
    }
    return st == AHEAD_EOF || st == AHEAD_CANCELLED ? 0 : 1;
}
