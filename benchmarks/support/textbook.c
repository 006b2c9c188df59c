/* SPDX-License-Identifier: Apache-2.0 */
/* textbook.c - two buffers whose fill stops after an early return. */
#include "support/textbook.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <stdlib.h>

struct textbook {
    struct ahead_source src;
    size_t cap;
    uint8_t *active, *ahead;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wanted, filled;
    size_t len;   /* lock: bytes in `ahead` */
    bool filling; /* lock: a fill is asked for or under way */
    bool waiting; /* lock: the reader sleeps */
    bool ended;   /* lock */
    bool stop;    /* lock */
};

static void *fill_main(void *arg)
{
    struct textbook *t = arg;

    pthread_mutex_lock(&t->lock);
    for (;;) {
        bool early = false, ended = false;
        size_t len = 0;

        while (!t->filling && !t->stop)
            pthread_cond_wait(&t->wanted, &t->lock);
        if (t->stop)
            break;
        while (len < t->cap && !early && !ended) {
            struct ahead_error err = { 0 };
            ssize_t n;

            pthread_mutex_unlock(&t->lock);
            n = t->src.ops->read(t->src.ctx, t->ahead + len, t->cap - len, &err);
            pthread_mutex_lock(&t->lock);
            ended = n <= 0;
            len += ended ? 0 : (size_t)n;
            early = t->waiting;
        }
        t->len = len;
        t->ended = ended;
        t->filling = false;
        pthread_cond_signal(&t->filled);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

struct textbook *textbook_open(struct ahead_source src, size_t bytes)
{
    struct textbook *t = calloc(1, sizeof *t);

    cr_assert(t && posix_memalign((void **)&t->active, 4096, bytes) == 0 &&
              posix_memalign((void **)&t->ahead, 4096, bytes) == 0);
    t->src = src;
    t->cap = bytes;
    t->filling = true;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wanted, NULL);
    pthread_cond_init(&t->filled, NULL);
    cr_assert(pthread_create(&t->thread, NULL, fill_main, t) == 0);
    return t;
}

size_t textbook_next(struct textbook *t, const uint8_t **p)
{
    uint8_t *swap;
    size_t len;

    pthread_mutex_lock(&t->lock);
    t->waiting = true;
    while (t->filling)
        pthread_cond_wait(&t->filled, &t->lock);
    t->waiting = false;
    len = t->len;
    swap = t->active;
    t->active = t->ahead;
    t->ahead = swap;
    t->len = 0;
    if (!t->ended) {
        t->filling = true;
        pthread_cond_signal(&t->wanted);
    }
    pthread_mutex_unlock(&t->lock);
    *p = t->active;
    return len;
}

struct ahead_source textbook_close(struct textbook *t)
{
    struct ahead_source src = t->src;

    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_signal(&t->wanted);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->filled);
    pthread_cond_destroy(&t->wanted);
    pthread_mutex_destroy(&t->lock);
    free(t->active);
    free(t->ahead);
    free(t);
    return src;
}
