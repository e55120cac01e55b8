/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * accept.c - the passive side: a listener, its requests and its accepts, and which queues watch the listener.
 * incoming.c matches connections with accepts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/log.h"
#include "core/conn/conn.h"
#include "core/conn/upcalls.h"
#include "core/debug/misuse.h"
#include "core/device/registry.h"
#include "core/queue/ask.h"
#include "core/queue/upcalls.h"
#include "core/queue/wait.h"
#include "poll.h"
#include "sock.h"

static void refuse_request(struct rdma_cm_id *id, int device, int reason)
{
    struct hello hello = {.magic = HELLO_MAGIC, .version = HELLO_VERSION, .reason = (uint8_t)reason};
    uint8_t private_data[HELLO_SIZE];

    xs_hello_pack(&hello, private_data);
    xs_device(device)->reject(id, private_data, sizeof(private_data));
    xs_device(device)->destroy_id(id);
}

static const char *why_refused(int reason)
{
    return reason == HELLO_BAD_TYPE      ? "SOCK_STREAM meets SOCK_SEQPACKET"
           : reason == HELLO_BAD_VERSION ? "the peer has an incompatible version of EXS"
                                         : "the peer is not an EXS socket";
}

/* Requests are answered for the accepts in turn: one for each accept before any accept gets a second. NULL: no
 * accept is pending. */
static struct op *next_accept(const struct sock *listener)
{
    return listener->next_accept != NULL ? listener->next_accept : STAILQ_FIRST(&listener->accepts);
}

/* ---- Queues that poll the listener ------------------------------------------------------------ */

/* Only the queues of the first WATCHERS_MAX accepts register the listener's descriptors and poll it: a
 * connection request would wake all of them, and the kernel limits how many epoll sets may watch one
 * descriptor. The other queues are on the standby list. They poll the listener on a timer, because the
 * registered queues may all be busy for long. A standby queue that finds something first changes places with
 * the registered queue that has not polled the listener for the longest time. */
#define WATCHERS_MAX 8

/* Attach the listener's queue (home) to this queue if there is room, or if a host that has no use for the
 * listener any more makes room. Returns 1 if attached, 0 if there is no room, -1 and errno. */
static int begin_watching(struct sock *listener, struct queue *queue)
{
    struct queue *home = atomic_load(&listener->home);
    const struct attachment *attachment;
    int count = 0;

    LIST_FOREACH (attachment, &home->hosts.list, of_home)
        count++;
    if (count >= WATCHERS_MAX && !xs_detach_idle_hosts(home, true))
        return 0;
    return xs_queue_host(queue, home) < 0 ? -1 : 1;
}

/* A queue has no accept at this listener any more: promote the first queue of the standby list. If that fails because
 * no descriptor or memory is available, it stays on the list. */
static void call_next(struct sock *listener)
{
    const struct attachment *first = TAILQ_FIRST(&atomic_load(&listener->home)->hosts.standby);

    if (first != NULL)
        (void)begin_watching(listener, first->host);
}

/* The host whose last poll of the listener is the longest ago, except those with a pending exs_poll of the
 * listener. NULL: there is none. */
static struct attachment *longest_away(const struct sock *listener)
{
    const struct queue *home = atomic_load(&listener->home);
    struct attachment *attachment, *found = NULL;

    LIST_FOREACH (attachment, &home->hosts.list, of_home) {
        if (xs_poll_waits(listener, attachment->host))
            continue;
        if (found == NULL || home->hosts.visits - attachment->visit > home->hosts.visits - found->visit)
            found = attachment;
    }
    return found;
}

static struct sock *listener_at(const struct queue *home)
{
    struct sock *sock;

    LIST_FOREACH (sock, &home->socks, at_home) {
        if (sock->state == SOCK_LISTENING)
            break;
    }
    return sock;
}

/* If a promotion fails for lack of resources, it is tried again at the queue's next timer. */
void xs_standby_polled(struct queue *home, struct attachment *attachment, bool found)
{
    struct sock *listener = listener_at(home);

    if (listener != NULL && begin_watching(listener, attachment->host) == 0 && found) {
        struct attachment *other = longest_away(listener);

        if (other != NULL) {
            xs_queue_demote(other);
            (void)xs_queue_host(attachment->host, home);
        }
    }
    if (attachment->on_standby)
        xs_queue_look_again(attachment);
}

struct op *xs_accept_told(struct sock *listener, struct op *op)
{
    return op->accept.multishot
               ? xs_sock_op(listener, op->pool, EXS_EVT_ACCEPT, op->event.exs_evt_ahandle, NULL)
               : op;
}

void xs_accept_spent(struct sock *listener, struct op *op)
{
    if (listener->next_accept == op)
        listener->next_accept = STAILQ_NEXT(op, link);
    STAILQ_REMOVE(&listener->accepts, op, op, link);
    if (op->waiter != NULL)
        return;
    struct attachment *attachment = xs_queue_attachment(op->pool, atomic_load(&listener->home));

    xs_attachment_use_unlocked(attachment, -1);
    if (--attachment->accepts > 0)
        return;
    if (attachment->on_standby)
        xs_queue_unhost(attachment);
    else
        call_next(listener);
}

