/* SPDX-License-Identifier: BSD-2-Clause */
/* bystander.c - a server that is not involved in the fault. It echoes what it receives and, on request,
 * connects to the survivor to be served itself. */
#include "faults.h"

#include <poll.h>

#define GUESTS 4 /* concurrent connections */

static struct attachment {
    int socket; /* 0: none */
    char bytes[HELLO];
} guests[GUESTS];
static exs_qhandle_t queue;
static exs_acceptaddr_t element;

static void receive(struct attachment *guest)
{
    must(exs_recv(guest->socket, guest->bytes, HELLO, MSG_WAITALL, queue, guest, NULL));
}

static void handle(int listener, const exs_event_t *event)
{
    struct attachment *guest = event->exs_evt_ahandle;

    ck_assert_msg(event->exs_evt_errno == 0, "the bystander's %s: %s", exs_strevent(event->exs_evt_type),
                  strerrorname_np(event->exs_evt_errno));
    if (event->exs_evt_type == EXS_EVT_ACCEPT) {
        for (guest = guests; guest->socket != 0; guest++)
            ck_assert(guest < guests + GUESTS - 1);
        guest->socket = event->exs_evt_union.exs_evt_accept.exs_evt_newsocket;
        receive(guest);
        must(exs_accept(listener, &element, 1, 0, queue));
    } else if (event->exs_evt_union.exs_evt_xfer.exs_evt_length == HELLO) {
        ck_assert_int_eq(exs_blocking_send(guest->socket, guest->bytes, HELLO, 0, NULL), HELLO);
        receive(guest);
    } else {
        must(exs_blocking_close(guest->socket));
        guest->socket = 0;
    }
}

/* Connects to the survivor, as its client. */
static void want_service(const struct address *survivor)
{
    uint64_t hello = 0, answer = 1;
    int socket = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(socket);
    must(exs_blocking_connect(socket, SA(survivor), survivor->length));
    ck_assert_int_eq(exs_blocking_send(socket, &hello, sizeof hello, 0, NULL), sizeof hello);
    ck_assert_int_eq(exs_blocking_recv(socket, &answer, sizeof answer, MSG_WAITALL, NULL), sizeof answer);
    ck_assert_uint_eq(answer, hello);
    must(exs_blocking_close(socket));
}

void bystand(int fd, void *unused)
{
    struct address here, survivor;
    exs_event_t event;
    char word;

    (void)unused;
    init_library();
    queue = exs_qcreate(2 * GUESTS);
    int listener = open_listener(AF_INET, SOCK_STREAM, GUESTS, &here);
    tell(fd, &here, sizeof here);
    hear(fd, &survivor, sizeof survivor);
    must(exs_accept(listener, &element, 1, 0, queue));
    struct pollfd wait[] = {{.fd = fd, .events = POLLIN}, {.fd = exs_qfd(queue), .events = POLLIN}};
    for (;;) {
        must(poll(wait, 2, -1));
        while (exs_qdequeue(queue, &event, 1, &(struct timeval){0}) == 1)
            handle(listener, &event);
        if (!wait[0].revents)
            continue;
        if (recv(fd, &word, 1, 0) != 1)
            return; /* the cell has ended */
        want_service(&survivor);
        tell(fd, &word, 1);
    }
}
