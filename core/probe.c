/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Probes: is the host of an idle peer still there?
 *
 * A device that has nothing to send waits for no acknowledgement, so it can't notice that there is nobody to
 * send one. An RDMA WRITE of 0 bytes is acknowledged by the peer's device and wakes nobody there. All
 * connections of a queue are thought of at the same moments, so that their program is woken once, not once for
 * each.
 */
#include <errno.h>
#include "clock.h"
#include "conn.h"
#include "core.h"
#include "library.h"
#include "sock.h"

#define PROBE_NS (8 * NS_PER_S)
#define SILENCE_MAX 4 /* rxe does not always notice that its tries are used up: then this is the end */

static uint32_t signs_of_life(const struct conn *conn)
{
    return conn->sq_head + conn->next_slot; /* acknowledgements and messages */
}

void xs_probe_start(struct conn *conn)
{
    if (conn->device->needs_probes)
        xs_sock_probe_at(conn->sock, (now_ns() / PROBE_NS + 1) * PROBE_NS);
}

void xs_probe(struct conn *conn)
{
    bool silent = conn->life == signs_of_life(conn);
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_RDMA_WRITE,
        .wr.rdma = {.remote_addr = conn->peer.hidden_addr, .rkey = conn->peer.hidden_rkey},
    };
    const struct posted posted = {.kind = POSTED_PROBE};

    conn->sock->probe_due = 0;
    if (conn->state != CONN_OPEN)
        return;
    bool waits = conn->sq_head != conn->sq_tail; /* for an acknowledgement already */

    conn->silence = silent && waits ? conn->silence + 1 : 0;
    if (conn->silence == SILENCE_MAX) {
        xs_log("connection %d: no acknowledgement for %d s, and the device does not say so: giving up",
               conn->sock->number, (int)(PROBE_NS / NS_PER_S * SILENCE_MAX));
        xs_conn_fail(conn, ETIMEDOUT);
        return;
    }
    if (silent && !waits)
        xs_conn_post(conn, &wr, &posted);
    conn->life = signs_of_life(conn);
    xs_probe_start(conn);
}