void xs_accepts_end(struct sock *listener, int error)
{
    struct queue *home = atomic_load(&listener->home);
    struct attachment *attachment;
    struct op *op;

    LIST_FOREACH (attachment, &home->hosts.list, of_home) {
        xs_attachment_use_unlocked(attachment, -attachment->accepts);
        attachment->accepts = 0;
    }
    while ((attachment = TAILQ_FIRST(&home->hosts.standby)) != NULL)
        xs_queue_unhost(attachment);
    listener->next_accept = NULL;
    while ((op = STAILQ_FIRST(&listener->accepts)) != NULL) {
        STAILQ_REMOVE_HEAD(&listener->accepts, link);
        op->accept.element->exs_socket = -1;
        op->event.exs_evt_union.exs_evt_accept.exs_evt_newsocket = -1;
        xs_op_complete(op, error);
    }
}

/* A queue starts `count` more accepts: attach the listener's home to it, or put it on the home's standby list. -1 and
 * errno. */
static int add_accepts(struct sock *listener, struct queue *queue, int count)
{
    struct queue *home = atomic_load(&listener->home);

    if (xs_queue_attachment(queue, home) == NULL) {
        int result = begin_watching(listener, queue);

        if (result < 0 || (result == 0 && xs_queue_add_standby(queue, home) < 0))
            return -1;
    }
    struct attachment *attachment = xs_queue_attachment(queue, home);

    attachment->accepts += count;
    xs_attachment_use_unlocked(attachment, count);
    return 0;
}

/* Append accepts to the pending ones, and let their queue poll the listener. `queue` is NULL for a blocking call. -1
 * and errno. */
static int append_accepts(struct sock *listener, struct queue *queue, struct op_list *ops, int count)
{
    if (queue != NULL && add_accepts(listener, queue, count) < 0)
        return -1;
    if (listener->next_accept == NULL)
        listener->next_accept = STAILQ_FIRST(ops);
    STAILQ_CONCAT(&listener->accepts, ops);
    return 0;
}

/* ---- Requests ------------------------------------------------------------------------------------ */

/* Answer a request for this accept, which a request that is not valid, and is refused, does not use. Called with the
 * listener's lock. */
static void answer_request(struct sock *listener, struct request *request, struct op *op)
{
    struct hello peer;
    int reason = xs_hello_unpack(&peer, request->private_data, request->length, listener->type);

    if (reason != HELLO_OK) {
        xs_log("refused a connection: %s", why_refused(reason));
        refuse_request(request->id, request->device, reason);
        return;
    }
    listener->next_accept = STAILQ_NEXT(op, link);
    if (!xs_incoming_request(listener, request, &peer, op)) {
        xs_log("refused a connection: %s", strerror(errno));
        refuse_request(request->id, request->device, HELLO_NO_RESOURCES);
    }
}

/* Take the next request to answer, which the caller then owns. NULL: none can be answered now. */
static struct request *take_request(struct sock *listener)
{
    const struct op *op = next_accept(listener);
    struct request *request = TAILQ_FIRST(&listener->requests);

    if (op == NULL || request == NULL)
        return NULL;
    enum incoming_room room = xs_incoming_room(listener, op);

    if (room == NO_ROOM)
        return NULL;
    if (room == ROOM_OF_THE_OLDEST)
        request = TAILQ_LAST(&listener->requests, requests);
    TAILQ_REMOVE(&listener->requests, request, link);
    listener->requests_held--;
    return request;
}

void xs_listener_match(struct sock *listener)
{
    struct request *request;

    xs_incoming_match(listener);
    while ((request = take_request(listener)) != NULL) {
        answer_request(listener, request, next_accept(listener));
        free(request);
    }
    xs_poll_look(listener);
}

#define WAIT_FOR_ROOM_MAX 4096

/* Make room for one more request. While no accept is pending, the application is busy: the listener holds as
 * many requests and arrived connections as its backlog allows, and refuses others. While an accept is pending,
 * requests wait only for room among the half-open connections, and the backlog does not limit a burst of them.
 * Any host can send requests, so at WAIT_FOR_ROOM_MAX the oldest one is refused. */
static bool make_place(struct sock *listener)
{
    struct request *oldest = TAILQ_FIRST(&listener->requests);

    if (STAILQ_EMPTY(&listener->accepts))
        return listener->requests_held + listener->arrived_count < listener->backlog;
    if (oldest == NULL || listener->requests_held < WAIT_FOR_ROOM_MAX ||
        listener->requests_held < listener->backlog)
        return true;
    TAILQ_REMOVE(&listener->requests, oldest, link);
    listener->requests_held--;
    refuse_request(oldest->id, oldest->device, HELLO_NO_RESOURCES);
    free(oldest);
    return true;
}

