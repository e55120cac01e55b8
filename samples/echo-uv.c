/* SPDX-License-Identifier: BSD-2-Clause */
/* An echo server on libuv: sends back what it receives, until the client closes.
 *
 * Build: cc echo-uv.c $(pkg-config --cflags --libs exs libuv). Run: echo-uv [PORT]. */
#define _DEFAULT_SOURCE /* POSIX's names, with -std=c11, too */
#include <exs_uv.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 16384 };

static exs_acceptaddr_t next_one; /* used by the library until its event */

static void echo(exs_qhandle_t queue, const exs_event_t *e)
{
    ssize_t result = exs_event_result(e); /* the new socket, bytes, or -errno */
    char *buffer = e->exs_evt_ahandle;    /* of this connection */
    int sock = e->exs_evt_socket, type = e->exs_evt_type, rc = -1;

    if (type == EXS_EVT_CLOSE) {
        free(buffer);
        return;
    }
    if (type == EXS_EVT_ACCEPT) {
        sock = (int)result;
        exs_accept(e->exs_evt_socket, &next_one, 1, 0, queue);
        if (result < 0)
            return;
        buffer = malloc(SIZE);
    }
    if (result >= 0 && type != EXS_EVT_RECV)
        rc = exs_recv(sock, buffer, SIZE, 0, queue, buffer, NULL);
    else if (result > 0)
        rc = exs_send(sock, buffer, (size_t)result, 0, queue, buffer, NULL);
    if (rc == -1) /* an error, or the client's end of stream */
        exs_close(sock, 0, queue, buffer);
}

static exs_qhandle_t serve(const char *port)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)strtoul(port, NULL, 10))};
    socklen_t length = sizeof(here);

    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (exs_init(EXS_VERSION) == -1) {
        perror("exs_init");
        exit(1);
    }
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0);
    exs_qhandle_t queue = exs_qcreate(64);
    if (exs_bind(sock, (struct sockaddr *)&here, length) == -1 || exs_listen(sock, SOMAXCONN) == -1 ||
        exs_getsockname(sock, (struct sockaddr *)&here, &length) == -1 ||
        exs_accept(sock, &next_one, 1, 0, queue) == -1) {
        perror("echo-uv");
        exit(1);
    }
    printf("waiting on port %u\n", ntohs(here.sin_port));
    fflush(stdout);
    return queue;
}

static void events_cb(exs_uv_t *handle, exs_event_t *events, int count)
{
    for (int i = 0; i < count; i++)
        echo(handle->queue, &events[i]);
}

int main(int argc, char **argv)
{
    exs_qhandle_t queue = serve(argc > 1 ? argv[1] : "7471");
    uv_loop_t *loop = uv_default_loop();
    exs_uv_t handle;

    int rc = exs_uv_init(loop, &handle, queue);
    if (rc == 0)
        rc = exs_uv_start(&handle, events_cb);
    if (rc != 0) {
        fprintf(stderr, "echo-uv: %s\n", uv_strerror(rc));
        return 1;
    }
    return uv_run(loop, UV_RUN_DEFAULT);
}
