/* SPDX-License-Identifier: BSD-2-Clause */
/* An echo server on a libev loop. Build: cc hello-server.c $(pkg-config --cflags --libs exs) -lev */
#include <exs_ev.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

static exs_acceptaddr_t next_one;

static void finish(int sock, void *buffer)
{
    free(buffer);
    exs_close(sock, 0, NULL, NULL);
}

static void listen_to(int sock, exs_qhandle_t queue)
{
    void *buffer = malloc(64);

    if (buffer == NULL || exs_recv(sock, buffer, 64, 0, queue, NULL, NULL) == -1)
        finish(sock, buffer);
}

static void events_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    for (exs_event_t *e = events; e < events + count; e++) {
        exs_evt_xfer_t *xfer = &e->exs_evt_union.exs_evt_xfer;
        int sock = e->exs_evt_socket;

        if (e->exs_evt_type == EXS_EVT_ACCEPT) { /* answer this one, and accept the next */
            if (e->exs_evt_errno == 0)
                listen_to((int)exs_event_result(e), w->queue);
            exs_accept(sock, &next_one, 1, 0, w->queue);
        } else if (e->exs_evt_type != EXS_EVT_RECV || xfer->exs_evt_length == 0 ||
                   exs_send(sock, xfer->exs_evt_buffer, xfer->exs_evt_length, 0, w->queue, NULL, NULL) == -1) {
            finish(sock, xfer->exs_evt_buffer);
        }
    }
    (void)loop;
}

int main(void)
{
    /* Listens on all addresses, so that hello-client may run on another host. */
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(7471)};
    exs_ev watcher;

    if (exs_init(EXS_VERSION) == -1) {
        perror("exs_init");
        return 1;
    }
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0);
    exs_qhandle_t queue = exs_qcreate(64);
    if (exs_bind(sock, (struct sockaddr *)&here, sizeof(here)) == -1 || exs_listen(sock, SOMAXCONN) == -1 ||
        exs_accept(sock, &next_one, 1, 0, queue) == -1) {
        perror("hello-server");
        return 1;
    }
    printf("waiting on port 7471\n");
    fflush(stdout);
    exs_ev_init(&watcher, events_cb, queue);
    exs_ev_start(EV_DEFAULT_ & watcher);
    return ev_run(EV_DEFAULT_ 0);
}
