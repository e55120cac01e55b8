/* SPDX-License-Identifier: BSD-2-Clause */
/* Hosts and guests: queues that drive sockets of other queues, since an operation there named them. See
 * queue.h. */
#include <errno.h>
#include <stdlib.h>
#include "core.h"
#include "fds.h"
#include "queue.h"

int xs_queue_host(struct queue *host, struct queue *home)
{
    struct guest *guest;
    bool there = false;

    if (host == home)
        return 0;
    pthread_mutex_lock(&host->events_lock);
    TAILQ_FOREACH (guest, &host->guests, link) {
        there = there || guest->queue == home;
    }
    pthread_mutex_unlock(&host->events_lock);
    if (there)
        return 0;

    guest = malloc(sizeof(*guest));
    if (guest == NULL)
        return -1;
    guest->queue = home;
    guest->fd = xs_queue_run_fd(home);
    if (guest->fd < 0 || (xs_epoll_watch(host->fd, guest->fd) < 0 && errno != EEXIST)) {
        free(guest);
        return -1;
    }
    xs_queue_ref(home);
    pthread_mutex_lock(&host->events_lock);
    TAILQ_INSERT_TAIL(&host->guests, guest, link);
    atomic_fetch_add(&host->guest_count, 1);
    pthread_mutex_unlock(&host->events_lock);
    return 0;
}

/* The guest whose turn it is, with a reference; guests that are done with are let go. NULL: there are none. */
static struct queue *next_guest(struct queue *host)
{
    struct queue *queue = NULL, *gone = NULL;

    pthread_mutex_lock(&host->events_lock);
    struct guest *guest = TAILQ_FIRST(&host->guests);

    if (guest != NULL) {
        TAILQ_REMOVE(&host->guests, guest, link);
        queue = guest->queue;
        if (atomic_load(&queue->done)) {
            fds_unwatch(host->fd, guest->fd);
            atomic_fetch_sub(&host->guest_count, 1);
            free(guest);
            gone = queue;
            queue = NULL;
        } else {
            TAILQ_INSERT_TAIL(&host->guests, guest, link);
            xs_queue_ref(queue);
        }
    }
    pthread_mutex_unlock(&host->events_lock);
    if (gone != NULL)
        xs_queue_unref(gone);
    return queue;
}

void xs_queue_release_guests(struct queue *host)
{
    struct guest *guest;

    do {
        pthread_mutex_lock(&host->events_lock);
        guest = TAILQ_FIRST(&host->guests);
        if (guest != NULL) {
            TAILQ_REMOVE(&host->guests, guest, link);
            atomic_fetch_sub(&host->guest_count, 1);
            fds_unwatch(host->fd, guest->fd);
        }
        pthread_mutex_unlock(&host->events_lock);
        if (guest != NULL)
            xs_queue_unref(guest->queue);
        free(guest);
    } while (guest != NULL);
}

void xs_turn_guests(struct queue *host, struct turn *turn)
{
    for (int count = atomic_load(&host->guest_count); count > 0; count--) {
        struct queue *guest = next_guest(host);

        if (guest == NULL)
            continue;
        pthread_mutex_lock(&guest->lock);
        xs_turn_home(guest, turn);
        xs_queue_rest(guest); /* nobody else says when */
        pthread_mutex_unlock(&guest->lock);
        xs_queue_unref(guest);
    }
}
