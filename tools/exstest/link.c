/* SPDX-License-Identifier: BSD-2-Clause */
/* link.c - a connection: handshake, BYE messages and close. See link.h. */
#include "link.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "say.h"

/* ---- Failing and closing ----------------------------------------------------------------------------- */

static void close_link(struct link *link)
{
    link->stage = CLOSING;
    if (exs_close(link->socket, 0, link->queue, link) == -1) {
        complain("closing a connection failed: %s", strerror(errno));
        link->tell(link, LINK_GONE);
    }
}

void link_fail(struct link *link, const char *format, ...)
{
    va_list arguments;

    if (link->stage == CLOSING || link->failed)
        return;
    va_start(arguments, format);
    vsnprintf(link->failure, sizeof(link->failure), format, arguments);
    va_end(arguments);
    link->failed = true;
    link->tell(link, LINK_FAILED);
    close_link(link);
}

static void free_area(struct link *link)
{
    size_t bytes = link->area.base == NULL ? 0 : link->area.length;

    if (area_free(&link->area) == -1)
        complain("the memory of a closed connection is still in use: %s", strerror(errno));
    else if (link->budget != NULL)
        budget_give(link->budget, bytes);
}

static void link_gone(struct link *link)
{
    if (link->exercise != NULL)
        link->exercise->end(link);
    free_area(link);
    link->tell(link, LINK_GONE);
}

static const char *describe_loss(const struct link *link, int error)
{
    static const char *const who[] = {"server", "client"};
    static _Thread_local char text[120];

    snprintf(text, sizeof(text), "the %s is gone: %s", who[link->server],
             error == 0 ? "it closed the connection" : strerror(error));
    return text;
}

/* Distinguishes a lost connection from a failure at this end, for example a lack of memory. */
void link_call_failed(struct link *link, const char *what)
{
    if (errno == ECONNRESET || errno == EPIPE || errno == ETIMEDOUT)
        link_fail(link, "%s", describe_loss(link, errno));
    else
        link_fail(link, "%s failed: %s", what, strerror(errno));
}

/* ---- Memory ------------------------------------------------------------------------------------------ */

static int over_budget(struct link *link, size_t bytes, const char **why)
{
    static char text[WHY_MAX]; /* static: only the server's single thread uses it */
    const struct budget *budget = link->budget;

    snprintf(
        text, sizeof(text),
        "the server's memory: the test needs %zu KiB, %zu of %zu are left: wait for other tests, or give the "
        "server more (-M)",
        bytes >> 10, (budget->half - budget->used) >> 10, budget->half >> 10);
    *why = text;
    errno = ENOMEM;
    return -1;
}

int link_make_area(struct link *link, const struct ops *ops, int copies, const char **why)
{
    size_t bytes = area_bytes(ops, copies, link->server);

    *why = "no memory for the buffers";
    if (link->budget != NULL && !budget_take(link->budget, bytes))
        return over_budget(link, bytes, why);
    if (area_make(&link->area, ops, copies, link->server) == 0)
        return 0;
    if (link->budget != NULL)
        budget_give(link->budget, bytes);
    return -1;
}

/* ---- Messages ---------------------------------------------------------------------------------------- */

static bool post_receive(struct link *link)
{
    if (exs_recv(link->socket, link->in, MESSAGE_MAX, 0, link->queue, link, NULL) == 0)
        return true;
    link_call_failed(link, "receiving");
    return false;
}

static bool send_message(struct link *link, const unsigned char *message, size_t length)
{
    if (exs_send(link->socket, message, length, 0, link->queue, link, NULL) == 0) {
        link->said++;
        return true;
    }
    link_call_failed(link, "sending");
    return false;
}

static bool send_hello(struct link *link)
{
    link->stage = GREETING;
    return send_message(link, link->hello, wire_hello(link->hello, link->version));
}

static bool find_exercise(struct link *link)
{
    link->exercise = link->request.test == 'T' ? &transaction : link->request.test == 'P' ? &performance : NULL;
    return link->exercise != NULL;
}