void xs_listener_request(struct sock *listener, struct rdma_cm_event *event, int device)
{
    struct request *request = NULL;

    event->id->context = NULL;
    if (listener->state == SOCK_LISTENING && make_place(listener))
        request = malloc(sizeof(*request));
    if (request == NULL) {
        refuse_request(event->id, device, HELLO_NO_RESOURCES);
        return;
    }
    request->id = event->id;
    request->device = device;
    request->length = event->param.conn.private_data_len;
    request->reads_wanted = event->param.conn.responder_resources;
    request->reads_served = event->param.conn.initiator_depth;
    if (request->length > 0)
        memcpy(request->private_data, event->param.conn.private_data, request->length);
    TAILQ_INSERT_TAIL(&listener->requests, request, link);
    listener->requests_held++;
    xs_listener_match(listener);
}

bool xs_listener_hears(const struct sock *listener)
{
    for (int device = 0; device < xs_devices(); device++) {
        if (listener->id[device] != NULL)
            return true;
    }
    return false;
}

void xs_listener_lost(struct sock *listener, int device)
{
    xs_sock_drop_id(listener, device);
    if (!xs_listener_hears(listener))
        xs_accepts_end(listener, ENODEV);
    xs_poll_look(listener);
}

/* Start one operation for each element, in order, or none. Called with the listener's lock. */
static int start_accepts(struct sock *listener, const struct ask *ask, struct queue *queue)
{
    exs_acceptaddr_t *addrvec = ask->accepts;
    struct waiter *waiter = ask->waiter;
    struct op_list ops = STAILQ_HEAD_INITIALIZER(ops);
    struct op *op;

    for (int i = 0; i < ask->count; i++) {
        op = xs_sock_op(listener, queue, EXS_EVT_ACCEPT, addrvec[i].exs_ahandle, waiter);
        if (op == NULL)
            goto unwind;
        op->accept.element = &addrvec[i];
        if (xs_misuse_on)
            xs_held_begin_element(op);
        op->accept.multishot = (ask->flags & EXS_MULTISHOT) != 0;
        if (listener->receive_limit != 0 && !op->accept.multishot)
            xs_limit(listener, op, listener->receive_limit);
        STAILQ_INSERT_TAIL(&ops, op, link);
    }
    if (append_accepts(listener, waiter == NULL ? queue : NULL, &ops, ask->count) < 0)
        goto unwind;
    xs_listener_match(listener);
    return 0;
unwind:
    while ((op = STAILQ_FIRST(&ops)) != NULL) {
        STAILQ_REMOVE_HEAD(&ops, link);
        if (xs_misuse_on)
            xs_held_end(op);
        xs_op_cancel(op);
    }
    return -1;
}

/* An accept that must not wait found no connection: answer the requests, as for a blocking accept, so that a later accept
 * finds the connections. */
static void answer_requests(struct sock *listener)
{
    struct waiter none = {0};
    struct op stand_in = {.waiter = &none};

    if (!STAILQ_EMPTY(&listener->accepts))
        return; /* requests wait only for room */
    while (listener->requests_held > 0 && xs_incoming_room(listener, &stand_in) == ROOM) {
        struct request *request = TAILQ_FIRST(&listener->requests);

        TAILQ_REMOVE(&listener->requests, request, link);
        listener->requests_held--;
        answer_request(listener, request, &stand_in);
        free(request);
    }
}

/* One element stands for all connections, so it has no room for their addresses. */
static int check_multishot(const struct ask *ask)
{
    if (ask->waiter != NULL)
        return xs_invalid("flags has both EXS_BLOCK and EXS_MULTISHOT");
    if (ask->count != 1)
        return xs_invalid("addrvec_cnt is %d: with EXS_MULTISHOT one", ask->count);
    if (ask->accepts->exs_addr != NULL)
        return xs_invalid("exs_addr is not NULL: with EXS_MULTISHOT exs_getpeername tells an address");
    return 0;
}

static int check_vector(const struct ask *ask)
{
    const int known = EXS_BLOCK | EXS_MULTISHOT | EXS_INTR;

    if (ask->flags & ~known)
        return xs_bad_flags(ask->flags, known);
    if (ask->accepts == NULL)
        return xs_invalid("addrvec is NULL");
    if (ask->flags & EXS_MULTISHOT)
        return check_multishot(ask);
    if (ask->count < 1 || (ask->waiter != NULL && ask->count != 1))
        return xs_invalid("addrvec_cnt is %d: %s", ask->count,
                          ask->waiter != NULL ? "a call that blocks takes one" : "at least 1");
    return 0;
}

int xs_start_accept(const struct ask *ask)
{
    struct queue *queue;
    int result = -1;

    if (check_vector(ask) < 0)
        return -1;
    struct sock *listener = xs_sock_get_locked(ask->sockno);

    if (listener == NULL)
        return -1;
    if (!xs_check_queue(ask->qhandle, ask->waiter, false, &queue))
        ;
    else if (listener->state != SOCK_LISTENING)
        xs_invalid("socket %d does not listen", ask->sockno);
    else if (!xs_listener_hears(listener))
        errno = ENODEV;
    else if (ask->nonblocking && !xs_incoming_has_arrived(listener)) {
        answer_requests(listener);
        errno = EAGAIN;
    } else
        result = start_accepts(listener, ask, queue);
    xs_sock_put_locked(listener);
    xs_queue_put(queue);
    return result;
}
