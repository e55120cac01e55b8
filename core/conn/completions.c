/* SPDX-License-Identifier: BSD-2-Clause */
/* completions.c - passes the completions of a nic to their connections, and then runs these connections. */
#include "core/queue/nic.h"
#include "core/queue/queue.h"
#include "core/queue/socket.h"
#include "core/queue/upcalls.h"
#include "conn.h"

static void mark_touched(struct conn *conn, struct conn_list *touched)
{
    if (!conn->is_touched)
        LIST_INSERT_HEAD(touched, conn, touched);
    conn->is_touched = true;
}

static __attribute__((noinline)) void find_conn(struct nic *nic, uint64_t name)
{
    struct conn *conn = xs_conn_of(name);
    bool found = conn != NULL && conn->nic == nic; /* the lock of another queue's connection is not held */

    nic->last_name = found ? name : 0;
    nic->last_conn = found ? conn : NULL;
}

void xs_nic_forget(struct nic *nic, const struct conn *conn)
{
    if (nic->last_conn != conn)
        return;
    nic->last_name = 0;
    nic->last_conn = NULL;
}

/* Consecutive completions mostly belong to the same connection, so the last one is cached. */
inline void xs_conns_completed(struct nic *nic, const struct ibv_wc *wc, int count, struct conn_list *touched)
{
    for (int i = 0; i < count; i++) {
        uint64_t name = conn_name(wc[i].wr_id);

        if (name != nic->last_name)
            find_conn(nic, name);
        if (nic->last_conn == NULL)
            continue;
        mark_touched(nic->last_conn, touched);
        xs_conn_completion(nic->last_conn, &wc[i]);
    }
}

inline void xs_conns_run(struct conn_list *touched)
{
    struct conn *conn;

    while ((conn = LIST_FIRST(touched)) != NULL) {
        LIST_REMOVE(conn, touched);
        conn->is_touched = false;
        xs_conn_run(conn); /* may free the connection */
    }
}

void xs_conns_send_held(struct queue *queue)
{
    struct conn *conn;

    while ((conn = LIST_FIRST(&queue->held)) != NULL)
        xs_batch_send_held(conn);
}

void xs_conns_flush(struct nic *nic, struct conn_list *touched)
{
    struct sock *sock;

    LIST_FOREACH (sock, &nic->queue->socks, at_home) {
        if (sock->conn == NULL || sock->conn->nic != nic)
            continue;
        mark_touched(sock->conn, touched);
        xs_conn_flush(sock->conn);
    }
}
