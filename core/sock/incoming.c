/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * incoming.c - connections from a peer's request to the accept that returns them.
 *
 * A request is answered when an accept is pending, but does not consume it: the accept only determines the queue on
 * which the queue pair is made, the new socket's home. The accept is consumed when the connection is established.
 * Until then the socket is HALF_OPEN. Any host can create half-open sockets, so their number is limited. At the limit,
 * requests wait until a half-open connection is established, or until the oldest one has been silent for longer than
 * a correct peer is. That one is dropped, preferably one from the same host as the new request, so that one host
 * can't displace others; and the newest request is answered, so that a flood does not delay other peers. A connection
 * that is established while no accept is pending has ARRIVED. It is returned by an accept of its home or, after
 * OWN_LIMIT_NS, by any accept.
 *
 * Until then the application does not know the socket. It may delete the queue that is the socket's home; the queue
 * then exists for the socket alone.
 *
 * Half-open and arrived sockets are in lists of the listener, and their CM ids use its event channel, so the thread
 * that drives the listener drives them. The lists are guarded by the listener's lock, the sockets by the lock of
 * their home, and a change of state by both.
 */
#include <errno.h>
#include <string.h>
#include "core/base/clock.h"
#include "core/base/fds.h"
#include "core/base/log.h"
#include "core/base/settings.h"
#include "core/conn/conn.h"
#include "core/device/registry.h"
#include "core/queue/nic.h"
#include "sock.h"

#define ESTABLISH_LIMIT_NS (10 * NS_PER_S) /* maximum time half-open */
#define PATIENCE_NS NS_PER_S               /* half-open, while requests wait: on the software device */
#define NIC_PATIENCE_NS (5 * NS_PER_S)     /* on an RDMA adapter: a lost RTU is sent again after 4.3 s */
#define PATIENCE_LEAST_NS (NS_PER_S / 1000)
#define OWN_LIMIT_NS (NS_PER_S / 10) /* arrived, before an accept of another queue is used */
/* interval at which half-open connections on private queues are polled */
#define ALONE_LOOK_NS (NS_PER_S / 4)
#define HALF_OPEN_LEAST 256
#define HALF_OPEN_MOST 1024 /* if the process may have 8,192 descriptors */
/* half-open connections on private queues, which are expensive */
#define HALF_OPEN_ALONE_MAX 32

/* Patience: how long a half-open connection may be silent while requests wait. If silent connections have to be
 * closed to make room, the listener is being flooded: each of them halves its patience, and each connection
 * that is established doubles it, up to the full time. */
static uint64_t patience_most(const struct sock *sock)
{
    return xs_device(sock->device) == &soft_device ? PATIENCE_NS : NIC_PATIENCE_NS;
}

static uint64_t patience_with(const struct sock *listener, const struct sock *sock)
{
    uint64_t most = patience_most(sock);

    return listener->patience == 0 || listener->patience > most ? most : listener->patience;
}

static void lose_patience(struct sock *listener, const struct sock *sock)
{
    listener->patience = patience_with(listener, sock) / 2;
    if (listener->patience < PATIENCE_LEAST_NS)
        listener->patience = PATIENCE_LEAST_NS;
}

static void gain_patience(struct sock *listener)
{
    listener->patience *= 2;
    if (listener->patience > NIC_PATIENCE_NS)
        listener->patience = NIC_PATIENCE_NS;
}

static bool is_full(const struct sock *listener)
{
    if (settings()->half_open_max != 0)
        return listener->half_open_count >= settings()->half_open_max;
    return listener->half_open_count >= HALF_OPEN_LEAST &&
           listener->half_open_count >= (int)fds_share(HALF_OPEN_LEAST, HALF_OPEN_MOST);
}

static void count_half_open(struct sock *listener, const struct sock *sock, int change)
{
    listener->half_open_count += change;
    if (sock->alone)
        listener->half_open_private += change;
}

/* Remove the socket from the listener's lists. Called with both locks. */
static void take_out(struct sock *listener, struct sock *sock)
{
    if (sock->state == SOCK_HALF_OPEN) {
        TAILQ_REMOVE(&listener->half_open, sock, incoming);
        count_half_open(listener, sock, -1);
    } else {
        TAILQ_REMOVE(&listener->arrived, sock, incoming);
        listener->arrived_count--;
    }
    sock->listener = NULL;
}

/* Free a socket that the application never saw. Called with the lock of the socket's queue. */
static void free_incoming(struct sock *sock)
{
    if (sock->conn != NULL)
        xs_conn_free(sock->conn);
    sock->conn = NULL;
    xs_sock_drop_id(sock, sock->device);
    sock->state = SOCK_FRESH;
    xs_sock_leave(sock);
}

