/* SPDX-License-Identifier: BSD-2-Clause */
/* old_program.c - a program that was built against the recorded headers: arrays and structs have the sizes of then,
 * and behind each lies memory that is not the library's. Both ends of a connection; see old_program. */
#include <exs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 4
#define FENCE 64
#define FENCED(type, name, count)                                                                              \
    struct {                                                                                                   \
        type is[count];                                                                                        \
        unsigned char fence[FENCE];                                                                            \
    } name;                                                                                                    \
    memset(&(name), 0xa5, sizeof(name))

static void must(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}
#define MUST(condition) must((condition), #condition)

static void whole(const unsigned char *fence, const char *what)
{
    for (int i = 0; i < FENCE; i++)
        if (fence[i] != 0xa5) {
            fprintf(stderr, "%s: the library wrote behind its end\n", what);
            exit(1);
        }
}

/* That many events, in as few batches as there may be. */
static void take(exs_qhandle_t queue, exs_event_t *to, int count)
{
    for (int taken = 0; taken < count;) {
        FENCED(exs_event_t, some, MANY);
        int now = exs_qdequeue(queue, some.is, count - taken < MANY ? count - taken : MANY, NULL);

        MUST(now > 0);
        whole(some.fence, "events");
        memcpy(to + taken, some.is, (size_t)now * sizeof(*to));
        taken += now;
    }
}

static const exs_event_t *find(const exs_event_t *events, int count, int type, const void *ahandle)
{
    for (int i = 0; i < count; i++)
        if (events[i].exs_evt_type == type && events[i].exs_evt_ahandle == ahandle) {
            must(events[i].exs_evt_errno == 0, exs_strevent(type));
            return &events[i];
        }
    fprintf(stderr, "no %s\n", exs_strevent(type));
    exit(1);
}

/* Several of each, so that an element of another size would show. */
static void connect_both(exs_qhandle_t queue, int *clients, int *servers)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(here);
    exs_event_t events[2 * MANY];
    int listener = exs_socket(PF_INET, SOCK_STREAM, 0);
    FENCED(exs_acceptaddr_t, wanted, MANY);

    for (int i = 0; i < MANY; i++) {
        wanted.is[i].exs_addr = NULL;
        wanted.is[i].exs_ahandle = &wanted.is[i];
    }
    MUST(exs_bind(listener, (struct sockaddr *)&here, length) == 0 && exs_listen(listener, MANY) == 0);
    MUST(exs_getsockname(listener, (struct sockaddr *)&here, &length) == 0);
    MUST(exs_accept(listener, wanted.is, MANY, 0, queue) == 0);
    for (int i = 0; i < MANY; i++) {
        MUST((clients[i] = exs_socket(PF_INET, SOCK_STREAM, 0)) >= 0);
        MUST(exs_connect(clients[i], (struct sockaddr *)&here, length, 0, NULL, queue, &clients[i]) == 0);
    }
    take(queue, events, 2 * MANY);
    for (int i = 0; i < MANY; i++) {
        find(events, 2 * MANY, EXS_EVT_CONNECT, &clients[i]);
        servers[i] = find(events, 2 * MANY, EXS_EVT_ACCEPT, &wanted.is[i])
                         ->exs_evt_union.exs_evt_accept.exs_evt_newsocket;
        MUST(servers[i] == wanted.is[i].exs_socket);
    }
    whole(wanted.fence, "elements");
    MUST(exs_blocking_close(listener) == 0);
}

static void talk(exs_qhandle_t queue, int client, int server, char *said)
{
    char heard[sizeof("number 0")];
    exs_iovec_t pieces[] = {{.exs_base = said, .exs_length = 3},
                            {.exs_base = said + 3, .exs_length = strlen(said) - 2}};
    exs_msghdr_t message = {.exs_iov = pieces, .exs_iovlen = 2};
    exs_xferfile_t vector[] = {
        {.exs_xfv_type = EXS_IOVEC, .exs_xfv.exs_iov = {.exs_base = said, .exs_length = 1}},
        {.exs_xfv_type = EXS_IOVEC, .exs_xfv.exs_iov = {.exs_base = said + 1, .exs_length = strlen(said)}},
    };
    exs_event_t events[3];

    MUST(exs_recv(server, heard, sizeof(heard), MSG_WAITALL, queue, heard, NULL) == 0);
    MUST(exs_sendmsg(client, &message, 0, queue, said) == 0);
    take(queue, events, 2);
    find(events, 2, EXS_EVT_SENDMSG, said);
    MUST(find(events, 2, EXS_EVT_RECV, heard)->exs_evt_union.exs_evt_xfer.exs_evt_length == sizeof(heard));
    MUST(strcmp(said, heard) == 0);
    memset(heard, 0, sizeof(heard));
    MUST(exs_recv(client, heard, sizeof(heard), MSG_WAITALL, queue, heard, NULL) == 0);
    MUST(exs_sendfile(server, vector, 2, 0, queue, said) == 0);
    take(queue, events, 2);
    find(events, 2, EXS_EVT_SENDFILE, said);
    find(events, 2, EXS_EVT_RECV, heard);
    MUST(strcmp(said, heard) == 0);
}

/* What the library fills in. */
static void ask(exs_qhandle_t queue, int client)
{
    FENCED(exs_qstatus_t, status, 1);
    FENCED(exs_stats_t, stats, 1);
    FENCED(exs_device_t, devices, 2);
    FENCED(exs_pollfd_t, polled, 1);

    MUST(exs_qstatus(queue, status.is) == 0 && status.is[0].exs_sockets == 2 * MANY);
    whole(status.fence, "status");
    MUST(exs_getstats(client, NULL, stats.is) == 0 && stats.is[0].exs_sends == 1);
    whole(stats.fence, "counters");
    MUST(exs_getdevices(devices.is, 2) >= 1);
    whole(devices.fence, "devices");
    polled.is[0] = (exs_pollfd_t){.exs_fd = client, .exs_events = EXS_POLLOUT};
    MUST(exs_poll(polled.is, 1, EXS_BLOCK, NULL, NULL, NULL) == 1 && polled.is[0].exs_revents == EXS_POLLOUT);
    whole(polled.fence, "descriptors");
}

int main(void)
{
    int clients[MANY], servers[MANY];
    char said[MANY][sizeof("number 0")];

    MUST(exs_init(EXS_VERSION) == 0);
    exs_qhandle_t queue = exs_qcreate(8);

    MUST(queue != EXS_QHANDLE_INVALID);
    connect_both(queue, clients, servers);
    for (int i = 0; i < MANY; i++) {
        snprintf(said[i], sizeof(said[i]), "number %d", i);
        talk(queue, clients[i], servers[i], said[i]);
    }
    ask(queue, clients[0]);
    for (int i = 0; i < MANY; i++)
        MUST(exs_blocking_close(clients[i]) == 0 && exs_blocking_close(servers[i]) == 0);
    MUST(exs_qdelete(queue) == 0 && exs_fini() == 0);
    return 0;
}
