/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_port.c - the endpoints at queue pair 1, and their event queues: ib_port.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include "core/base/fds.h"
#include "core/base/random.h"
#include "soft/lock.h"
#include "ib_end.h"
#include "ib_pass.h"

#define NUMBER_BITS 28  /* bits of a connection's number, without the share */
#define READY_MAX 16    /* maximum ready sockets handled at once */
#define UNTAKEN_MAX 256 /* maximum and default backlog of a listener */

struct ib_port ib_port = {.lock = PTHREAD_MUTEX_INITIALIZER, .epoll = -1};

/* ---- The service thread's part ---- */

/* The service thread's additional task. Takes one event at a time, because handling it may close a inbox, whose
 * descriptor number may then be used for another. */
static void run_port(void)
{
    struct epoll_event event;

    soft_mutex_lock(&ib_port.lock);
    for (int i = 0; i < READY_MAX && epoll_wait(ib_port.epoll, &event, 1, 0) == 1; i++)
        ib_hear(event.data.fd);
    ib_timers(&ib_port.world);
    service_task_due(ib_deadline(&ib_port.world));
    soft_mutex_unlock(&ib_port.lock);
}

static int watch_fd(int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};

    return fds_watch(ib_port.epoll, fd, &event) == -1 ? errno : 0;
}

/* (locked) Watches all sockets. epoll always reports errors, so the sending ones need no events. */
static int watch_all(void)
{
    int error = watch_fd(ib_port.inbox, IB_INBOX_EVENTS);

    for (int family = 0; family < 2 && error == 0; family++)
        if (ib_port.qp1.fds[family] != -1) {
            error = watch_fd(ib_port.qp1.fds[family], EPOLLIN);
            if (error == 0)
                error = watch_fd(ib_port.qp1.out[family], 0);
        }
    return error;
}

/* Like for a port, it does not matter which user has the name. */
static int in_use(int error)
{
    return error == EPERM ? EADDRINUSE : error;
}

/* (locked) */
static void close_sockets(void)
{
    struct ib_pass_name name = ib_pass_to_share(ib_port.qp1.share);

    qp1_close(&ib_port.qp1);
    if (ib_port.inbox != -1)
        ib_pass_close(ib_port.inbox, ib_pass_place(&name));
    ib_pass_end();
    if (ib_port.epoll != -1)
        fds_close(ib_port.epoll);
    ib_port.inbox = ib_port.epoll = -1;
}

/* (locked) Opens all sockets. 0, or an errno and none. */
static int open_sockets(const struct roce_port *roce)
{
    struct ib_pass_name name;
    int error = qp1_open(&ib_port.qp1, roce);

    if (error != 0)
        return error;
    ib_pass_use(ib_port.qp1.table);
    name = ib_pass_to_share(ib_port.qp1.share);
    ib_port.inbox = ib_pass_open(&name);
    error = ib_port.inbox == -1 ? in_use(errno) : 0;
    if (error == 0) {
        ib_port.epoll = fds_epoll_private();
        error = ib_port.epoll == -1 ? errno : watch_all();
    }
    if (error == 0)
        return 0;
    close_sockets();
    return error;
}

/* A connection number, which contains the share, so that other processes can pass its datagrams on. */
static uint32_t next_number(struct ib_world *world)
{
    (void)world;
    return soft_shuffle(&ib_port.numbers, ib_port.numbers_given++) * QP1_SHARES + ib_port.qp1.share;
}

/* (locked) */
static int open_port(struct soft_home *home)
{
    struct secret { /* random values that must stay secret */
        uint64_t key[2], budget[2];
        uint32_t transaction;
    } secret;
    int error;

    error = random_bytes(&secret, sizeof secret);
    if (error == 0)
        error = open_sockets(home->udp.roce);
    if (error != 0)
        return error;
    ib_port.budget = (struct ib_budget){.key = {secret.budget[0], secret.budget[1]}};
    ib_port.numbers = (struct soft_shuffle){.key = {secret.key[0], secret.key[1]}, .bits = NUMBER_BITS};
    ib_port.world = (struct ib_world){
        .clock = &home_clock,
        .guid = be64toh(soft_host_guid()),
        .next_transaction = (uint64_t)secret.transaction << 32,
        .number = next_number,
        .send = ib_told_send,
        .request = ib_told_request,
        .requested = ib_told_requested,
        .tell = ib_told_event,
    };
    service_task(ib_port.epoll, run_port);
    return 0;
}

