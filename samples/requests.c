/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests and responses, with 64 requests outstanding. A client that waits for each answer needs a round trip for each
 * request; a client with 64 outstanding requests needs one round trip for 64.
 *
 * Build: cc requests.c $(pkg-config --cflags --libs exs). Run: requests serve [PORT], and
 * requests HOST PORT [OUTSTANDING [COUNT]]. */
#define _DEFAULT_SOURCE /* POSIX's names, with -std=c11, too */
#include <errno.h>
#include <exs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OUTSTANDING_MAX = 64, SIZE = 256 };

struct message {
    int number;
    char text[SIZE - sizeof(int)];
};

static struct message received[OUTSTANDING_MAX], sent[OUTSTANDING_MAX];
static exs_mhandle_t received_region, sent_region;

static int fail(const char *what)
{
    fprintf(stderr, "requests: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Starts a receive into the i-th buffer. Receives complete in the order in which they were started. */
static void receive(int sock, int i, exs_qhandle_t queue)
{
    if (exs_recv(sock, &received[i], SIZE, 0, queue, &received[i], received_region) == -1)
        fail("exs_recv");
}

/* Registers the buffers once, because they are used many times: the library then need not copy data. */
static exs_qhandle_t begin(void)
{
    if (exs_init(EXS_VERSION) == -1)
        fail("exs_init");
    received_region = exs_mregister(received, sizeof(received), 0);
    sent_region = exs_mregister(sent, sizeof(sent), EXS_MRF_RECV_DISABLE);
    if (received_region == EXS_MHANDLE_INVALID || sent_region == EXS_MHANDLE_INVALID)
        fail("exs_mregister");
    return exs_qcreate(2 * OUTSTANDING_MAX + 2);
}

/* ---- The server: one client after the other ------------------------------------------------------ */

/* Builds the answer in the buffer of the request. The next receive into this buffer starts after the answer was
 * sent. */
static void answer(int sock, struct message *message, exs_qhandle_t queue)
{
    char request[sizeof(message->text)];

    memcpy(request, message->text, sizeof(request));
    snprintf(message->text, sizeof(message->text), "answer to %.200s", request);
    if (exs_send(sock, message, SIZE, 0, queue, message, received_region) == -1 && errno != EPIPE &&
        errno != ECONNRESET)
        fail("exs_send");
}

/* Handles one event. Returns 1 after the socket was closed, else 0. */
static int serve_event(int sock, const exs_event_t *e, exs_qhandle_t queue)
{
    static int leaving;

    if (e->exs_evt_type == EXS_EVT_CLOSE) {
        leaving = 0;
        return 1;
    }
    if (leaving)
        return 0;
    if (e->exs_evt_errno != 0 || (exs_event_flags(e) & EXS_EOF)) {
        leaving = 1;
        exs_close(sock, 0, queue, NULL);
    } else if (e->exs_evt_type == EXS_EVT_RECV) {
        answer(sock, e->exs_evt_ahandle, queue);
    } else {
        receive(sock, (int)((struct message *)e->exs_evt_ahandle - received), queue);
    }
    return 0;
}

static void serve_client(int sock, exs_qhandle_t queue)
{
    exs_event_t events[OUTSTANDING_MAX];
    int closed = 0;

    for (int i = 0; i < OUTSTANDING_MAX; i++)
        receive(sock, i, queue);
    while (!closed) {
        int count = exs_qdequeue(queue, events, OUTSTANDING_MAX, NULL);

        if (count == -1)
            fail("exs_qdequeue");
        for (int i = 0; i < count; i++)
            closed += serve_event(sock, &events[i], queue);
    }
}

static int serve(const char *port)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    exs_qhandle_t queue = begin();
    socklen_t length = sizeof(here);
    int sock = exs_socket(PF_INET, SOCK_SEQPACKET, 0);
    exs_acceptaddr_t next_one = {0};
    exs_event_t e;

    here.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
    if (exs_bind(sock, (struct sockaddr *)&here, length) == -1 || exs_listen(sock, SOMAXCONN) == -1 ||
        exs_getsockname(sock, (struct sockaddr *)&here, &length) == -1)
        return fail("listening");
    printf("waiting on port %u\n", ntohs(here.sin_port));
    fflush(stdout);
    while (exs_accept(sock, &next_one, 1, 0, queue) == 0 && exs_qdequeue(queue, &e, 1, NULL) == 1)
        serve_client(next_one.exs_socket, queue);
    return fail("accepting");
}

/* ---- The client ---------------------------------------------------------------------------------- */

struct talk {
    int sock, outstanding, count; /* outstanding: maximum; count: all requests */
    int asked, answered;
    int unused[OUTSTANDING_MAX], unused_count; /* indices of buffers in `sent` whose send has completed */
    exs_qhandle_t queue;
};

static void ask(struct talk *talk)
{
    struct message *request = &sent[talk->unused[--talk->unused_count]];

    request->number = talk->asked++;
    snprintf(request->text, sizeof(request->text), "request %d", request->number);
    if (exs_send(talk->sock, request, SIZE, 0, talk->queue, request, sent_region) == -1)
        fail("exs_send");
}

static void take_answer(struct talk *talk, const struct message *response)
{
    char expected[64];

    snprintf(expected, sizeof(expected), "answer to request %d", talk->answered);
    if (response->number != talk->answered++ || strcmp(response->text, expected) != 0)
        fail("this is no answer to what was asked");
    receive(talk->sock, (int)(response - received), talk->queue);
}

static void talk_event(struct talk *talk, const exs_event_t *e)
{
    errno = e->exs_evt_errno;
    if (errno != 0)
        fail(exs_strevent(e->exs_evt_type));
    if (e->exs_evt_type == EXS_EVT_RECV)
        take_answer(talk, e->exs_evt_ahandle);
    else
        talk->unused[talk->unused_count++] = (int)((struct message *)e->exs_evt_ahandle - sent);
}

static void talk(struct talk *talk)
{
    exs_event_t events[OUTSTANDING_MAX];

    for (int i = 0; i < talk->outstanding; i++) {
        receive(talk->sock, i, talk->queue); /* before the first request, so that each answer finds a receive */
        talk->unused[talk->unused_count++] = i;
    }
    while (talk->answered < talk->count) {
        while (talk->asked < talk->count && talk->asked - talk->answered < talk->outstanding &&
               talk->unused_count > 0)
            ask(talk);
        int count = exs_qdequeue(talk->queue, events, OUTSTANDING_MAX, NULL);

        if (count == -1)
            fail("exs_qdequeue");
        for (int i = 0; i < count; i++)
            talk_event(talk, &events[i]);
    }
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    struct talk it = {.outstanding = argc > 3 ? (int)strtol(argv[3], NULL, 10) : OUTSTANDING_MAX,
                      .count = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 100000};
    exs_stats_t stats;
    exs_event_t e;

    if (argc > 1 && strcmp(argv[1], "serve") == 0)
        return serve(argc > 2 ? argv[2] : "7473");
    if (argc < 3 || it.outstanding < 1 || it.outstanding > OUTSTANDING_MAX || it.count < 1) {
        fprintf(stderr, "usage: requests serve [PORT] | requests HOST PORT [OUTSTANDING [COUNT]]\n");
        return 2;
    }
    it.queue = begin();
    it.sock = exs_socket(PF_INET, SOCK_SEQPACKET, 0);
    if (exs_connect_host(it.sock, argv[1], argv[2], 0, NULL, it.queue, NULL) == -1 ||
        exs_qdequeue(it.queue, &e, 1, NULL) != 1 || (errno = e.exs_evt_errno) != 0)
        return fail("connecting");
    double began = seconds();
    talk(&it);
    double took = seconds() - began;
    if (exs_getstats(-1, it.queue, &stats) == -1 || exs_blocking_close(it.sock) == -1)
        return fail("closing");
    printf("%d requests, %d outstanding: %.0f a second, %.1f us each\n", it.count, it.outstanding,
           it.count / took, took / it.count * 1e6);
    printf("%.1f events each time that the queue was looked at, %.0f %% of the bytes straight into place\n",
           (double)stats.exs_events / (double)stats.exs_turns,
           100.0 * (double)stats.exs_received_direct / (double)stats.exs_received);
    return 0;
}