/* Lock the socket's queue and take a reference to it, because the socket may hold the last one. */
static struct queue *lock_home(struct sock *sock)
{
    struct queue *home = atomic_load(&sock->home);

    xs_queue_ref(home);
    mutex_lock(&home->lock);
    return home;
}

static void unlock_home(struct queue *home)
{
    xs_queue_unlock(home);
    xs_queue_unref(home);
}

/* Called with the listener's lock. */
static void end_incoming(struct sock *listener, struct sock *sock)
{
    struct queue *home = lock_home(sock);

    if (sock->state == SOCK_ARRIVED && !conn_broken(sock->conn))
        xs_conn_fail(sock->conn, ECONNRESET); /* this informs the peer */
    take_out(listener, sock);
    free_incoming(sock);
    unlock_home(home);
}

/* ---- Time ---------------------------------------------------------------------------------------- */

static void set_alarm(struct sock *listener)
{
    const struct sock *half_open = TAILQ_FIRST(&listener->half_open),
                      *arrived = TAILQ_FIRST(&listener->arrived);

    if (half_open != NULL)
        xs_sock_wake_by(listener, half_open->since + ESTABLISH_LIMIT_NS);
    if (listener->half_open_private > 0)
        xs_sock_wake_by(listener, ns_after(now_ns(), ALONE_LOOK_NS));
    if (arrived != NULL && !STAILQ_EMPTY(&listener->accepts))
        xs_sock_wake_by(listener, arrived->since + OWN_LIMIT_NS);
}

/* ---- Arrival ------------------------------------------------------------------------------------- */

static void tell_accept(struct op *op, const struct sock *sock)
{
    exs_evt_accept_t *event = &op->event.exs_evt_union.exs_evt_accept;
    exs_acceptaddr_t none = {0}, *element = op->accept.element != NULL ? op->accept.element : &none;

    event->exs_evt_newsocket = sock->number;
    xs_copy_address(sock->family, &sock->id[sock->device]->route.addr.dst_addr, element->exs_addr,
                    &element->exs_addrlen);
    element->exs_socket = sock->number;
    event->exs_evt_addr = element->exs_addr;
    event->exs_evt_addrlen = element->exs_addrlen;
}

/* Move the socket's CM id to the channel of its queue, and attach that queue to the queue of the accept. Called
 * with both locks; -1 and errno. */
static int bring_home(struct sock *sock, const struct op *op)
{
    struct queue *home = atomic_load(&sock->home);
    struct rdma_event_channel *channel = xs_queue_channel(home, sock->device);

    if (channel == NULL || xs_device(sock->device)->migrate_id(sock->id[sock->device], channel) < 0)
        return -1;
    if (op->waiter != NULL)
        return 0;
    if (xs_queue_host(op->pool, home) < 0)
        return -1;
    xs_sock_own(sock, op->pool);
    return 0;
}

/* Does the accept name the socket's queue? Or, for a socket on a private queue: does the accept block, too? */
static bool is_own(const struct sock *sock, const struct op *op)
{
    return op->waiter != NULL ? sock->alone : op->pool == atomic_load(&sock->home);
}

/* Give the connection to the accept. If that fails, the accept stays pending. Called with the listener's
 * lock. */
static void give_to_accept(struct sock *listener, struct op *op, struct sock *sock)
{
    struct queue *home = lock_home(sock);
    struct op *told = xs_accept_told(listener, op);

    take_out(listener, sock);
    if (told != NULL && bring_home(sock, op) == 0) {
        if (told == op)
            xs_accept_spent(listener, op);
        sock->state = SOCK_CONNECTED;
        xs_probe_start(sock->conn);
        if (sock->options.user_timeout != 0)
            xs_conn_limit_outage(sock->conn);
        xs_sock_publish(sock);
        tell_accept(told, sock);
        xs_op_complete(told, 0);
        xs_conn_run(sock->conn);
    } else {
        xs_log("accepting a connection failed: %s", strerror(errno));
        if (told != NULL && told != op)
            xs_op_cancel(told);
        free_incoming(sock);
    }
    unlock_home(home);
}

/* Find an accept of the queue that drives the socket; after OWN_LIMIT_NS any accept. NULL: none so far. */
static struct op *accept_for(struct sock *listener, const struct sock *sock, uint64_t now)
{
    struct op *op;

    STAILQ_FOREACH (op, &listener->accepts, link) {
        if (is_own(sock, op))
            return op;
    }
    return now - sock->since >= OWN_LIMIT_NS ? STAILQ_FIRST(&listener->accepts) : NULL;
}

