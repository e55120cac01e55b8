/* SPDX-License-Identifier: BSD-2-Clause */
/* transfer.c - correct calls that transfer data or end a connection, to prepare a test; and files to send. */
#include <sys/mman.h>
#include <unistd.h>
#include "trial.h"

void ok_send(struct trial *trial, const void *buffer, size_t length)
{
    ssize_t sent = exs_send(trial->fd, buffer, length, trial->flags, trial->queue, trial, NULL);

    if (moved(trial, sent, EXS_EVT_SEND) != (ssize_t)length)
        broken(trial, "exs_send");
}

void ok_receive(struct trial *trial, void *buffer, size_t length)
{
    int flags = trial->flags | MSG_WAITALL;
    ssize_t got = exs_recv(trial->fd, buffer, length, flags, trial->queue, trial, NULL);

    if (moved(trial, got, EXS_EVT_RECV) != (ssize_t)length)
        broken(trial, "exs_recv");
}

void ok_shutdown(struct trial *trial, int how)
{
    peer_tell(trial, PEER_DRAIN, 0);
    if (done(trial, exs_shutdown(trial->fd, how, trial->flags, trial->queue, trial), EXS_EVT_SHUTDOWN) < 0)
        broken(trial, "exs_shutdown");
    peer_hear(trial);
    trial->connected = false;
}

void ok_reset(struct trial *trial)
{
    unsigned char byte;
    ssize_t got;

    trial->connected = false;
    if (trial->queue == NULL) {
        peer_kill(trial);
        got = exs_recv(trial->fd, &byte, 1, EXS_BLOCK, NULL, NULL, NULL);
    } else {
        got = exs_recv(trial->fd, &byte, 1, 0, trial->queue, trial, NULL);
        peer_kill(trial);
        got = moved(trial, got, EXS_EVT_RECV);
    }
    require(trial, got < 0 && errno == ECONNRESET,
            "a receive of a connection that broke did not get ECONNRESET");
}

int file_of(struct trial *trial, off_t size)
{
    unsigned char bytes[BUFSIZE];
    size_t filled = size < BUFSIZE ? (size_t)size : BUFSIZE;
    int file = memfd_create("exs-conformance", MFD_CLOEXEC);

    pattern(bytes, filled);
    if (file < 0 || pwrite(file, bytes, filled, 0) != (ssize_t)filled || ftruncate(file, size) < 0)
        broken(trial, "making a file");
    return file;
}
