/* SPDX-License-Identifier: BSD-2-Clause */
/* sets.c - creates and frees the objects of the limit test; see sets.h. */
#include "sets.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include "say.h"

enum {
    PATIENCE = 5
}; /* seconds: without a free descriptor the accept does not complete, and the connect waits */

static int complain_of(const char *what)
{
    complain("%s: %s", what, strerror(errno));
    return -1;
}

/* ---- Connections ------------------------------------------------------------------------------------- */

/* Gets an event of either queue. Returns 1; 0 after PATIENCE seconds without one; or -1 and errno. */
static int next_event(exs_qhandle_t one, exs_qhandle_t other, exs_event_t *event)
{
    const struct timeval now = {0};
    struct pollfd fds[] = {{.fd = exs_qfd(one), .events = POLLIN}, {.fd = exs_qfd(other), .events = POLLIN}};

    for (;;) {
        int count = exs_qdequeue(one, event, 1, &now);

        if (count == 0 && other != one)
            count = exs_qdequeue(other, event, 1, &now);
        if (count != 0)
            return count;
        count = poll(fds, one == other ? 1 : 2, PATIENCE * 1000);
        if (count <= 0)
            return count;
    }
}

/* Waits for the events of connect and accept. Returns 0 or an errno. After a failed connect the accept stays
 * pending. */
static int await_connection(struct set *set, exs_qhandle_t queue, struct ends *ends)
{
    int error = 0, connecting = 1;
    exs_event_t event;

    while (connecting || (set->accepting && error == 0)) {
        int count = next_event(set->queue, queue, &event);

        if (count <= 0)
            return count == 0 ? ETIMEDOUT : errno;
        if (event.exs_evt_type == EXS_EVT_CONNECT) {
            connecting = 0;
            error = event.exs_evt_errno;
        } else if (event.exs_evt_type == EXS_EVT_ACCEPT) {
            set->accepting = 0;
            ends->server = event.exs_evt_errno == 0 ? (int)exs_event_result(&event) : -1;
            if (event.exs_evt_errno != 0)
                error = event.exs_evt_errno;
        }
    }
    return error;
}

static int close_socket(int *socket)
{
    int number = *socket;

    *socket = -1;
    return number == -1 ? 0 : exs_blocking_close(number);
}

int set_connect(struct set *set, exs_qhandle_t queue, struct ends *ends)
{
    const struct timeval limit = {.tv_sec = PATIENCE};

    *ends = (struct ends){-1, -1};
    if (!set->accepting) {
        if (exs_accept(set->listener, &set->element, 1, 0, set->queue) == -1)
            return -1;
        set->accepting = 1;
    }
    ends->client = exs_socket(set->address.ss_family, SOCK_SEQPACKET, 0);
    int error = ends->client == -1 || exs_connect(ends->client, (struct sockaddr *)&set->address, set->length,
                                                  0, &limit, queue, NULL) == -1
                    ? errno
                    : await_connection(set, queue, ends);

    if (error == 0)
        return 0;
    close_socket(&ends->client);
    close_socket(&ends->server);
    errno = error;
    return -1;
}

int set_disconnect(struct ends *ends)
{
    int client = close_socket(&ends->client), server = close_socket(&ends->server);

    return client == -1 || server == -1 ? complain_of("closing a connection") : 0;
}

/* ---- Sets -------------------------------------------------------------------------------------------- */

static int listen_at(struct set *set, const struct sockaddr_storage *address, socklen_t length)
{
    set->address = *address;
    set->length = length;
    set->listener = exs_socket(address->ss_family, SOCK_SEQPACKET, 0);
    if (set->listener == -1 || exs_bind(set->listener, (const struct sockaddr *)address, length) == -1 ||
        exs_listen(set->listener, SOMAXCONN) == -1)
        return -1;
    return exs_getsockname(set->listener, (struct sockaddr *)&set->address, &set->length);
}

int set_make(struct set *set, const struct sockaddr_storage *address, socklen_t length)
{
    *set = (struct set){.listener = -1, .ends = {-1, -1}, .region = EXS_MHANDLE_INVALID};
    set->queue = exs_qcreate(16);
    if (set->queue == EXS_QHANDLE_INVALID)
        return -1;
    set->memory = mmap(NULL, SET_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (set->memory == MAP_FAILED)
        set->memory = NULL;
    else
        set->region = exs_mregister(set->memory, SET_MEMORY, 0);
    if (set->region != EXS_MHANDLE_INVALID && listen_at(set, address, length) == 0 &&
        set_connect(set, set->queue, &set->ends) == 0)
        return 0;
    int error = errno;

    set_free(set);
    errno = error;
    return -1;
}

/* Removes the events of the receives, which closing the connection has cancelled. */
static int drain_events(struct set *set)
{
    const struct timeval now = {0};
    uint32_t cancelled = 0;
    exs_event_t event;

    while (exs_qdequeue(set->queue, &event, 1, &now) == 1)
        cancelled += event.exs_evt_type == EXS_EVT_RECV && event.exs_evt_errno == ECANCELED;
    if (cancelled == set->receives)
        return 0;
    complain("of %u receives that were cancelled %u had their event", set->receives, cancelled);
    return -1;
}

int set_free(struct set *set)
{
    int result = set_disconnect(&set->ends);

    if (close_socket(&set->listener) == -1)
        result = complain_of("closing a listener");
    if (drain_events(set) == -1)
        result = -1;
    if (set->region != EXS_MHANDLE_INVALID && exs_mderegister(set->region, 0) == -1)
        result = complain_of("deregistering memory");
    if (set->memory != NULL)
        munmap(set->memory, SET_MEMORY);
    if (exs_qdelete(set->queue) == -1)
        result = complain_of("deleting an event queue");
    return result;
}
