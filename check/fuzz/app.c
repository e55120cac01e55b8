/* SPDX-License-Identifier: BSD-2-Clause */
/* app.c - see app.h. The program's events, each checked against its operation; its start and its end. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "check/fuzz/app.h"
#include "core/conn/conn.h"
#include "core/sock/sock.h"

#define ROUNDS_MAX 200 /* of driving the peers; what takes longer is cut off */

struct app app;

struct app_socket *app_socket_add(int number, int family, int type)
{
    static unsigned serial;

    for (int i = 0; i < APP_SOCKETS; i++) {
        if (app.sockets[i].number >= 0)
            continue;
        app.sockets[i] = (struct app_socket){
            .number = number, .serial = ++serial, .family = family, .type = type, .all_one = true};
        return &app.sockets[i];
    }
    return NULL;
}

struct peer *app_peer(int number)
{
    struct sock *sock = xs_sock_get(number);
    struct peer *peer = NULL;

    if (sock != NULL && sock->conn != NULL)
        peer = ((struct mock_id *)sock->conn->id)->peer;
    if (sock != NULL)
        xs_sock_put(sock);
    return peer;
}

struct asked *app_ask(int type, struct app_socket *socket, exs_qhandle_t queue)
{
    struct asked *asked = &app.asked[app.asked_count];

    if (app.asked_count >= (app.ends ? APP_ASKED : APP_ASKED - APP_CLOSES))
        return NULL;
    app.asked_count++;
    *asked = (struct asked){.type = type,
                            .socket = socket,
                            .serial = socket->serial,
                            .number = socket->number,
                            .queue = queue,
                            .peer = app_peer(socket->number)};
    return asked;
}

static void forget(struct asked *asked)
{
    asked->waits = false;
    for (; asked->part_count > 0; asked->part_count--) {
        struct part *part = &asked->parts[asked->part_count - 1];

        free(part->memory);
        if (part->fd != -1)
            close(part->fd);
    }
    free(asked->own);
    asked->own = NULL;
}

void app_answer(struct asked *asked, long result)
{
    require(result == 0 || result == -1, "%s returns %ld", exs_strevent(asked->type), result);
    asked->waits = result == 0;
    if (result < 0)
        forget(asked);
}

bool app_waits(int type)
{
    for (unsigned i = 0; i < app.asked_count; i++) {
        const struct asked *asked = &app.asked[i];

        if (asked->waits && !asked->silent && !asked->unsignaled && (type == 0 || asked->type == type))
            return true;
    }
    return false;
}

/* ---- Events ---------------------------------------------------------------------------------------- */

/* A packet was received: compares as much of it as the buffer holds. */
static void see_packet(struct asked *asked, const exs_evt_xfer_t *event)
{
    struct stream *in = &asked->peer->in;
    size_t length = in->lengths[in->messages_seen++], fits = length < asked->length ? length : asked->length;

    require(event->exs_evt_length == fits, "a packet of %zu bytes gives %zu to a receive of %zu", length,
            event->exs_evt_length, asked->length);
    require(((event->exs_evt_flags & MSG_TRUNC) != 0) == (length > fits), "MSG_TRUNC is wrong");
    stream_see(in, asked->shared ? NULL : asked->buffer, fits);
    in->seen += length - fits;
}

static void see_end(const struct stream *in)
{
    require(in->ended && in->seen == in->sent && in->messages_seen == in->messages,
            "the end, where %zu bytes are missing", in->sent - in->seen);
}

static bool is_receive(int type)
{
    return type == EXS_EVT_RECV || type == EXS_EVT_RECVMSG || type == EXS_EVT_RECVFILE;
}

/* Was the operation cancelled or timed out? */
static bool is_stopped(const struct asked *asked, const exs_event_t *event)
{
    return (asked->cancelled && event->exs_evt_errno == ECANCELED) ||
           (asked->limited && event->exs_evt_errno == ETIMEDOUT);
}