bool xs_incoming_has_arrived(const struct sock *listener)
{
    const struct sock *sock;
    uint64_t now = now_ns();

    TAILQ_FOREACH (sock, &listener->arrived, incoming) {
        if (sock->alone || now - sock->since >= OWN_LIMIT_NS)
            return true;
    }
    return false;
}

void xs_incoming_match(struct sock *listener)
{
    struct sock *sock, *next;

    if (TAILQ_EMPTY(&listener->arrived))
        return;
    uint64_t now = now_ns();

    for (sock = TAILQ_FIRST(&listener->arrived); sock != NULL; sock = next) {
        struct op *op = accept_for(listener, sock, now);

        next = TAILQ_NEXT(sock, incoming);
        if (op != NULL)
            give_to_accept(listener, op, sock);
    }
    set_alarm(listener);
}

static void add_incoming(struct sock *listener, struct sock *sock)
{
    struct queue *home = lock_home(sock);

    take_out(listener, sock);
    sock->listener = listener;
    sock->state = SOCK_ARRIVED;
    sock->since = now_ns();
    TAILQ_INSERT_TAIL(&listener->arrived, sock, incoming);
    listener->arrived_count++;
    gain_patience(listener);
    xs_conn_opened(sock->conn);
    unlock_home(home);
    xs_listener_match(listener);
}

static void break_incoming(struct sock *sock)
{
    struct queue *home = lock_home(sock);

    xs_conn_fail(sock->conn, ECONNRESET); /* what the peer sent before can still be received */
    unlock_home(home);
}

void xs_incoming_event(struct sock *sock, const struct rdma_cm_event *event)
{
    struct sock *listener = sock->listener;

    if (sock->state == SOCK_HALF_OPEN && event->event == RDMA_CM_EVENT_ESTABLISHED) {
        add_incoming(listener, sock);
    } else if (sock->state == SOCK_ARRIVED && event->event == RDMA_CM_EVENT_DISCONNECTED) {
        break_incoming(sock);
    } else if (sock->state == SOCK_HALF_OPEN || event->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
        end_incoming(listener, sock);
        xs_listener_match(listener);
    }
}

/* A message from the peer shows that it is ready, even if its RTU was lost (life.c). No other thread polls a
 * private queue before the accept. */
static void check_private_half_open(struct sock *listener)
{
    struct sock *sock;

    TAILQ_FOREACH (sock, &listener->half_open, incoming) {
        if (!sock->alone)
            continue;
        struct queue *home = lock_home(sock);

        xs_nic_look_once(sock->conn->nic);
        unlock_home(home);
    }
}

void xs_incoming_timeout(struct sock *listener)
{
    uint64_t now = now_ns();
    struct sock *sock;

    while ((sock = TAILQ_FIRST(&listener->half_open)) != NULL && now - sock->since >= ESTABLISH_LIMIT_NS)
        end_incoming(listener, sock);
    if (listener->half_open_private > 0)
        check_private_half_open(listener);
    listener->listened = true;
    xs_listener_match(listener);
    listener->listened = false;
    set_alarm(listener);
}

/* ---- Requests ------------------------------------------------------------------------------------ */

/* A half-open connection counts as silent only after its events have been handled, because this process may be the one
 * that is late. A pass over the queue handles events before timers, so this is known only while the listener's timer is
 * handled (`listened`). */
enum incoming_room xs_incoming_room(struct sock *listener, const struct op *op)
{
    bool alone = op->waiter != NULL;
    const struct sock *oldest;

    if (!is_full(listener) && (!alone || listener->half_open_private < HALF_OPEN_ALONE_MAX))
        return ROOM;
    TAILQ_FOREACH (oldest, &listener->half_open, incoming) {
        if (!alone || oldest->alone)
            break;
    }
    if (oldest == NULL || (listener->listened && now_ns() - oldest->since >= patience_with(listener, oldest)))
        return ROOM_OF_THE_OLDEST;
    xs_sock_wake_by(listener, oldest->since + patience_with(listener, oldest));
    return NO_ROOM;
}

/* Drop the oldest half-open connection: only one on a private queue if `alone`; one from the same host as
 * `from` if there is one; and, unless `at_once`, only one that has been silent for longer than the patience.
 * False: there is none. */
