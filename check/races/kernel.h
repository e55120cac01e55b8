/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kernel.h - simulated kernel objects that threads share: eventfds and futexes. They are not part of the library's
 * memory.
 */
#ifndef CHECK_RACES_KERNEL_H
#define CHECK_RACES_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

struct kernel_wakefd { /* an eventfd; all zero: a new one */
    uint64_t rung;
};

void wakefd_clear(struct kernel_wakefd *wakefd);
void wakefd_ring(struct kernel_wakefd *wakefd);
/* Reads the eventfd: returns the number of writes, and clears it. */
uint64_t wakefd_hear(struct kernel_wakefd *wakefd);
void wakefd_sleep(struct kernel_wakefd *wakefd);   /* until it is written */
bool wakefd_is_rung(struct kernel_wakefd *wakefd); /* polls without waiting */

struct kernel_epoll { /* an epoll instance with an eventfd and one socket */
    uint64_t woken;
    unsigned packets; /* packets in the socket */
    uint32_t armed;   /* EPOLLIN, EPOLLONESHOT */
    uint64_t now;     /* ns; advances when a thread sleeps with a timeout */
};
enum { WAKE_READY = 1, SOCKET_READY = 2 };

void watched_clear(struct kernel_epoll *watched);
void watched_wake(struct kernel_epoll *watched);
void watched_hear(struct kernel_epoll *watched);
void watched_arm(struct kernel_epoll *watched, uint32_t events);
void watched_arrive(struct kernel_epoll *watched);      /* a packet arrives */
unsigned watched_packets(struct kernel_epoll *watched); /* number of packets in the socket */
unsigned watched_take(struct kernel_epoll *watched);    /* receives all packets; returns their number */
/* Epoll_wait() without waiting: returns what is ready. */
unsigned watched_collect(struct kernel_epoll *watched);
/* Poll() for `most` milliseconds; -1: without a timeout. */
void watched_sleep(struct kernel_epoll *watched, int most);
uint64_t watched_now(const struct kernel_epoll *watched);

void futex_clear(void);
long futex(uint32_t *word, int operation, uint32_t value);

#endif