/* Is `other` an earlier receive of the same socket that has no event yet? */
static bool waits_before(const struct asked *other, const struct asked *asked)
{
    return other->waits && is_receive(other->type) && other->socket == asked->socket &&
           other->serial == asked->serial && other->order < asked->order;
}

/* Have all earlier receives ended, except those that were cancelled or timed out? Unknown for a socket that was closed,
 * because its receives may be on any queue. */
static bool is_in_turn(const struct asked *asked)
{
    if (asked->socket->serial != asked->serial)
        return true;
    for (unsigned i = 0; i < app.asked_count; i++) {
        const struct asked *other = &app.asked[i];

        if (waits_before(other, asked) && !other->cancelled && !other->limited)
            return false;
    }
    return true;
}

/* An earlier receive that was stopped may have ended with bytes, and its event may still be on another queue. */
static bool may_lack_bytes(const struct asked *asked)
{
    for (unsigned i = 0; i < app.asked_count; i++) {
        if (waits_before(&app.asked[i], asked) && app.asked[i].queue != asked->queue)
            return true;
    }
    return false;
}

static void see_recv(struct asked *asked, const exs_event_t *event, const exs_evt_xfer_t *xfer)
{
    struct stream *in = &asked->peer->in;
    bool in_turn = (is_stopped(asked, event) && xfer->exs_evt_length == 0) || is_in_turn(asked);

    require(xfer->exs_evt_length <= asked->length, "more bytes than the buffer holds");
    require(asked->registered || !mock_writable(asked->buffer, asked->length),
            "the peer can still write into a buffer that was given back");
    require(in_turn || !asked->socket->all_one, "receives end out of turn");
    if (!in_turn || may_lack_bytes(asked))
        in->compared = false;
    if (!in->compared)
        return;
    if (asked->peer->socktype == SOCK_STREAM) {
        stream_see(in, asked->shared ? NULL : asked->buffer, xfer->exs_evt_length);
        if (asked->peeks)
            in->seen -= xfer->exs_evt_length;
        require(!asked->waitall || event->exs_evt_errno != 0 || xfer->exs_evt_length == asked->length ||
                    asked->peer->in.ended,
                "MSG_WAITALL gave %zu bytes of %zu", xfer->exs_evt_length, asked->length);
        if (event->exs_evt_errno == 0 && xfer->exs_evt_length == 0)
            see_end(in);
    } else if (event->exs_evt_errno == 0 && in->messages_seen < in->messages) {
        see_packet(asked, xfer);
    } else if (event->exs_evt_errno == 0) {
        see_end(in);
    }
}

/* The result of a transfer, of any of the functions. */
static exs_evt_xfer_t xfer_of(const struct asked *asked, const exs_event_t *event)
{
    const exs_evt_xfermsg_t *message = &event->exs_evt_union.exs_evt_xfermsg;
    const exs_evt_xferfile_t *files = &event->exs_evt_union.exs_evt_xferfile;

    if (event->exs_evt_type == EXS_EVT_RECVFILE) {
        require(files->exs_evt_vec == asked->vector && files->exs_evt_vec_cnt == asked->part_count,
                "an event has another vector");
        return (exs_evt_xfer_t){.exs_evt_buffer = asked->buffer,
                                .exs_evt_length = (size_t)files->exs_evt_length,
                                .exs_evt_flags = files->exs_evt_flags};
    }
    if (event->exs_evt_type != EXS_EVT_SENDMSG && event->exs_evt_type != EXS_EVT_RECVMSG)
        return event->exs_evt_union.exs_evt_xfer;
    require(message->exs_evt_msg == &asked->message, "an event has another message");
    return (exs_evt_xfer_t){.exs_evt_buffer = asked->buffer,
                            .exs_evt_length = message->exs_evt_length,
                            .exs_evt_flags = message->exs_evt_flags};
}

