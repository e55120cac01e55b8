/* SPDX-License-Identifier: BSD-2-Clause */
/* tcp.c - a context's part of the tcp link: receives from the sockets that are ready, and flushes send buffers at the
 * end of a step. See tcp.h. */
#include <sys/epoll.h>
#include "core/base/fds.h"
#include "tcp.h"

void tcp_init(struct tcp *tcp, struct ibv_context *context, struct service_member *service)
{
    *tcp = (struct tcp){.context = context, .service = service, .epoll = -1};
    TAILQ_INIT(&tcp->unsent);
    LIST_INIT(&tcp->peers);
    LIST_INIT(&tcp->gathering);
}

void tcp_end(struct tcp *tcp)
{
    if (tcp->epoll != -1)
        fds_close(tcp->epoll);
    tcp->epoll = -1;
}

bool tcp_sent(struct tcp *tcp, bool may_hold)
{
    struct tcp_peer *peer, *next;

    for (peer = TAILQ_FIRST(&tcp->unsent); peer != NULL; peer = next) {
        next = TAILQ_NEXT(peer, entry);
        if (may_hold && peer->out.held_since == tcp->polls)
            continue;
        tcp_flush(peer);
        if (may_hold)
            peer->out.held_since = tcp->polls;
    }
    return !TAILQ_EMPTY(&tcp->unsent);
}

void tcp_settle(struct tcp *tcp)
{
    struct tcp_peer *peer;

    while ((peer = LIST_FIRST(&tcp->gathering)) != NULL)
        tcp_link_settle(&peer->link);
}

static int handle_events(struct tcp_peer *peer, uint32_t events)
{
    if (events & EPOLLOUT)
        tcp_flush(peer);
    return events & ~(uint32_t)EPOLLOUT ? tcp_take(peer) : 0;
}

/* With few connections, trying each socket takes no more system calls than asking the epoll first, and fewer if one of
 * them is ready. */
static int try_all(struct tcp *tcp)
{
    struct tcp_peer *peer, *next;
    int packets = 0;

    for (peer = LIST_FIRST(&tcp->peers); peer != NULL; peer = next) {
        next = LIST_NEXT(peer, peers); /* a queue pair that fails may drop its link */
        if (peer->joined)
            packets += handle_events(peer, EPOLLIN | (peer->blocked ? EPOLLOUT : 0));
    }
    return packets;
}

static int take_ready(struct tcp *tcp)
{
    struct epoll_event events[TCP_READY];
    int packets = 0, count = epoll_wait(tcp->epoll, events, TCP_READY, 0);

    for (int i = 0; i < count; i++)
        packets += handle_events(events[i].data.ptr, events[i].events);
    return packets;
}

int tcp_receive(struct tcp *tcp)
{
    int packets;

    tcp->polls++;
    if (tcp->count == 0)
        return 0;
    packets = tcp->count <= TCP_FEW ? try_all(tcp) : take_ready(tcp);
    if (packets > 0)
        service_traffic(tcp->service);
    return packets;
}