/* ---- The client -------------------------------------------------------------------------------------- */

static int open_socket(struct link *link)
{
    link->socket = exs_socket(link->where->ai_family, SOCK_SEQPACKET, 0);
    return link->socket;
}

static int try_address(struct link *link)
{
    int error = EADDRNOTAVAIL;

    for (; link->where != NULL; link->where = link->where->ai_next) {
        if (open_socket(link) != -1 && exs_connect(link->socket, link->where->ai_addr, link->where->ai_addrlen,
                                                   0, NULL, link->queue, link) == 0)
            return 0;
        error = errno;
        if (link->socket != -1)
            exs_close(link->socket, 0, NULL, NULL);
        link->socket = -1;
    }
    snprintf(link->failure, sizeof(link->failure), "connecting failed: %s", strerror(error));
    return -1;
}

int link_connect(struct link *link, const struct addrinfo *where, exs_qhandle_t queue)
{
    link->where = where;
    link->queue = queue;
    link->stage = CONNECTING;
    return try_address(link);
}

/* Tries the next address of the server's name, or fails the link after the last one. */
static void connect_failed(struct link *link, int error)
{
    if (link->where->ai_next == NULL) {
        link_fail(link, "connecting failed: %s%s", strerror(error),
                  error == ECONNREFUSED ? ": is the server running on that port?" : "");
        return;
    }
    exs_close(link->socket, 0, NULL, NULL);
    link->where = link->where->ai_next;
    if (try_address(link) == -1) {
        link->failed = true;
        link->stage = CLOSING;
        link->tell(link, LINK_FAILED);
        link->tell(link, LINK_GONE);
    }
}

static void send_request(struct link *link)
{
    const char *why = NULL;

    if (find_exercise(link) && link->exercise->prepare(link, &link->request.tokens, &why) == -1) {
        if (why != NULL)
            link_fail(link, "%s: %s", why, strerror(errno));
        return;
    }
    link->stage = ASKING;
    if (post_receive(link))
        send_message(link, link->out, wire_request(link->out, &link->request));
}

static void server_greeted(struct link *link, unsigned version)
{
    if (version != link->version)
        link_fail(link, "VERSION MISMATCH: Server %u, Client %u: use the same exstest at both ends", version,
                  link->version);
    else
        send_request(link);
}

static void answer_received(struct link *link, size_t length)
{
    if (!wire_read_answer(link->in, length, &link->answer)) {
        link_fail(link, "the server's answer is malformed");
    } else if (!link->answer.yes) {
        link_fail(link, "the server refused the test: %s", link->answer.why);
    } else {
        link->stage = READY;
        link->tell(link, LINK_READY);
    }
}

void link_start(struct link *link)
{
    if (link->stage != READY)
        return;
    link->stage = AT_WORK;
    if (link->exercise == NULL)
        link_finished(link);
    else if (link->exercise->start(link, &link->answer.tokens) == -1)
        link_fail(link, "starting the test failed: %s", strerror(errno));
}

/* ---- The server -------------------------------------------------------------------------------------- */

void link_accepted(struct link *link, int socket, exs_qhandle_t queue)
{
    link->socket = socket;
    link->queue = queue;
    link->server = true;
    link->stage = GREETING;
    post_receive(link);
}

static void client_greeted(struct link *link, unsigned version)
{
    if (!send_hello(link))
        return;
    link->stage = ASKING;
    if (version == link->version) {
        post_receive(link);
        return;
    }
    snprintf(link->failure, sizeof(link->failure), "VERSION MISMATCH: Server %u, Client %u", link->version,
             version);
    link->quiet = true; /* fails in message_delivered(), after the client has received this end's version */
}

/* why: may be link->answer.why. */
static void refuse_request(struct link *link, const char *why)
{
    if (why != link->answer.why)
        snprintf(link->answer.why, sizeof(link->answer.why), "%s", why);
    snprintf(link->failure, sizeof(link->failure), "refused: %s", why);
    link->quiet = true;
    link->answer.tokens.count = 0;
    send_message(link, link->out, wire_answer(link->out, &link->answer));
}

