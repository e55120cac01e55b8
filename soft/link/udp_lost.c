/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * udp_lost.c - counts packets that were dropped because the process was too slow, and reports them at its exit, with
 * EXS_DEBUG.
 *
 * Reliable connections recover from losses, but are slower; for unreliable ones this is the only report.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include "core/base/log.h"
#include "udp.h"

/* The losses of closed links; at exit, of all links. Only counters: they pair with nothing. */
static _Atomic uint64_t bursts, messages;
static _Atomic size_t buffer;

struct udp_lost udp_lost_of(struct udp *udp)
{
    struct udp_lost lost = {.messages = soft_counters_of(udp->context)->unready};

    for (int i = 0; i < udp->socket_count; i++) {
        lost.bursts += udp_socket_drops(&udp->sockets[i]);
        lost.buffer = udp->sockets[i].buffer;
    }
    for (int i = 0; i < udp->group_count; i++)
        lost.bursts += udp_socket_drops(&udp->groups[i]);
    return lost;
}

void udp_lost_add(const struct udp_lost *lost)
{
    atomic_fetch_add(&bursts, lost->bursts);
    atomic_fetch_add(&messages, lost->messages);
    if (lost->bursts > 0)
        atomic_store(&buffer, lost->buffer);
}

void udp_lost_tell(void)
{
    if (bursts > 0)
        xs_log("%" PRIu64 " bursts of packets found no room in a socket's buffer of %zu bytes: raise "
               "net.core.rmem_max, or let fewer peers send at once",
               bursts, buffer);
    if (messages > 0)
        xs_log("%" PRIu64 " messages of unreliable peers found no receive posted: post more of them", messages);
}