int ib_port_open(struct soft_home *home)
{
    int error = 0;

    if (home->udp.roce == NULL)
        return ENOTCONN;
    soft_mutex_lock(&ib_port.lock);
    if (ib_port.epoll == -1)
        error = open_port(home);
    soft_mutex_unlock(&ib_port.lock);
    return error;
}

/* ---- Calls of the user ---- */

/* Unlocks, after it has set the time at which the service thread must send something again. */
static void unlock_port(void)
{
    service_task_due(ib_deadline(&ib_port.world));
    soft_mutex_unlock(&ib_port.lock);
}

/* (locked) Opens the endpoint's inbox, the unix socket to which other processes pass its datagrams on. 0 or an errno. */
static int open_inbox(struct ib_end *end, const struct ib_pass_name *name)
{
    end->inbox = ib_pass_open(name);
    end->inbox_place = ib_pass_place(name);
    end->has_inbox = end->inbox != -1;
    return end->has_inbox ? watch_fd(end->inbox, IB_INBOX_EVENTS) : errno;
}

/* (locked) Opens a listener's inbox. Another process of this user may have the name already, for another wildcard
 * address; that is accepted. If another user has it, no datagram would arrive, so it fails. 0 or an errno. */
static int open_listener(struct ib_end *end, const struct ib_pass_name *name)
{
    int error = open_inbox(end, name);

    if (error == EPERM)
        return in_use(error);
    ib_port.ends++;
    LIST_INSERT_HEAD(&ib_port.listeners, end, listeners);
    return 0;
}

struct ib_end *ib_port_listen(struct ib_box *box, struct cm_id *user, enum ib_space space,
                              const union soft_addr *addr, bool one_family, int backlog)
{
    struct ib_end *end = calloc(1, sizeof *end);
    struct ib_pass_name name;
    int error;

    if (end == NULL)
        return NULL;
    end->user = user;
    end->box = box;
    end->addr = *addr;
    end->space = space;
    end->one_family = one_family;
    end->backlog = backlog > 0 && backlog < UNTAKEN_MAX ? (unsigned)backlog : UNTAKEN_MAX;
    name = ib_pass_to_listener(space, addr, addr->in.sin_port); /* at the same place in both kinds of address */
    soft_mutex_lock(&ib_port.lock);
    error = open_listener(end, &name);
    soft_mutex_unlock(&ib_port.lock);
    if (error == 0)
        return end;
    free(end);
    errno = error;
    return NULL;
}

/* Starts a new connection or look-up; start() can't fail for a new one. */
static struct ib_end *begin_end(struct ib_box *box, struct cm_id *user, const struct soft_path *path,
                                int (*start)(struct ib_world *, struct ib_conn *, struct ib_message *),
                                struct ib_message *first)
{
    struct ib_end *end = calloc(1, sizeof *end);

    if (end == NULL)
        return NULL;
    end->user = user;
    end->box = box;
    end->conn.path = *path;
    soft_mutex_lock(&ib_port.lock);
    ib_port.ends++;
    (void)start(&ib_port.world, &end->conn, first);
    unlock_port();
    return end;
}

struct ib_end *ib_port_connect(struct ib_box *box, struct cm_id *user, const struct soft_path *path,
                               struct ib_message *req)
{
    return begin_end(box, user, path, ib_connect, req);
}

struct ib_end *ib_port_ask(struct ib_box *box, struct cm_id *user, const struct soft_path *path,
                           struct ib_message *question)
{
    return begin_end(box, user, path, ib_ask, question);
}

int ib_port_accept(struct ib_end *end, struct ib_message *rep)
{
    int error;

    soft_mutex_lock(&ib_port.lock);
    error = ib_accept(&ib_port.world, &end->conn, rep);
    unlock_port();
    return error;
}

