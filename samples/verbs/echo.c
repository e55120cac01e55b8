/* SPDX-License-Identifier: BSD-2-Clause */
/* echo.c - the loops of client and daemon, and waiting for the first of a completion and data from the other side over
 * TCP. */
#include "echo.h"

#include "poll.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define LAST_LINES 20000 /* milliseconds that the daemon waits for lines that the client has sent */
#define LOST_LINES 1000  /* milliseconds that it waits for lines that may be lost */

int echo_cq(struct resources *r, int entries)
{
    r->channel = ibv_create_comp_channel(r->context);
    if (!r->channel)
        return failed("ibv_create_comp_channel", errno);
    r->cq = ibv_create_cq(r->context, entries, NULL, r->channel, 0);
    if (!r->cq)
        return failed("ibv_create_cq", errno);
    /* The completion of an event may have been polled already, so there may be no event: reading must not block. */
    int flags = fcntl(r->channel->fd, F_GETFL);
    if (flags == -1 || fcntl(r->channel->fd, F_SETFL, flags | O_NONBLOCK) == -1)
        return failed("completion channel", errno);
    int rc = ibv_req_notify_cq(r->cq, 0);
    return rc == 0 ? 0 : failed("failed to arm the CQ", rc);
}

/* Reads and acknowledges the channel's events, and arms the queue again. */
static int rearm(struct resources *r)
{
    struct ibv_cq *cq;
    void *context;
    unsigned events = 0;

    while (ibv_get_cq_event(r->channel, &cq, &context) == 0)
        events++;
    if (events == 0)
        return 0;
    ibv_ack_cq_events(r->cq, events);
    int rc = ibv_req_notify_cq(r->cq, 0);
    return rc == 0 ? 0 : failed("failed to arm the CQ", rc);
}

int echo_await(struct resources *r, struct ibv_wc *wc, int limit)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = r->channel->fd, .events = POLLIN}, {.fd = r->sock, .events = POLLIN}};
        int count = rearm(r) == -1 ? -1 : ibv_poll_cq(r->cq, 1, wc);

        if (count == 1)
            return check_status(wc) == 0 ? 1 : -1;
        if (count < 0)
            return failed("completion queue", EIO);
        int ready = poll(fds, limit == -1 ? 2 : 1, limit);
        if (ready <= 0)
            return failed("waiting for a completion", ready == 0 ? ETIMEDOUT : errno);
        /* Data over TCP are handled after all completions that precede them. */
        if (limit == -1 && fds[1].revents && !fds[0].revents)
            return 0;
    }
}

int echo_serve(struct resources *r, int (*take)(struct resources *r, const struct ibv_wc *wc), bool lossy)
{
    uint32_t taken = 0, sent = 0;
    struct ibv_wc wc;
    int rc, limit = -1;

    while (limit == -1 || taken < sent) {
        rc = echo_await(r, &wc, limit);
        if (rc == 1) {
            taken += wc.opcode & IBV_WC_RECV ? 1 : 0;
            rc = take(r, &wc);
            fflush(stdout);
        } else if (rc == 0) {
            rc = passing_sync(r->sock, taken, &sent);
            limit = lossy ? LOST_LINES : LAST_LINES;
        }
        if (rc == -1)
            break;
    }
    printf("received %u of %u messages\n", taken, sent);
    return limit != -1 && (lossy || taken == sent) ? 0 : -1;
}

int echo_talk(struct resources *r,
              int (*give)(struct resources *r, uint32_t number, const char *text, size_t length))
{
    char text[TEXT_MAX];
    uint32_t sent = 0;

    while (fgets(text, sizeof(text), stdin)) {
        text[strcspn(text, "\n")] = '\0';
        if (give(r, sent, text, strlen(text) + 1) == -1)
            return -1;
        sent++;
    }
    printf("sent %u messages\n", sent);
    return passing_sync(r->sock, sent, NULL);
}
