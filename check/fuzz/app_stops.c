/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * app_stops.c - see app.h. Operations that end early: exs_cancel(), timeouts, and MSG_DONTWAIT.
 *
 * When a send is stopped it is known how much of it is still sent: nothing, if it was not started; of a stream, what
 * was posted to the device; of a packet, all if it was started. The bytes that the peer receives are checked against
 * that.
 */
#include <stdlib.h>
#include <netinet/tcp.h>
#include "check/fuzz/app.h"
#include "core/conn/conn.h"
#include "core/sock/sock.h"

static bool is_send(const struct asked *asked)
{
    return asked->type == EXS_EVT_SEND || asked->type == EXS_EVT_SENDMSG || asked->type == EXS_EVT_SENDFILE;
}

/* The library's operation, while it is in the socket's queue of sends. */
static const struct op *op_of(const struct asked *asked)
{
    struct sock *sock = xs_sock_get(asked->number);
    const struct op *op = NULL;

    if (sock == NULL)
        return NULL;
    if (sock->conn != NULL) {
        STAILQ_FOREACH (op, &sock->conn->tx.sends, link) {
            if (op->event.exs_evt_ahandle == asked)
                break;
        }
    }
    xs_sock_put(sock);
    return op;
}

/* Only `moves` bytes of the send will arrive. */
static void cut(struct asked *asked, size_t moves)
{
    size_t less = asked->moves - moves;

    if (asked->peer == NULL || less == 0 || !asked->peer->out.compared)
        return;
    stream_cut(&asked->peer->out, asked->at + moves, less);
    asked->moves = moves;
    for (unsigned i = 0; i < app.asked_count; i++) {
        struct asked *other = &app.asked[i];

        if (other != asked && is_send(other) && other->peer == asked->peer && other->at > asked->at)
            other->at -= less;
    }
}

static void drop_message(struct asked *asked)
{
    if (asked->peer == NULL || !asked->peer->out.compared)
        return;
    stream_cut_message(&asked->peer->out, asked->message_number);
    for (unsigned i = 0; i < app.asked_count; i++) {
        struct asked *other = &app.asked[i];

        if (is_send(other) && other->peer == asked->peer && other->message_number > asked->message_number)
            other->message_number--;
    }
}

static bool is_meant(const struct asked *asked, const struct app_socket *socket, const struct asked *only)
{
    return asked->waits && asked->socket == socket && asked->serial == socket->serial &&
           asked->type != EXS_EVT_CLOSE && (only == NULL || asked == only);
}

/* Called before the operation is stopped. */
static void will_stop(struct asked *asked)
{
    const struct op *op = is_send(asked) ? op_of(asked) : NULL;
    bool begun = op != NULL && (op->posted > 0 || op->out.all_posted);

    asked->cancelled = true;
    if (op == NULL || op->out.all_posted || (begun && asked->socket->type != SOCK_STREAM))
        return;
    cut(asked, begun ? (size_t)op->posted : 0);
    if (!begun)
        drop_message(asked);
}

/* Returns an operation of the socket without an event, or NULL. */
static struct asked *some_asked(const struct app_socket *socket, uint8_t choice)
{
    for (unsigned i = 0; i < app.asked_count; i++) {
        struct asked *asked = &app.asked[(choice + i) % app.asked_count];

        if (is_meant(asked, socket, NULL))
            return asked;
    }
    return NULL;
}

void app_call_cancel(struct input *input, struct app_socket *socket)
{
    uint8_t choice = input_u8(input);
    struct asked *only = choice & 1 ? NULL : some_asked(socket, choice >> 1);
    int flags = choice == 255 ? EXS_BLOCK : only == NULL ? EXS_CANCEL_ALL : 0, waiting = 0;

    for (unsigned i = 0; flags != EXS_BLOCK && socket->number >= 0 && i < app.asked_count; i++) {
        if (!is_meant(&app.asked[i], socket, only))
            continue;
        waiting++;
        will_stop(&app.asked[i]);
    }
    int count = exs_cancel(socket->number, only, flags);

    require(count <= waiting, "%d operations are cancelled where %d wait", count, waiting);
    require((count == -1) == (flags == EXS_BLOCK || socket->serial == 0), "exs_cancel: %d", count);
}

/* Sets keepalive and linger options. */
static void set_other(const struct app_socket *socket, uint8_t choice)
{
    const struct linger linger = {.l_onoff = 1, .l_linger = choice & 1 ? 0 : 2};
    const int number = choice & 1;

    switch (choice % 5) {
    case 0:
    case 1:
        exs_setsockopt(socket->number, SOL_SOCKET, SO_KEEPALIVE, &number, sizeof(number));
        break;
    case 2:
        exs_setsockopt(socket->number, IPPROTO_TCP, TCP_KEEPIDLE, &number, sizeof(number));
        break;
    case 3:
        exs_setsockopt(socket->number, IPPROTO_TCP, TCP_KEEPCNT, &number, sizeof(number));
        break;
    default:
        exs_setsockopt(socket->number, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    }
}

void app_call_limit(struct input *input, struct app_socket *socket)
{
    static const struct timeval limits[] = {{0, 1000}, {0, 0}, {2, 0}, {0, 1}, {0, 1000000}, {-1, 0}, {40, 0}};
    uint8_t choice = input_u8(input);
    const struct timeval *limit = &limits[(choice >> 1) % 7];
    int option = choice & 1 ? SO_RCVTIMEO : SO_SNDTIMEO;
    socklen_t length = choice == 255 ? 3 : sizeof(*limit);
    bool is_limit = limit->tv_sec > 0 || limit->tv_usec > 0;

    if (choice >= 200 && choice < 255) {
        set_other(socket, choice);
        return;
    }
    if (exs_setsockopt(socket->number, SOL_SOCKET, option, limit, length) == -1)
        return;
    require(limit->tv_sec >= 0 && limit->tv_usec < 1000000 && length == sizeof(*limit),
            "an odd limit is taken");
    if (option == SO_RCVTIMEO)
        socket->limits_recvs = is_limit;
    else
        socket->limits_sends = is_limit;
}

void app_sent_at_once(struct asked *asked)
{
    const struct op *op = op_of(asked);

    if (asked->socket->type != SOCK_STREAM)
        return;
    asked->partial = true;
    if (op != NULL)
        cut(asked, (size_t)op->length);
    else if (asked->peer != NULL && asked->length > 0)
        asked->peer->out.compared = false;
}

/* Only the library knows where sends with a timeout ended. */
void app_time_passes(void)
{
    for (unsigned i = 0; i < app.asked_count; i++) {
        const struct asked *asked = &app.asked[i];

        if (asked->waits && asked->limited && is_send(asked) && asked->peer != NULL)
            asked->peer->out.compared = false;
    }
}
