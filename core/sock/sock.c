/* SPDX-License-Identifier: BSD-2-Clause */
/* sock.c - sockets: making them, the lock that guards them, and the queue that gets their events. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include "core/base/clock.h"
#include "core/base/entry.h"
#include "core/base/log.h"
#include "core/conn/conn.h"
#include "core/device/registry.h"
#include "core/queue/ask.h"
#include "core/queue/nic.h"
#include "core/queue/upcalls.h"
#include "core/queue/wait.h"
#include "calls.h"
#include "sock.h"

/* ---- Locking, and the queue that drives a socket (home) --------------------------------------- */

inline void xs_sock_lock(struct sock *sock)
{
    struct queue *home = atomic_load_explicit(&sock->home, memory_order_acquire);

    if (home == NULL) {
        pthread_mutex_lock(&sock->guard);
        home = atomic_load_explicit(&sock->home, memory_order_acquire);
        if (home == NULL)
            return;
        /* The socket got its home while this thread waited for the guard. */
        pthread_mutex_unlock(&sock->guard);
    }
    mutex_lock(&home->lock);
}

inline void xs_sock_unlock(struct sock *sock)
{
    struct queue *home = atomic_load_explicit(&sock->home, memory_order_acquire);

    if (home != NULL)
        xs_queue_unlock(home);
    else
        pthread_mutex_unlock(&sock->guard);
}

inline __attribute__((always_inline)) struct sock *xs_sock_get_locked(int number)
{
    struct sock *sock = xs_sock_get(number);

    if (sock == NULL)
        return NULL;
    xs_sock_lock(sock);
    if (sock->state != SOCK_CLOSING)
        return sock;
    xs_sock_put_locked(sock); /* the socket was closed while this thread waited for the lock */
    errno = EBADF;
    return NULL;
}

struct sock *xs_sock_enter(const char *call, int number)
{
    return xs_enter_socket(call, number) == 0 ? xs_sock_get_locked(number) : NULL;
}

inline void xs_sock_put_locked(struct sock *sock)
{
    xs_sock_unlock(sock);
    xs_sock_put(sock);
}

bool xs_sock_is_broken(int number)
{
    int saved = errno;
    struct sock *sock = xs_sock_get_locked(number);
    bool is_broken = sock != NULL && sock->conn != NULL && conn_broken(sock->conn);

    if (sock != NULL)
        xs_sock_put_locked(sock);
    errno = saved;
    return is_broken;
}

void xs_sock_settle(struct sock *sock, struct queue *queue)
{
    xs_queue_ref(queue);
    atomic_fetch_add(&sock->refs, 1);
    LIST_INSERT_HEAD(&queue->socks, sock, at_home);
    atomic_store_explicit(&sock->home, queue, memory_order_release);
}

void xs_sock_leave(struct sock *sock)
{
    struct queue *home = atomic_load(&sock->home);

    LIST_REMOVE(sock, at_home);
    if (home->handle == NULL && LIST_EMPTY(&home->socks))
        xs_queue_leave_hosts(home);
    xs_sock_put(sock);
}

/* An owner that does not drive the socket counts the socket as a use of the attachment (detach.c). */
static void count_migrated(const struct sock *sock, int change)
{
    struct queue *owner = sock->owner, *home = atomic_load(&sock->home);

    if (owner == NULL || owner == home)
        return;
    struct attachment *attachment = xs_queue_attachment(owner, home);

    mutex_lock(&owner->events.lock);
    owner->attached.migrated += change;
    xs_attachment_use(attachment, change);
    mutex_unlock(&owner->events.lock);
}

void xs_sock_own(struct sock *sock, struct queue *owner)
{
    sock->owner = owner;
    count_migrated(sock, 1);
}

void xs_sock_disown(struct sock *sock)
{
    count_migrated(sock, -1);
    sock->owner = NULL;
}

/* Make this queue, or a private one if it is NULL, the home of a socket that has none and whose guard is held. Returns
 * 0, with the queue's lock held instead of the guard; or -1 and errno. */
static int find_home(struct sock *sock, struct queue *queue)
{
    struct queue *home = queue != NULL ? queue : xs_queue_new(true, 0);

    if (home == NULL)
        return -1;
    mutex_lock(&home->lock);
    xs_sock_settle(sock, home);
    xs_sock_own(sock, queue);
    pthread_mutex_unlock(&sock->guard);
    if (queue == NULL)
        xs_queue_unref(home);
    return 0;
}

int xs_sock_home(struct sock *sock, struct queue *queue)
{
    return atomic_load(&sock->home) != NULL ? 0 : find_home(sock, queue);
}

bool xs_sock_has_peer(const struct sock *sock)
{
    return sock->conn != NULL || sock->opening != NULL;
}

