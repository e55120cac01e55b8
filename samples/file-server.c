/* SPDX-License-Identifier: BSD-2-Clause */
/* A static file server on a libev loop: a client sends a name and a newline, and gets the file's length, 8 bytes in
 * big-endian order, and the file; or a length of -1 if there is no such file. The file is sent from the page cache by
 * one exs_sendfile().
 *
 * Build: cc file-server.c $(pkg-config --cflags --libs exs) -lev. Run: file-server FOLDER [PORT], and file-get.
 */
#define _DEFAULT_SOURCE /* POSIX's names, with -std=c11, too */
#include <endian.h>
#include <exs_ev.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME = 256 };

struct client {
    int sock;
    size_t have; /* bytes of `name` that were received */
    char name[NAME];
    uint64_t length;          /* in big-endian order, as it is sent */
    exs_xferfile_t vector[2]; /* used by the library until the event */
};

static int folder;
static exs_acceptaddr_t every_one; /* used by the library while it accepts connections */

/* Opens a regular file in the folder; refuses paths and symbolic links. Returns -1 if there is no such file. */
static int open_file(const char *name, struct stat *status)
{
    if (*name == '.' || strchr(name, '/') != NULL)
        return -1;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd != -1 && (fstat(fd, status) == -1 || !S_ISREG(status->st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Sends a vector: the first element is the length, the second, if the file exists and is not empty, the file. */
static int answer(struct client *client, exs_qhandle_t queue)
{
    struct stat status;
    int fd = open_file(client->name, &status);
    int count = fd != -1 && status.st_size > 0 ? 2 : 1;

    client->length = htobe64(fd != -1 ? (uint64_t)status.st_size : UINT64_MAX);
    client->vector[0].exs_xfv_type = EXS_IOVEC;
    client->vector[0].exs_xfv.exs_iov =
        (exs_iovec_t){.exs_base = &client->length, .exs_length = sizeof(client->length)};
    client->vector[1].exs_xfv_type = EXS_FDVEC;
    client->vector[1].exs_xfv.exs_fdv =
        (exs_fdvec_t){.exs_fildes = fd, .exs_length = count == 2 ? (size_t)status.st_size : 0};
    int rc = (int)exs_sendfile(client->sock, client->vector, count, EXS_BIGFILE, queue, client);
    if (fd != -1)
        close(fd); /* the library has its own reference to the file */
    return rc;
}

/* Receives the next part of the name, after the part that has arrived. */
static int ask(struct client *client, exs_qhandle_t queue)
{
    if (client->have == NAME)
        return -1;
    return (int)exs_recv(client->sock, client->name + client->have, NAME - client->have, 0, queue, client,
                         NULL);
}

static int received(struct client *client, size_t length, exs_qhandle_t queue)
{
    if (length == 0)
        return -1; /* end of stream */
    client->have += length;
    char *end = memchr(client->name, '\n', client->have);
    if (end == NULL)
        return ask(client, queue);
    *end = '\0';
    client->have = 0; /* a client must not send the next name before it has received this file */
    return answer(client, queue);
}

static struct client *welcome(int sock)
{
    struct client *client = calloc(1, sizeof(*client));

    if (client == NULL)
        abort();
    client->sock = sock;
    return client;
}

static void handle(const exs_event_t *e, exs_qhandle_t queue)
{
    struct client *client = e->exs_evt_ahandle;
    int rc = -1;

    if (e->exs_evt_type == EXS_EVT_CLOSE) {
        free(client);
        return;
    }
    if (e->exs_evt_type == EXS_EVT_ACCEPT) {
        if (e->exs_evt_errno != 0)
            return;
        client = welcome((int)exs_event_result(e));
    }
    if (e->exs_evt_errno == 0 && e->exs_evt_type == EXS_EVT_RECV)
        rc = received(client, (size_t)exs_event_result(e), queue);
    else if (e->exs_evt_errno == 0) /* accepted, or the file was sent: receive the next name */
        rc = ask(client, queue);
    if (rc == -1)
        exs_close(client->sock, 0, queue, client);
}

static void events_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    (void)loop;
    for (int i = 0; i < count; i++)
        handle(&events[i], w->queue);
}

int main(int argc, char **argv)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(here);
    exs_ev watcher;

    here.sin_port = htons((uint16_t)strtoul(argc > 2 ? argv[2] : "7474", NULL, 10));
    folder = open(argc > 1 ? argv[1] : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder == -1 || exs_init(EXS_VERSION) == -1) {
        perror("file-server");
        return 1;
    }
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0);
    exs_qhandle_t queue = exs_qcreate(256);
    if (exs_bind(sock, (struct sockaddr *)&here, length) == -1 || exs_listen(sock, SOMAXCONN) == -1 ||
        exs_getsockname(sock, (struct sockaddr *)&here, &length) == -1 ||
        exs_accept(sock, &every_one, 1, EXS_MULTISHOT, queue) == -1) {
        perror("file-server");
        return 1;
    }
    printf("waiting on port %u\n", ntohs(here.sin_port));
    fflush(stdout);
    exs_ev_init(&watcher, events_cb, queue);
    exs_ev_start(EV_DEFAULT_ & watcher);
    return ev_run(EV_DEFAULT_ 0);
}
