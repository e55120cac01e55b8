/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats.c - exs_getstats: the counters of connections and queues.
 *
 * Most of them are members of struct conn that the protocol needs anyway; they are only added up here. A queue keeps
 * the sum for its connections that were freed.
 */
#include "core/base/entry.h"
#include "core/base/log.h"
#include "core/conn/conn.h"
#include "core/queue/nic.h"
#include "core/queue/queue.h"
#include "core/queue/wait.h"
#include "sock.h"

static exs_stats_t of_queue(struct queue *queue)
{
    const struct sock *sock;

    mutex_lock(&queue->lock);
    exs_stats_t stats = queue->gone;

    LIST_FOREACH (sock, &queue->socks, at_home) {
        if (sock->conn != NULL)
            xs_stats_add(&stats, sock->conn);
    }
    stats.exs_completions = queue->completions;
    mutex_lock(&queue->events.lock);
    stats.exs_events = queue->events.taken;
    stats.exs_turns = queue->events.turns;
    stats.exs_empty_turns = queue->events.empty_turns;
    mutex_unlock(&queue->events.lock);
    xs_queue_unlock(queue);
    return stats;
}

static int get_queue(int sockno, exs_qhandle_t qhandle, exs_stats_t *stats)
{
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return xs_no_queue(qhandle);
    if (sockno == -1 && stats != NULL)
        *stats = of_queue(queue);
    xs_queue_put(queue);
    if (sockno != -1)
        return xs_invalid("sockno is %d: must be -1 with a qhandle", sockno);
    return stats != NULL ? 0 : xs_nowhere("stats");
}

int exs_getstats(int sockno, exs_qhandle_t qhandle, exs_stats_t *stats)
{
    exs_stats_t sum = {0};

    if (xs_enter_socket(__func__, qhandle == NULL ? sockno : -1) < 0)
        return -1;
    if (qhandle != NULL)
        return get_queue(sockno, qhandle, stats);
    struct sock *sock = xs_sock_get_locked(sockno);

    if (sock == NULL)
        return -1;
    if (sock->conn != NULL)
        xs_stats_add(&sum, sock->conn);
    xs_sock_put_locked(sock);
    if (stats == NULL)
        return xs_nowhere("stats");
    *stats = sum;
    return 0;
}
