/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * probe.c - keepalive: is the host of an idle peer still there?
 *
 * A device that has sent nothing waits for no acknowledgement, so it can't detect that the peer is gone. An RDMA
 * WRITE of 0 bytes is acknowledged by the peer's device, and wakes no thread there. All connections of a queue are
 * probed at the same moments, so that the program is woken once, not once for each.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/queue/socket.h"
#include "conn.h"

static uint32_t signs_of_life(const struct conn *conn)
{
    return conn->sq.head + conn->rq.next_slot; /* acknowledgements and messages */
}

static uint64_t or_else(uint32_t chosen, uint32_t otherwise)
{
    return chosen != 0 ? chosen : otherwise;
}

/* Schedule the next probe. Without keepalive options all connections of a queue are probed at the same time. */
static void look_after(struct conn *conn, uint32_t chosen)
{
    const uint64_t every = PROBE_S * NS_PER_S;

    if (conn->sock->options.keeps_alive)
        xs_sock_probe_at(conn->sock, ns_after(now_ns(), or_else(chosen, PROBE_S) * NS_PER_S));
    else if (!conn_is_by_tcp(conn))
        xs_sock_probe_at(conn->sock, (now_ns() / every + 1) * every);
}

void xs_probe_start(struct conn *conn)
{
    conn->sock->probe_due = 0;
    conn->keepalive.unanswered = 0;
    conn->keepalive.activity = signs_of_life(conn);
    look_after(conn, conn->sock->options.keep_idle);
}

/* A device that does not have this option returns an error, and keeps its timeout. */
void xs_conn_limit_outage(const struct conn *conn)
{
    unsigned milliseconds = conn->sock->options.user_timeout;

    (void)conn->device->set_option(conn->id, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}

static uint32_t most_silence(const struct conn *conn)
{
    const struct options *options = &conn->sock->options;

    return options->keeps_alive ? (uint32_t)or_else(options->keep_count, PROBES) : PROBES;
}

void xs_probe(struct conn *conn)
{
    const struct options *options = &conn->sock->options;
    bool silent = conn->keepalive.activity == signs_of_life(conn);
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_RDMA_WRITE,
        .wr.rdma = {.remote_addr = conn->peer.recv_ring_addr, .rkey = conn->peer.recv_ring_rkey},
    };
    const struct posted posted = {.kind = POSTED_PROBE};

    conn->sock->probe_due = 0;
    if (conn->state.stage != CONN_OPEN)
        return;
    bool waits = conn_awaits(conn); /* an acknowledgement is outstanding already */

    conn->keepalive.unanswered = silent && waits ? conn->keepalive.unanswered + 1 : 0;
    if (conn->keepalive.unanswered == most_silence(conn)) {
        xs_log("connection %d: no acknowledgement in %u polls, and the device reports no error; closing it",
               conn->sock->number, conn->keepalive.unanswered);
        xs_conn_fail(conn, ETIMEDOUT);
        return;
    }
    if (silent && !waits)
        xs_conn_post(conn, &wr, &posted);
    conn->keepalive.activity = signs_of_life(conn);
    look_after(conn, silent ? options->keep_interval : options->keep_idle);
}