int ib_port_reply(struct ib_end *end, struct ib_message *reply)
{
    int error;

    soft_mutex_lock(&ib_port.lock);
    error = ib_reply(&ib_port.world, &end->conn, reply);
    unlock_port();
    return error;
}

int ib_port_refuse(struct ib_end *end, unsigned reason, const void *data, size_t length)
{
    int error;

    soft_mutex_lock(&ib_port.lock);
    error = ib_refuse(&ib_port.world, &end->conn, reason, data, length);
    unlock_port();
    return error;
}

int ib_port_establish(struct ib_end *end)
{
    int error;

    soft_mutex_lock(&ib_port.lock);
    error = ib_establish(&ib_port.world, &end->conn);
    unlock_port();
    return error;
}

int ib_port_disconnect(struct ib_end *end)
{
    int error;

    soft_mutex_lock(&ib_port.lock);
    error = ib_disconnect(&ib_port.world, &end->conn);
    unlock_port();
    return error;
}

bool ib_port_is_heard(const struct ib_end *end)
{
    bool heard;

    soft_mutex_lock(&ib_port.lock);
    heard = end->conn.state != IB_REQ_SENT && end->conn.state != IB_ASKED;
    soft_mutex_unlock(&ib_port.lock);
    return heard;
}

/* How likely a duplicate request is: ASKED, the request is not answered, or the peer may not have the answer; PERHAPS,
 * the answer of a look-up may have been lost; LATE, only a delayed packet would be one. */
enum need { NONE, LATE, PERHAPS, ASKED };

static enum need need_of_inbox(const struct ib_conn *conn)
{
    switch (conn->state) {
    case IB_REQUESTED:
    case IB_REP_SENT:
    case IB_REP_HEARD:
    case IB_QUESTIONED:
        return ASKED;
    case IB_ANSWERED:
        return PERHAPS;
    case IB_ESTABLISHED:
        return LATE;
    case IB_IDLE:
    case IB_REQ_SENT:
    case IB_REQ_HEARD:
    case IB_REPLIED:
    case IB_DREQ_SENT:
    case IB_TIMEWAIT:
    case IB_ASKED:
        break;
    }
    return NONE;
}

/* (locked) Whether the endpoint may keep a inbox. At the limit, closes the oldest inbox with the lowest need, if this
 * one's is higher. */
static bool has_room_for_inbox(const struct ib_conn *asked)
{
    enum need need = need_of_inbox(asked), least = need;
    struct ib_conn *conn, *gives_way = NULL;

    if (need == NONE || ib_port.kept_open < IB_KEPT_OPEN_MAX)
        return need != NONE;
    LIST_FOREACH (conn, &ib_port.world.conns, all) /* the newest first */
        if (((struct ib_end *)conn)->has_inbox && need_of_inbox(conn) < need && need_of_inbox(conn) <= least) {
            least = need_of_inbox(conn);
            gives_way = conn;
        }
    if (gives_way != NULL)
        ib_end_close_inbox((struct ib_end *)gives_way);
    return gives_way != NULL;
}

/* (locked) When its listener is closed: opens a inbox for a request that may arrive again. Another process may read the
 * duplicate, and would otherwise pass it to another listener, or refuse it. `came_to` is cleared, because a later
 * listener may have the same address in memory. */
static void keep_open(struct ib_end *end, const struct ib_end *listener)
{
    const struct ib_conn *conn = &end->conn;
    struct ib_pass_name name;

    if (end->came_to != listener)
        return;
    end->came_to = NULL;
    if (!has_room_for_inbox(conn))
        return;
    name = conn->state == IB_QUESTIONED || conn->state == IB_ANSWERED
               ? ib_pass_to_question(&conn->path.remote, conn->transaction, conn->remote_id)
               : ib_pass_to_request(&conn->path.remote, conn->remote_guid, conn->remote_id);
    (void)open_inbox(end, &name);
    ib_port.kept_open += end->has_inbox;
}

/* (locked) Frees requests that the user has not seen, and removes the listener. */
static void stop_listening(struct ib_end *listener)
{
    struct ib_conn *conn = LIST_FIRST(&ib_port.world.conns), *next;

    for (; conn != NULL; conn = next) {
        next = LIST_NEXT(conn, all);
        if (((struct ib_end *)conn)->listener == listener)
            ib_end_free((struct ib_end *)conn);
        else
            keep_open((struct ib_end *)conn, listener);
    }
    LIST_REMOVE(listener, listeners);
}

