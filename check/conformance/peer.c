/* SPDX-License-Identifier: BSD-2-Clause */
/* peer.c - the peer: a process that receives orders, executes each by a blocking call, and answers with the result. */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "trial.h"

#define CHUNK 65536 /* bytes of a send or receive */

struct peer {   /* state of the peer's process */
    int orders; /* socket to the test's process */
    int family, listener, fd;
    unsigned char *exported; /* NULL: nothing was exported */
    size_t exported_length;  /* bytes */
    exs_token_t token;
};

void pattern(unsigned char *buffer, size_t length)
{
    for (size_t i = 0; i < length; i++)
        buffer[i] = (unsigned char)(i * 131 + 17);
}

uint64_t sum_of(const void *buffer, size_t length, uint64_t sum)
{
    const unsigned char *byte = buffer;

    for (size_t i = 0; i < length; i++)
        sum = (sum ^ byte[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static long listen_at(struct peer *peer, const struct peer_order *order, struct peer_answer *answer)
{
    const struct sockaddr *address = (const struct sockaddr *)&order->address.storage;

    peer->listener = exs_socket(address->sa_family, order->type, 0);
    answer->address.length = sizeof(answer->address.storage);
    if (peer->listener < 0 || exs_bind(peer->listener, address, order->address.length) < 0 ||
        exs_listen(peer->listener, 8) < 0)
        return -1;
    return exs_getsockname(peer->listener, (struct sockaddr *)&answer->address.storage,
                           &answer->address.length);
}

static long connect_to(struct peer *peer, const struct peer_order *order)
{
    const struct sockaddr *address = (const struct sockaddr *)&order->address.storage;

    peer->fd = exs_socket(address->sa_family, order->type, 0);
    return peer->fd < 0 ? -1 : exs_blocking_connect(peer->fd, address, order->address.length);
}

static long send_bytes(struct peer *peer, size_t count)
{
    unsigned char *buffer = malloc(count);

    if (buffer == NULL)
        return -1;
    pattern(buffer, count);
    ssize_t sent = exs_blocking_send(peer->fd, buffer, count, 0, NULL);

    free(buffer);
    return sent;
}

/* Receives this number of bytes, or until the end of the stream. */
static long receive_bytes(struct peer *peer, size_t count, struct peer_answer *answer)
{
    unsigned char *buffer = malloc(CHUNK);
    ssize_t got = buffer != NULL ? 1 : -1;

    while (got > 0 && answer->count < count) {
        size_t left = count - answer->count;

        got = exs_blocking_recv(peer->fd, buffer, left < CHUNK ? left : CHUNK, 0, NULL);
        if (got > 0) {
            answer->sum = sum_of(buffer, (size_t)got, answer->sum);
            answer->count += (size_t)got;
        }
    }
    free(buffer);
    return got;
}

/* Exports memory. A peer exports only once. */
static long export_bytes(struct peer *peer, const struct peer_order *order, struct peer_answer *answer)
{
    peer->exported = malloc(order->count);
    if (peer->exported == NULL)
        return -1;
    pattern(peer->exported, order->count);
    peer->exported_length = order->count;
    exs_mhandle_t region = exs_mregister(peer->exported, order->count, 0);

    if (region == EXS_MHANDLE_INVALID ||
        exs_mexport(peer->fd, region, peer->exported, order->count, order->access, &peer->token) < 0)
        return -1;
    answer->token = peer->token;
    return 0;
}

static long obey(struct peer *peer, const struct peer_order *order, struct peer_answer *answer)
{
    switch (order->task) {
    case PEER_LISTEN:
        return listen_at(peer, order, answer);
    case PEER_ACCEPT:
        return peer->fd = exs_blocking_accept(peer->listener, NULL, NULL);
    case PEER_CONNECT:
        return connect_to(peer, order);
    case PEER_SEND:
        return send_bytes(peer, order->count);
    case PEER_RECEIVE:
        return receive_bytes(peer, order->count, answer);
    case PEER_DRAIN:
        return receive_bytes(peer, SIZE_MAX, answer);
    case PEER_SHUTDOWN:
        return exs_shutdown(peer->fd, SHUT_WR, EXS_BLOCK, NULL, NULL);
    case PEER_CLOSE:
        return exs_blocking_close(peer->fd);
    case PEER_EXPORT:
        return export_bytes(peer, order, answer);
    case PEER_UNEXPORT:
        return exs_munexport(peer->fd, &peer->token);
    case PEER_SUM:
        answer->sum = sum_of(peer->exported, peer->exported_length, answer->sum);
        return 0;
    }
    return -1;
}

void peer_serve(int orders)
{
    struct peer peer = {.orders = orders, .listener = -1, .fd = -1};
    struct peer_order order;

    if (exs_init(EXS_VERSION) < 0)
        _exit(1);
    while (recv(orders, &order, sizeof(order), MSG_WAITALL) == (ssize_t)sizeof(order)) {
        struct peer_answer answer = {.sum = SUM_START};

        answer.result = obey(&peer, &order, &answer);
        answer.error = answer.result < 0 ? errno : 0;
        if (send(orders, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
            break;
    }
    _exit(0);
}

void peer_start(struct trial *trial)
{
    int ends[2];

    if (trial->options->peer != NULL) {
        remote_start(trial);
        return;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        broken(trial, "socketpair");
    trial->peer_pid = fork();
    if (trial->peer_pid < 0)
        broken(trial, "fork");
    if (trial->peer_pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* the test's process may crash */
        close(ends[0]);
        peer_serve(ends[1]);
    }
    close(ends[1]);
    trial->peer = ends[0];
}

void peer_tell(struct trial *trial, enum peer_task task, size_t count)
{
    struct peer_order order = {
        .task = task, .type = trial->type, .count = count, .access = trial->access, .address = trial->server};

    if (send(trial->peer, &order, sizeof(order), MSG_NOSIGNAL) < 0)
        broken(trial, "telling the peer");
}

struct peer_answer peer_hear(struct trial *trial)
{
    struct peer_answer answer;

    if (recv(trial->peer, &answer, sizeof(answer), MSG_WAITALL) != (ssize_t)sizeof(answer))
        broken(trial, "the peer process");
    if (answer.result < 0) {
        errno = answer.error;
        broken(trial, "what the peer was told to do");
    }
    return answer;
}

struct peer_answer peer_do(struct trial *trial, enum peer_task task, size_t count)
{
    peer_tell(trial, task, count);
    return peer_hear(trial);
}

void peer_kill(struct trial *trial)
{
    if (trial->options->peer != NULL) {
        close(trial->peer);
        trial->peer = -1;
        return;
    }
    kill(trial->peer_pid, SIGKILL);
    waitpid(trial->peer_pid, NULL, 0);
}