bool xs_number_is_lost(int sockno)
{
    struct sock *sock = xs_sock_get(sockno);
    bool lost = sock != NULL && !xs_sock_has_number(sock);

    if (sock != NULL)
        xs_sock_put(sock);
    if (lost)
        xs_explain(EBADF,
                   "socket %d was closed by close(2), and its number may be another file's: use exs_close",
                   sockno);
    return lost;
}

bool xs_check_queue(exs_qhandle_t qhandle, struct waiter *waiter, bool optional, struct queue **queue)
{
    *queue = NULL;
    if (qhandle == NULL && (waiter != NULL || optional))
        return true;
    *queue = xs_queue_get(qhandle);
    if (*queue != NULL)
        return true;
    if (qhandle == NULL)
        xs_invalid("qhandle is NULL, and flags has no EXS_BLOCK");
    else
        xs_no_queue(qhandle);
    return false;
}

/* Out of line, because most operations don't need it. */
static __attribute__((noinline)) struct op *op_elsewhere(struct sock *sock, struct queue *to, int type,
                                                         exs_ahandle_t ahandle, struct waiter *waiter)
{
    struct queue *home = atomic_load(&sock->home);
    /* A close without a peer needs no queue to drive the socket. */
    bool at_once = type == EXS_EVT_CLOSE && !xs_sock_has_peer(sock);

    if (to == home)
        xs_ops_return(home);
    if (at_once || type == EXS_EVT_ACCEPT || to == home)
        return xs_op_new(to, NULL, type, sock->number, ahandle, waiter);
    if (xs_queue_host(to, home) < 0)
        return NULL;
    return xs_op_new(to, xs_queue_attachment(to, home), type, sock->number, ahandle, waiter);
}

static __attribute__((noinline)) struct op *op_otherwise(struct sock *sock, struct queue *queue, int type,
                                                         exs_ahandle_t ahandle, struct waiter *waiter)
{
    struct queue *home = atomic_load(&sock->home);
    struct queue *to = queue != NULL && waiter == NULL ? queue : home;
    bool at_home = to == home && type != EXS_EVT_ACCEPT; /* an accept may complete at another queue */
    struct op *op = at_home ? xs_op_new_at_home(to, type, sock->number, ahandle, waiter)
                            : op_elsewhere(sock, to, type, ahandle, waiter);

    if (op == NULL)
        return NULL;
    if (queue == NULL && waiter == NULL)
        op->silent = true;
    if (waiter != NULL) {
        xs_queue_ref(home);
        waiter->home = home;
    }
    return op;
}

/* Most operations complete at the queue that drives their socket, and no thread blocks in a call for them. */
inline __attribute__((always_inline)) struct op *xs_sock_op(struct sock *sock, struct queue *queue, int type,
                                                            exs_ahandle_t ahandle, struct waiter *waiter)
{
    if (queue != NULL && queue == atomic_load(&sock->home) && waiter == NULL && type != EXS_EVT_ACCEPT)
        return xs_op_new_at_home(queue, type, sock->number, ahandle, NULL);
    return op_otherwise(sock, queue, type, ahandle, waiter);
}

/* ---- CM ids and events --------------------------------------------------------------------------------- */

/* Set the options that must be set before the id has an address. -1 and errno. */
static int set_id(struct sock *sock, int device)
{
    int on = 1;

    if (sock->options.reuses && xs_device(device)->set_option(sock->id[device], RDMA_OPTION_ID,
                                                              RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)) < 0)
        return -1;
    if (sock->options.ipv6_only && xs_device(device)->set_option(sock->id[device], RDMA_OPTION_ID,
                                                                 RDMA_OPTION_ID_AFONLY, &on, sizeof(on)) < 0)
        return -1;
    return 0;
}

/* Make the socket's id on a device, on the channel of the socket's queue. -1 and errno. */
int xs_sock_id(struct sock *sock, int device)
{
    struct rdma_event_channel *channel;

    if (sock->id[device] != NULL)
        return 0;
    channel = xs_queue_channel(atomic_load(&sock->home), device);
    if (channel == NULL)
        return -1;
    if (xs_device(device)->create_id(channel, &sock->id[device], sock, RDMA_PS_TCP) < 0)
        return -1;
    if (set_id(sock, device) == 0)
        return 0;
    int error = errno;

    xs_sock_drop_id(sock, device);
    errno = error;
    return -1;
}

void xs_sock_drop_id(struct sock *sock, int device)
{
    if (sock->id[device] == NULL)
        return;
    xs_device(device)->destroy_id(sock->id[device]);
    sock->id[device] = NULL;
}

void xs_sock_unbind(struct sock *sock)
{
    for (int device = 0; device < xs_devices(); device++)
        xs_sock_drop_id(sock, device);
    sock->bound = false;
}

bool xs_device_is_gone(int error)
{
    return error == ENXIO || error == EIO;
}