static void request_received(struct link *link, size_t length)
{
    const char *why = NULL;

    if (!wire_read_request(link->in, length, &link->request)) {
        refuse_request(link, "the request is malformed");
        return;
    }
    link->stage = READY;
    link->tell(link, LINK_READY); /* the owner may refuse by setting answer.why */
    if (link->answer.why[0] != '\0') {
        refuse_request(link, link->answer.why);
        return;
    }
    if (find_exercise(link) && link->exercise->prepare(link, &link->answer.tokens, &why) == -1) {
        if (why != NULL)
            refuse_request(link, why);
        return;
    }
    link->stage = AT_WORK;
    link->answer.yes = true;
    if (!send_message(link, link->out, wire_answer(link->out, &link->answer)))
        return;
    if (link->exercise == NULL)
        link_finished(link);
    else if (link->exercise->start(link, &link->request.tokens) == -1)
        link_fail(link, "starting the test failed: %s", strerror(errno));
}

/* ---- Both -------------------------------------------------------------------------------------------- */

static void message_received(struct link *link, size_t length)
{
    unsigned version;
    struct bye bye;

    switch (link->stage) {
    case GREETING:
        if (!wire_read_hello(link->in, length, &version))
            link_fail(link, "the %s is no exstest", link->server ? "client" : "server");
        else if (link->server)
            client_greeted(link, version);
        else
            server_greeted(link, version);
        break;
    case ASKING:
        if (link->server)
            request_received(link, length);
        else
            answer_received(link, length);
        break;
    default:
        if (!wire_read_bye(link->in, length, &bye)) {
            link_fail(link, "the %s's farewell is malformed", link->server ? "client" : "server");
            return;
        }
        link->mismatches_there = bye.mismatches;
        link->heard_bye = true;
        break;
    }
}

/* Called when messages of this end were delivered: performs the actions that wait for this. */
static void message_delivered(struct link *link)
{
    if (link->said > 0 || link->failed || link->stage == CLOSING)
        return;
    if (link->quiet) {
        link->failed = true;
        link->tell(link, LINK_FAILED);
        close_link(link);
    } else if (link->stage == LEAVING && link->heard_bye) {
        link->tell(link, LINK_DONE);
        close_link(link);
    }
}

void link_finished(struct link *link)
{
    const struct bye bye = {.mismatches = link->mismatches};

    link->stage = LEAVING;
    if (post_receive(link))
        send_message(link, link->bye, wire_bye(link->bye, &bye));
}

static void connect_done(struct link *link, int error)
{
    if (error != 0)
        connect_failed(link, error);
    else if (post_receive(link))
        send_hello(link);
}

void link_event(struct link *link, const exs_event_t *event)
{
    ssize_t result = exs_event_result(event);
    bool received = event->exs_evt_type == EXS_EVT_RECV, sent = event->exs_evt_type == EXS_EVT_SEND;

    link->moves++;
    if (event->exs_evt_type == EXS_EVT_CLOSE) {
        if (event->exs_evt_socket == link->socket)
            link_gone(link);
        return;
    }
    if (link->stage == CLOSING)
        return;
    if (event->exs_evt_type == EXS_EVT_CONNECT) {
        connect_done(link, event->exs_evt_errno);
        return;
    }
    if (event->exs_evt_errno != 0 && link->stage == LEAVING && link->heard_bye) {
        link->said = 0; /* a peer that has sent BYE may close before it acknowledges this end's BYE */
        message_delivered(link);
        return;
    }
    if (result < 0 || (received && result == 0)) {
        link_fail(link, "%s", describe_loss(link, event->exs_evt_errno));
        return;
    }
    if (sent && link->said > 0) {
        link->said--;
    } else if (link->stage == AT_WORK) {
        link->exercise->event(link, event);
        return;
    } else if (received && (exs_event_flags(event) & MSG_TRUNC)) {
        link_fail(link, "a message is longer than %d bytes", MESSAGE_MAX);
        return;
    } else if (received) {
        message_received(link, (size_t)result);
    }
    message_delivered(link);
}