static bool make_room(struct sock *listener, bool alone, const struct sockaddr *from, bool at_once)
{
    struct sock *sock, *oldest = NULL;
    uint64_t now = now_ns();

    TAILQ_FOREACH (sock, &listener->half_open, incoming) {
        if (!at_once && now - sock->since < patience_with(listener, sock))
            continue;
        if (alone && !sock->alone)
            continue;
        if (oldest == NULL)
            oldest = sock;
        if (xs_same_host(from, &sock->id[sock->device]->route.addr.dst_addr)) {
            oldest = sock;
            break;
        }
    }
    if (oldest == NULL)
        return false;
    xs_log("too many half-open connections: dropped the oldest one");
    if (!at_once)
        lose_patience(listener, oldest);
    end_incoming(listener, oldest);
    return true;
}

/* Make the new socket's queue pair, and answer the peer. The id is moved to the channel of the socket's queue
 * for a moment, so that the queue pair is made on that queue's device context. Called with both locks; -1 and
 * errno. */
static int answer_peer(struct sock *listener, struct sock *sock, const struct request *request,
                       const struct hello *peer)
{
    const struct device *device = xs_device(sock->device);
    struct rdma_event_channel *channel = xs_queue_channel(atomic_load(&sock->home), sock->device);
    struct rdma_cm_id *id = sock->id[sock->device];
    uint8_t hello[HELLO_SIZE];

    if (channel == NULL || device->migrate_id(id, channel) < 0)
        return -1;
    id->context = sock;
    sock->conn = xs_conn_new(sock, id, device);
    if (sock->conn == NULL ||
        device->migrate_id(id, xs_queue_channel(atomic_load(&listener->home), sock->device)) < 0)
        return -1;
    xs_conn_reads(sock->conn, request->reads_wanted, request->reads_served);
    xs_conn_peer(sock->conn, peer);
    struct rdma_conn_param param = xs_conn_param(sock->conn, hello);

    return device->accept(id, &param);
}

static void put_in(struct sock *listener, struct sock *sock)
{
    sock->listener = listener;
    sock->state = SOCK_HALF_OPEN;
    sock->since = now_ns();
    TAILQ_INSERT_TAIL(&listener->half_open, sock, incoming);
    count_half_open(listener, sock, 1);
    set_alarm(listener);
}

/* Called without the lock of `home`. */
static void begin_incoming(struct sock *listener, struct sock *sock, struct queue *home, bool alone,
                           struct request *request, const struct hello *peer)
{
    mutex_lock(&home->lock);
    xs_sock_settle(sock, home);
    sock->alone = alone;
    sock->device = request->device;
    sock->id[sock->device] = request->id;
    if (answer_peer(listener, sock, request, peer) == 0) {
        put_in(listener, sock);
    } else {
        xs_log("accepting a connection failed: %s", strerror(errno));
        free_incoming(sock);
    }
    xs_queue_unlock(home);
}

/* Make a socket, and choose the queue that will drive it: the accept's, or a private one for a blocking accept.
 * Returns a reference to each; false and errno. */
static bool make_incoming(const struct sock *listener, const struct op *op, struct sock **sock,
                          struct queue **home)
{
    if (op->waiter == NULL)
        xs_queue_ref(op->pool);
    *home = op->waiter == NULL ? op->pool : xs_queue_new(true, 0);
    if (*home == NULL)
        return false;
    *sock = xs_sock_new(listener->family, listener->type);
    if (*sock == NULL) {
        xs_queue_unref(*home);
        return false;
    }
    (*sock)->options = listener->options;
    xs_sends_bound_changed(*sock);
    return true;
}

bool xs_incoming_request(struct sock *listener, struct request *request, const struct hello *peer,
                         const struct op *op)
{
    const struct sockaddr *from = &request->id->route.addr.dst_addr;
    struct sock *sock;
    struct queue *home;

    if (op->waiter != NULL && listener->half_open_private >= HALF_OPEN_ALONE_MAX)
        make_room(listener, true, from, false);
    else if (is_full(listener))
        make_room(listener, false, from, false);
    while (!make_incoming(listener, op, &sock, &home)) {
        int error = errno;

        if (!make_room(listener, false, from, true)) { /* this frees a descriptor */
            errno = error;
            return false;
        }
    }
    begin_incoming(listener, sock, home, op->waiter != NULL, request, peer);
    xs_sock_put(sock);
    xs_queue_unref(home);
    return true;
}

/* ---- The end ------------------------------------------------------------------------------------- */

void xs_incoming_end_all(struct sock *listener)
{
    struct sock *sock;

    while ((sock = TAILQ_FIRST(&listener->half_open)) != NULL ||
           (sock = TAILQ_FIRST(&listener->arrived)) != NULL)
        end_incoming(listener, sock);
}