void xs_sock_cm_event(struct sock *sock, struct rdma_cm_event *event, int device)
{
    if (sock == NULL)
        return;
    if (sock->listener != NULL) {
        xs_incoming_event(sock, event);
        return;
    }
    if (sock->state == SOCK_CONNECTING && sock->opening != NULL) {
        xs_connect_event(sock, event, device);
        return;
    }
    if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
        xs_log("socket %d: its device was removed", sock->number);
    switch (event->event) {
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        if (sock->state == SOCK_LISTENING)
            xs_listener_lost(sock, device);
        /* fall through */
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
        if (sock->conn != NULL)
            xs_conn_fail(sock->conn, ECONNRESET);
        break;
    default:
        break;
    }
}

void xs_sock_timeout(struct sock *sock)
{
    if (sock->state == SOCK_CONNECTING && sock->lookup != NULL)
        xs_host_timeout(sock);
    else if (sock->state == SOCK_CONNECTING && sock->opening != NULL)
        xs_connect_timeout(sock);
    else if (sock->state == SOCK_LISTENING)
        xs_incoming_timeout(sock);
    else if (sock->state == SOCK_CONNECTED && sock->probe_due != 0 && sock->probe_due <= now_ns())
        xs_probe(sock->conn);
    else if (sock->state == SOCK_CLOSING)
        xs_close_timeout(sock);
    xs_limits_look(sock);
    if (sock->conn != NULL)
        xs_tx_look(sock->conn);
}

/* ---- Calls --------------------------------------------------------------------------------------------- */

/* The thesis specifies this errno for all three arguments (5.3.11). */
static int refuse_kind(int family, int type, int protocol)
{
    if (family != PF_INET && family != PF_INET6)
        return xs_refuse(EAFNOSUPPORT, "family is %d: it must be PF_INET or PF_INET6", family);
    if (type == SOCK_DGRAM)
        return xs_refuse(EAFNOSUPPORT, "socktype is SOCK_DGRAM: EXS has no datagrams; SOCK_SEQPACKET keeps the "
                                       "boundaries of messages on a connection");
    if (type != SOCK_STREAM && type != SOCK_SEQPACKET)
        return xs_refuse(EAFNOSUPPORT, "socktype is %d: it must be SOCK_STREAM or SOCK_SEQPACKET", type);
    return xs_refuse(EAFNOSUPPORT, "protocol is %d: it must be 0, or IPPROTO_TCP for a SOCK_STREAM", protocol);
}

int exs_socket(int family, int socktype, int protocol)
{
    int flags = socktype & (SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (xs_enter(__func__) < 0)
        return -1;
    socktype &= ~flags;
    if ((family != PF_INET && family != PF_INET6) || (socktype != SOCK_STREAM && socktype != SOCK_SEQPACKET) ||
        (protocol != 0 && (protocol != IPPROTO_TCP || socktype != SOCK_STREAM)))
        return refuse_kind(family, socktype, protocol);
    struct sock *sock = xs_sock_new(family, socktype);

    if (sock == NULL)
        return -1;
    int number = sock->number;

    xs_sock_set_defaults(sock);
    if ((flags & SOCK_NONBLOCK) != 0)
        xs_sock_set_status(sock, O_NONBLOCK);
    xs_sock_publish(sock);
    xs_sock_put(sock);
    return number;
}

int exs_fcntl(int sockno, int cmd, ...)
{
    va_list arguments;
    int value = 0, result = 0;
    struct sock *sock = xs_sock_enter(__func__, sockno);

    if (sock == NULL)
        return -1;
    if (cmd == F_SETFL || cmd == F_SETFD) {
        va_start(arguments, cmd);
        value = va_arg(arguments, int);
        va_end(arguments);
    }
    switch (cmd) {
    case F_GETFL:
        result = O_RDWR | sock->status_flags;
        break;
    case F_SETFL:
        xs_sock_set_status(sock, value);
        break;
    case F_GETFD:
    case F_SETFD:
        if (xs_sock_has_number(sock)) {
            result = fcntl(sock->number, cmd, value);
        } else {
            errno = EBADF;
            result = -1;
        }
        break;
    default:
        result = xs_invalid("cmd is %d", cmd);
    }
    xs_sock_put_locked(sock);
    return result;
}

/* Count the operations of this queue's pool that don't prevent its deletion: those of blocking calls, and those
 * whose events go to no queue. */
static int count_unnamed(const struct op_list *ops, const struct queue *queue)
{
    const struct op *op;
    int count = 0;

    STAILQ_FOREACH (op, ops, link)
        count += op->pool == queue && op->at_home && (op->waiter != NULL || op->silent);
    return count;
}

int xs_sock_foreign_ops(const struct sock *sock, const struct queue *queue)
{
    const struct op *closing = sock->closing;
    int count = closing != NULL && closing->pool == queue && closing->at_home;

    if (sock->conn != NULL)
        count += count_unnamed(&sock->conn->tx.sends, queue) + count_unnamed(&sock->conn->rx.recvs, queue) +
                 count_unnamed(&sock->conn->onesided.ops, queue);
    return count;
}