static void see_xfer(struct asked *asked, const exs_event_t *event)
{
    exs_evt_xfer_t moved = xfer_of(asked, event);
    const exs_evt_xfer_t *xfer = &moved;

    require(xfer->exs_evt_buffer == asked->buffer, "an event has another buffer");
    require(xfer->exs_evt_length <= asked->length, "more bytes than were asked for");
    require(asked->length == 0 || asked->vector != NULL || asked->length == APP_HUGE ||
                !mock_in_use(asked->buffer, asked->length),
            "a buffer was given back, and is in use");
    if (is_receive(event->exs_evt_type))
        see_recv(asked, event, xfer);
    else
        require(event->exs_evt_errno != 0 || asked->partial || xfer->exs_evt_length == asked->length,
                "%zu bytes of %zu, and no error", xfer->exs_evt_length, asked->length);
    if (asked->partial && asked->peer->out.compared)
        require(xfer->exs_evt_length <= asked->moves, "%zu bytes of %zu are sent", xfer->exs_evt_length,
                asked->moves);
    if (event->exs_evt_type == EXS_EVT_RREAD && event->exs_evt_errno == 0) {
        for (size_t i = 0; i < asked->length; i += 67)
            require(asked->buffer[i] == (uint8_t)(asked->remote + i), "other bytes were read than are there");
    }
}

/* Closes an accepted socket for which there is no slot. The program can't wait for the close, because the peer can
 * delay it, so it takes one of the places that are reserved for the end. */
static void close_unwanted(int number, struct app_socket *listener)
{
    bool ends = app.ends;

    app.ends = true;
    struct asked *asked = app_ask(EXS_EVT_CLOSE, listener, app.queues[0]);

    app.ends = ends;
    require(asked != NULL, "more than %d sockets are left to close", APP_CLOSES);
    asked->number = number;
    app_answer(asked, exs_close(number, 0, app.queues[0], asked));
    require(asked->waits, "exs_close: %s", strerror(errno));
}

static void see_accept(struct asked *asked, const exs_event_t *event)
{
    const exs_evt_accept_t *accept = &event->exs_evt_union.exs_evt_accept;

    require((event->exs_evt_errno == 0) == (accept->exs_evt_newsocket >= 0) &&
                (asked->multishot || (asked->many != NULL ? asked->many : &asked->element)->exs_socket ==
                                         accept->exs_evt_newsocket),
            "accepted socket %d with errno %d", accept->exs_evt_newsocket, event->exs_evt_errno);
    if (event->exs_evt_errno != 0)
        return;
    struct app_socket *socket =
        app_socket_add(accept->exs_evt_newsocket, asked->socket->family, asked->socket->type);

    if (socket == NULL) {
        close_unwanted(accept->exs_evt_newsocket, asked->socket);
        return;
    }
    socket->limits_recvs = asked->socket->limits_recvs;
    socket->limits_sends = asked->socket->limits_sends;
}

static void see_event(exs_qhandle_t queue, const exs_event_t *event)
{
    struct asked *asked = event->exs_evt_ahandle;

    require(asked >= app.asked && asked < app.asked + app.asked_count, "an event of nobody's");
    require(asked->waits, "a second %s", exs_strevent(event->exs_evt_type));
    require(!asked->silent, "an event that nobody asked for");
    require(!asked->unsignaled || event->exs_evt_errno != 0, "an event of success, which was not wanted");
    require(event->exs_evt_type == asked->type && event->exs_evt_socket == asked->number &&
                queue == asked->queue,
            "the event of a %s is a %s of socket %d, not %d", exs_strevent(asked->type),
            exs_strevent(event->exs_evt_type), event->exs_evt_socket, asked->number);
    if (asked->type == EXS_EVT_RECVFILE)
        app_file_came(asked, (size_t)event->exs_evt_union.exs_evt_xferfile.exs_evt_length);
    switch (asked->type) {
    case EXS_EVT_RECVFILE:
    case EXS_EVT_SEND:
    case EXS_EVT_RECV:
    case EXS_EVT_SENDMSG:
    case EXS_EVT_RECVMSG:
    case EXS_EVT_RREAD:
    case EXS_EVT_RWRITE:
        see_xfer(asked, event);
        break;
    case EXS_EVT_ACCEPT:
        see_accept(asked, event);
        break;
    default:
        break;
    }
    if (!asked->multishot || event->exs_evt_errno != 0)
        forget(asked);
}

