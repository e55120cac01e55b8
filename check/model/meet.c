/* SPDX-License-Identifier: BSD-2-Clause */
/* meet.c - opens connections: either end connects, to one of two listeners. See model.h. */
#include "play.h"

#include <arpa/inet.h>

static struct {
    int socket;
    struct address address;
} listeners[2]; /* SOCK_STREAM, SOCK_SEQPACKET */
static const int types[2] = {SOCK_STREAM, SOCK_SEQPACKET};
static const int windows[4] = {256 * 1024, 256 * 1024, 4096, 65536}; /* values of SO_RCVBUF */

static int connecting; /* only its address is used, as an ahandle */
static exs_acceptaddr_t element;
static bool connected, accepted;

void meet_close(void)
{
    for (int i = 0; i < 2; i++)
        if (exs_blocking_close(listeners[i].socket) != 0)
            wrong("closing a listener: %s", strerrorname_np(errno));
}

bool meet_event(const exs_event_t *event)
{
    bool is_connect = event->exs_evt_type == EXS_EVT_CONNECT && event->exs_evt_ahandle == &connecting;
    bool is_accept = event->exs_evt_type == EXS_EVT_ACCEPT && event->exs_evt_ahandle == &element;

    if ((is_connect || is_accept) && event->exs_evt_errno != 0)
        wrong("%s: %s", exs_strevent(event->exs_evt_type), strerrorname_np(event->exs_evt_errno));
    connected = connected || is_connect;
    accepted = accepted || is_accept;
    return is_connect || is_accept;
}

static void must_be(long result, const char *what)
{
    CALL();
    if (result < 0)
        wrong("%s: %s", what, strerrorname_np(errno));
}

void meet_open(void)
{
    const char *given = getenv("EXS_TEST_ADDR");

    for (int i = 0; i < 2; i++) {
        struct sockaddr_in *here = (struct sockaddr_in *)&listeners[i].address.storage;
        socklen_t *length = &listeners[i].address.length;

        *here = (struct sockaddr_in){.sin_family = AF_INET};
        *length = sizeof *here;
        if (inet_pton(AF_INET, given ? given : "127.0.0.1", &here->sin_addr) != 1)
            wrong("EXS_TEST_ADDR is no address");
        must_be(listeners[i].socket = exs_socket(PF_INET, types[i], 0), "exs_socket");
        must_be(exs_bind(listeners[i].socket, SA(&listeners[i].address), *length), "exs_bind");
        must_be(exs_listen(listeners[i].socket, 16), "exs_listen");
        must_be(exs_getsockname(listeners[i].socket, SA(&listeners[i].address), length), "exs_getsockname");
    }
}

static void read_window(struct side *side)
{
    int bytes;
    socklen_t length = sizeof bytes;

    must_be(exs_getsockopt(side->socket, SOL_SOCKET, SO_RCVBUF, &bytes, &length), "SO_RCVBUF");
    side->window = (size_t)bytes;
}

struct setup *meet(const struct step *step)
{
    int kind = step->detail % 4 == 0, window = windows[step->detail / 4 % 4];
    struct setup *setup = calloc(1, sizeof *setup);
    struct side *from = &setup->sides[step->end], *to = &setup->sides[!step->end];
    double until = seconds_now() + patience_s;
    const struct address *address = &listeners[kind].address;

    *setup = (struct setup){.type = types[kind], .pair = step->pair};
    for (int end = 0; end < 2; end++) {
        struct side *side = &setup->sides[end];
        side->setup = setup;
        side->end = end;
        side->home = end * QUEUES + (int)(step->queue ^ (step->detail / 16 & 1 & (unsigned)end));
        side->limit = SIZE_MAX;
    }
    connected = accepted = false;
    element = (exs_acceptaddr_t){.exs_ahandle = &element};
    must_be(from->socket = exs_socket(PF_INET, setup->type, 0), "exs_socket");
    if (setup->type == SOCK_STREAM) {
        must_be(exs_setsockopt(from->socket, SOL_SOCKET, SO_RCVBUF, &window, sizeof window), "SO_RCVBUF");
        must_be(exs_setsockopt(listeners[kind].socket, SOL_SOCKET, SO_RCVBUF, &window, sizeof window),
                "SO_RCVBUF");
    }
    must_be(exs_accept(listeners[kind].socket, &element, 1, 0, queue_of(to->home)), "exs_accept");
    must_be(exs_connect(from->socket, SA(address), address->length, 0, NULL, queue_of(from->home), &connecting),
            "exs_connect");
    while (!connected || !accepted) {
        if (seconds_now() > until)
            wrong("the event of the %s does not come", connected ? "accept" : "connect");
        drive(100);
    }
    to->socket = element.exs_socket;
    read_window(from);
    read_window(to);
    return setup;
}
