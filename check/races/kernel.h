/* SPDX-License-Identifier: BSD-2-Clause */
/* kernel.h - what threads share of the kernel: eventfds, and futexes. Nothing of it is the library's memory. */
#ifndef CHECK_RACES_KERNEL_H
#define CHECK_RACES_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

struct kernel_wakefd { /* an eventfd; all zero is a new one */
    uint64_t rung;
};

void wakefd_clear(struct kernel_wakefd *wakefd);
void wakefd_ring(struct kernel_wakefd *wakefd);
uint64_t wakefd_hear(struct kernel_wakefd *wakefd); /* how often it was rung: quiet again */
void wakefd_sleep(struct kernel_wakefd *wakefd);    /* until it is rung */
bool wakefd_is_rung(struct kernel_wakefd *wakefd);  /* poll without waiting */

struct kernel_epoll { /* an epoll with an eventfd and one socket */
    uint64_t woken;
    unsigned packets; /* that lie in the socket */
    uint32_t armed;   /* EPOLLIN, EPOLLONESHOT */
    uint64_t now;     /* ns: time passes where somebody sleeps with a limit */
};
enum { WAKE_READY = 1, SOCKET_READY = 2 };

void watched_clear(struct kernel_epoll *watched);
void watched_wake(struct kernel_epoll *watched);
void watched_hear(struct kernel_epoll *watched);
void watched_arm(struct kernel_epoll *watched, uint32_t events);
void watched_arrive(struct kernel_epoll *watched);          /* a packet */
unsigned watched_packets(struct kernel_epoll *watched);     /* how many lie there */
unsigned watched_take(struct kernel_epoll *watched);        /* they are taken */
unsigned watched_collect(struct kernel_epoll *watched);     /* epoll_wait without waiting: what is ready */
void watched_sleep(struct kernel_epoll *watched, int most); /* poll: milliseconds, -1: without end */
uint64_t watched_now(const struct kernel_epoll *watched);

void futex_clear(void);
long futex(uint32_t *word, int operation, uint32_t value);

#endif