int app_dequeue(exs_qhandle_t queue, int most)
{
    const struct timeval at_once = {0, 0};
    exs_event_t events[32];
    int count = exs_qdequeue(queue, events, most, &at_once);

    require(count >= 0, "exs_qdequeue: %s", strerror(errno));
    for (int i = 0; i < count; i++)
        see_event(queue, &events[i]);
    return count;
}

/* ---- Start and end ---------------------------------------------------------------------------------- */

void app_begin(void)
{
    memset(&app, 0, sizeof(app));
    for (int i = 0; i < APP_SOCKETS; i++)
        app.sockets[i].number = -1;
    for (int i = 0; i < APP_REGIONS; i++)
        app.regions[i].handle = EXS_MHANDLE_INVALID;
    app.queues[0] = exs_qcreate(0);
    require(app.queues[0] != EXS_QHANDLE_INVALID, "exs_qcreate: %s", strerror(errno));
}

static int dequeue_all(void)
{
    int count = 0;

    for (int i = 0; i < APP_QUEUES; i++)
        count += app.queues[i] != NULL ? app_dequeue(app.queues[i], 32) : 0;
    return count;
}

void app_serve_all(void)
{
    struct peer *peer;

    for (int quiet = 0, round = 0; quiet < 2 && round < ROUNDS_MAX; round++) {
        uint64_t before = mock_progress;

        for (unsigned i = 0; (peer = peer_number(i)) != NULL; i++)
            peer_serves(peer);
        int events = dequeue_all();

        quiet = events == 0 && mock_progress == before ? quiet + 1 : 0;
    }
}

static void close_sockets(void)
{
    for (int i = 0; i < APP_SOCKETS; i++) {
        struct app_socket *socket = &app.sockets[i];
        struct asked *asked;

        if (socket->number < 0)
            continue;
        asked = app_ask(EXS_EVT_CLOSE, socket, app.queues[0]);
        require(asked != NULL, "more than %d sockets are left to close", APP_CLOSES);
        app_answer(asked, exs_close(socket->number, 0, app.queues[0], asked));
        require(asked->waits, "exs_close: %s", strerror(errno));
        socket->number = -1;
    }
}

static bool all_closed(void)
{
    for (int i = 0; i < APP_SOCKETS; i++) {
        if (app.sockets[i].number >= 0)
            return false;
    }
    return mock_count.ids == 0 && !app_waits(0);
}

void app_end(void)
{
    mock_fail(0, 0);
    app.ends = true;
    for (int round = 0; round < 32 && (round < 2 || !all_closed()); round++) {
        close_sockets(); /* an accept may have created further sockets */
        for (uint64_t before = mock_progress - 1; before != mock_progress;) {
            before = mock_progress;
            while (dequeue_all() > 0)
                ;
        }
        mock_pass_time(UINT64_C(3000000000));
    }
    for (unsigned i = 0; i < app.asked_count; i++) {
        require(!app.asked[i].waits || app.asked[i].silent || app.asked[i].unsignaled,
                "%s of socket %d has no event", exs_strevent(app.asked[i].type), app.asked[i].number);
        forget(&app.asked[i]);
    }
    for (int i = 0; i < APP_REGIONS; i++) {
        if (app.regions[i].handle != EXS_MHANDLE_INVALID)
            require(exs_mderegister(app.regions[i].handle, 0) == 0, "exs_mderegister: %s", strerror(errno));
        free(app.regions[i].memory);
    }
    for (int i = 0; i < APP_QUEUES; i++) {
        if (app.queues[i] != NULL)
            require(exs_qdelete(app.queues[i]) == 0, "exs_qdelete: %s", strerror(errno));
    }
    require(exs_fini() == 0 && exs_init(EXS_VERSION) == 0, "exs_fini, exs_init: %s", strerror(errno));
    mock_balance();
}
