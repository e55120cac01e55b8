/* SPDX-License-Identifier: BSD-2-Clause */
/* Timeouts for all steps that may block: connecting, receiving an answer, and one operation that is canceled. The
 * program sends a request to an echo server, and then waits for an answer without a request.
 *
 * Build: cc time-outs.c $(pkg-config --cflags --libs exs). Run: time-outs HOST PORT. */
#include <errno.h>
#include <exs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *what)
{
    fprintf(stderr, "time-outs: %s: %s\n", what, strerror(errno));
    return 1;
}

/* Sets options of the socket: a timeout for all later receives, and keepalive, which detects an unresponsive peer. */
static int limit(int sock)
{
    const struct timeval answer = {.tv_usec = 200000};
    const int on = 1, idle_s = 2, interval_s = 1, times = 3;

    if (exs_setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &answer, sizeof(answer)) == -1 ||
        exs_setsockopt(sock, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) == -1 ||
        exs_setsockopt(sock, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s)) == -1 ||
        exs_setsockopt(sock, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s)) == -1)
        return -1;
    return exs_setsockopt(sock, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
}

/* Starts a receive, and cancels it after a time. Returns 0 if the receive was canceled. */
static int call_back(int sock, exs_qhandle_t queue)
{
    const struct timeval patience = {.tv_usec = 100000}, none = {0};
    exs_event_t e;
    char late[64];

    exs_setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
    if (exs_recv(sock, late, sizeof(late), 0, queue, late, NULL) == -1)
        return -1;
    if (exs_qdequeue(queue, &e, 1, &patience) == 0)
        exs_cancel(sock, late, 0); /* the library uses `late` until the event of the canceled receive */
    else
        return -1;
    if (exs_qdequeue(queue, &e, 1, NULL) != 1)
        return -1;
    return e.exs_evt_errno == ECANCELED ? 0 : -1;
}

int main(int argc, char **argv)
{
    const struct timeval two_seconds = {.tv_sec = 2};
    char answer[64];

    if (argc != 3 || exs_init(EXS_VERSION) == -1) {
        fprintf(stderr, "usage: time-outs HOST PORT\n");
        return 2;
    }
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0);
    exs_qhandle_t queue = exs_qcreate(8);
    if (exs_connect_host(sock, argv[1], argv[2], EXS_BLOCK, &two_seconds, NULL, NULL) == -1)
        return fail("connecting");
    if (limit(sock) == -1)
        return fail("exs_setsockopt");
    if (exs_write(sock, "hello, server?", 14) != 14 || exs_read(sock, answer, sizeof(answer)) != 14)
        return fail("asking");
    printf("answered in time\n");
    if (exs_read(sock, answer, sizeof(answer)) != -1 || errno != ETIMEDOUT)
        return fail("an answer to no request");
    printf("no answer in 0.2 s: %s\n", strerror(errno));
    if (call_back(sock, queue) == -1)
        return fail("calling back");
    printf("called back after 0.1 s\n");
    if (exs_write(sock, "still there?", 12) != 12 ||
        exs_blocking_recv(sock, answer, 12, MSG_WAITALL, NULL) != 12)
        return fail("asking again");
    printf("the connection lives on\n");
    return exs_blocking_close(sock) == 0 && exs_qdelete(queue) == 0 ? 0 : 1;
}