void ib_port_leave(struct ib_end *end)
{
    soft_mutex_lock(&ib_port.lock);
    ib_end_unpost(end);
    end->user = NULL;
    if (end->backlog > 0)
        stop_listening(end);
    if (end->conn.state == IB_ESTABLISHED)
        (void)ib_disconnect(&ib_port.world, &end->conn);
    if (end->conn.state == IB_QUESTIONED)
        (void)ib_refuse(&ib_port.world, &end->conn, IB_CONSUMER, "", 0);
    if (end->conn.state != IB_DREQ_SENT && end->conn.state != IB_TIMEWAIT && end->conn.state != IB_ANSWERED)
        ib_end_free(end);
    unlock_port();
}

void ib_port_adopt(struct ib_end *end, struct cm_id *user)
{
    soft_mutex_lock(&ib_port.lock);
    end->user = user;
    soft_mutex_unlock(&ib_port.lock);
}

/* Requests that the user of a listener has not seen move with it. */
void ib_port_move(struct ib_end *end, struct ib_box *box)
{
    struct ib_conn *conn;

    soft_mutex_lock(&ib_port.lock);
    LIST_FOREACH (conn, &ib_port.world.conns, all) {
        struct ib_end *other = (struct ib_end *)conn;
        bool was_queued = other->queued;

        if (other != end && other->listener != end)
            continue;
        ib_end_unpost(other);
        other->box = box;
        if (was_queued)
            ib_end_post(other);
    }
    end->box = box;
    soft_mutex_unlock(&ib_port.lock);
}

/* (locked) Takes the endpoint's first event. */
static void take_first(struct ib_end *end, struct ib_news *news)
{
    *news = (struct ib_news){.user = end->user, .end = end, .said = end->said, .path = end->conn.path};
    if (end->requested) {
        news->requested = true;
        news->user = end->user = end->listener->user;
        end->requested = false;
        ib_end_untake(end);
        return;
    }
    while ((end->events & 1u << news->event) == 0)
        news->event++;
    end->events &= ~(1u << news->event);
}

bool ib_port_next(struct ib_box *box, struct ib_news *news)
{
    struct ib_end *end;

    soft_mutex_lock(&ib_port.lock);
    end = TAILQ_FIRST(&box->news);
    if (end != NULL) {
        ib_end_unpost(end);
        take_first(end, news);
        if (end->events != 0)
            ib_end_post(end);
    } else {
        doorbell_drain(&box->wakefd);
    }
    soft_mutex_unlock(&ib_port.lock);
    return end != NULL;
}

/* ---- Closing the port ---- */

void ib_port_settle(void)
{
    struct ib_conn *conn;

    if (!soft_mutex_trylock(&ib_port.lock))
        return;
    LIST_FOREACH (conn, &ib_port.world.conns, all)
        (void)ib_disconnect(&ib_port.world, conn); /* fails in other states than ESTABLISHED */
    soft_mutex_unlock(&ib_port.lock);
}

/* The remaining endpoints have no user: they wait for a peer's last message, or in TIMEWAIT. The service thread may
 * still run the additional task once, which then finds nothing to do. */
void ib_port_end(void)
{
    struct ib_conn *conn;

    soft_mutex_lock(&ib_port.lock);
    if (ib_port.epoll != -1 && LIST_EMPTY(&ib_port.listeners)) {
        service_task(-1, run_port);
        while ((conn = LIST_FIRST(&ib_port.world.conns)) != NULL)
            ib_end_free((struct ib_end *)conn);
        close_sockets();
    }
    soft_mutex_unlock(&ib_port.lock);
}

void ib_port_forget(void)
{
    pthread_mutex_init(&ib_port.lock, NULL);
    LIST_INIT(&ib_port.world.conns);
    LIST_INIT(&ib_port.listeners);
    ib_port.epoll = -1;
    ib_port.ends = ib_port.kept_open = 0;
    ib_pass_forget();
}
