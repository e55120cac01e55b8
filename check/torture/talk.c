/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * talk.c - transfers on a connection: short and long messages, from registered and unregistered memory, files,
 * reads and writes of the peer's memory, and the end of both directions. Every byte is compared, also those
 * received before a failure.
 */
#include "talk.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    HELLO = 100,    /* bytes; copied */
    REGION = 20000, /* bytes; registered by the application */
    LONG = 150000,  /* bytes; registered by the library for this operation */
    FILE_LENGTH = 60000,
    PATH_LENGTH = 3000,
    TAIL = 500,
    FILES = FILE_LENGTH + PATH_LENGTH + TAIL,
    REMOTE = 3000,
};

static unsigned char byte_at(int what, size_t at)
{
    return (unsigned char)(what * 37 + (int)(at * 11 + at / 251));
}

static unsigned char *new_bytes(int what, size_t length)
{
    unsigned char *bytes = malloc(length);

    for (size_t i = 0; bytes != NULL && i < length; i++)
        bytes[i] = what != 0 ? byte_at(what, i) : 0xEE;
    if (bytes == NULL)
        abort();
    return bytes;
}

static void compare(struct actor *actor, int what, const unsigned char *bytes, size_t from, size_t length)
{
    for (size_t i = from; i < length; i++)
        if (bytes[i] != byte_at(what, i))
            fault(actor, "byte %zu of message %d is %02x, not %02x", i, what, bytes[i], byte_at(what, i));
}

static int new_file(int what, size_t length)
{
    int fd = memfd_create("torture", 0);
    unsigned char *bytes = new_bytes(what, length);

    if (fd == -1 || write(fd, bytes, length) != (ssize_t)length)
        abort();
    free(bytes);
    return fd;
}

void talk_prepare(struct talk *talk)
{
    talk->fds[0] = new_file(4, FILE_LENGTH);
    talk->fds[1] = new_file(5, PATH_LENGTH);
    snprintf(talk->path, sizeof(talk->path), "/proc/self/fd/%d", talk->fds[1]);
}

/* Returns whether the operation was started, so that the next one in the stream may be. */
static bool on(const struct op *op)
{
    return op != NULL && (op->owed || op->error == 0);
}

static size_t length_of(const struct op *op)
{
    return op != NULL && op->length > 0 ? (size_t)op->length : 0;
}

/* Awaits the operation. Returns whether it received `want` bytes; fewer mean an early end of stream. */
static bool came(struct actor *actor, struct op *op, size_t want)
{
    if (!await(actor, op))
        return false;
    if (op->length == (ssize_t)want)
        return true;
    if (!actor->may_fail)
        fault(actor, "%zd bytes came, not %zu", op->length, want);
    return false;
}

static int all(const struct talk *talk)
{
    return talk->type == SOCK_STREAM ? MSG_WAITALL : 0;
}

/* ---- The client's three messages ----------------------------------------------------------------------- */

static bool say(struct actor *actor, int socket, int round, exs_mhandle_t memory, unsigned char *region)
{
    unsigned char *hello = new_bytes(1, HELLO), *much = new_bytes(3, LONG);

    hello[0] = (unsigned char)round;
    struct op *a = act_send(actor, socket, hello, HELLO, NULL);
    struct op *b = on(a) ? act_send(actor, socket, region, REGION, memory) : NULL;
    struct op *c = on(b) ? act_send(actor, socket, much, LONG, NULL) : NULL;
    bool said = await(actor, a);

    said = await(actor, b) && said;
    said = await(actor, c) && said;
    free(hello);
    free(much);
    return said;
}

static bool hear(struct actor *actor, const struct talk *talk, int socket, int *round, exs_mhandle_t memory,
                 unsigned char *region)
{
    unsigned char *hello = new_bytes(0, HELLO), *much = new_bytes(0, LONG);
    struct op *a = act_recv(actor, socket, hello, HELLO, all(talk), NULL);
    struct op *b = on(a) ? act_recv(actor, socket, region, REGION, all(talk), memory) : NULL;
    struct op *c = on(b) ? act_recv(actor, socket, much, LONG, all(talk), NULL) : NULL;
    bool heard = came(actor, a, HELLO);

    if (heard)
        *round = hello[0];
    heard = came(actor, b, REGION) && heard;
    heard = came(actor, c, LONG) && heard;
    compare(actor, 1, hello, 1, length_of(a));
    compare(actor, 2, region, 0, length_of(b));
    compare(actor, 3, much, 0, length_of(c));
    free(hello);
    free(much);
    return heard;
}

/* ---- The server's files --------------------------------------------------------------------------------- */

static bool say_files(struct actor *actor, const struct talk *talk, int socket)
{
    unsigned char *tail = new_bytes(6, TAIL);
    exs_xferfile_t vector[] = {
        {.exs_xfv_type = EXS_FDVEC, .exs_xfv.exs_fdv = {.exs_fildes = talk->fds[0]}},
        {.exs_xfv_type = EXS_PATHVEC, .exs_xfv.exs_pathv = {.exs_path = (char *)(uintptr_t)talk->path}},
        {.exs_xfv_type = EXS_IOVEC, .exs_xfv.exs_iov = {.exs_base = tail, .exs_length = TAIL}},
    };
    bool said = await(actor, act_sendfile(actor, socket, vector, 3));

    free(tail);
    return said;
}

static size_t part(size_t length, size_t from, size_t most)
{
    return length <= from ? 0 : length - from > most ? most : length - from;
}

/* Receives the first file into a file, and everything behind it into memory. */
static bool hear_files(struct actor *actor, int socket)
{
    unsigned char *bytes = new_bytes(0, FILES);
    int file = new_file(0, 0);
    exs_xferfile_t vector[] = {
        {.exs_xfv_type = EXS_FDVEC, .exs_xfv.exs_fdv = {.exs_fildes = file, .exs_length = FILE_LENGTH}},
        {.exs_xfv_type = EXS_IOVEC,
         .exs_xfv.exs_iov = {.exs_base = bytes + FILE_LENGTH, .exs_length = FILES - FILE_LENGTH}},
    };
    struct op *op = act_recvfile(actor, socket, vector, 2);
    bool heard = came(actor, op, FILES);
    size_t length = length_of(op);

    if (pread(file, bytes, FILE_LENGTH, 0) != (ssize_t)part(length, 0, FILE_LENGTH) && heard)
        fault(actor, "the file is too short");
    close(file);

    compare(actor, 4, bytes, 0, part(length, 0, FILE_LENGTH));
    compare(actor, 5, bytes + FILE_LENGTH, 0, part(length, FILE_LENGTH, PATH_LENGTH));
    compare(actor, 6, bytes + FILE_LENGTH + PATH_LENGTH, 0, part(length, FILE_LENGTH + PATH_LENGTH, TAIL));
    free(bytes);
    return heard;
}

/* ---- The server's memory --------------------------------------------------------------------------------- */

static bool offer(struct actor *actor, const struct talk *talk, int socket, exs_mhandle_t memory,
                  unsigned char *region)
{
    exs_token_t token;
    unsigned char done;

    if (exs_mexport(socket, memory, region, REMOTE, EXS_REMOTE_READ | EXS_REMOTE_WRITE, &token) == -1)
        return failed(actor, "exs_mexport");
    if (!await(actor, act_send(actor, socket, &token, sizeof(token), NULL)) ||
        !came(actor, act_recv(actor, socket, &done, 1, all(talk), NULL), 1))
        return false;
    compare(actor, 7, region, 0, REMOTE);
    return true;
}

static bool use(struct actor *actor, const struct talk *talk, int socket)
{
    unsigned char *there = new_bytes(7, REMOTE), *back = new_bytes(0, REMOTE);
    exs_token_t token;
    bool used = came(actor, act_recv(actor, socket, &token, sizeof(token), all(talk), NULL), sizeof(token)) &&
                await(actor, act_rwrite(actor, socket, there, REMOTE, &token, NULL)) &&
                came(actor, act_rread(actor, socket, back, REMOTE, &token, NULL), REMOTE);

    if (used)
        compare(actor, 7, back, 0, REMOTE);
    free(there);
    free(back);
    return used && await(actor, act_send(actor, socket, "!", 1, NULL));
}

/* ---- End of stream --------------------------------------------------------------------------- */

static bool hear_end(struct actor *actor, int socket)
{
    const struct timeval soon = {.tv_usec = 1000}, late = {.tv_sec = 600};
    unsigned char byte;
    int quiet = eventfd(0, EFD_CLOEXEC);

    if (quiet == -1)
        abort();
    /* The first poll always waits, in a queue; the second may find the end of stream at once. */
    bool told =
        await(actor, act_poll(actor, -1, quiet, &soon)) && await(actor, act_poll(actor, socket, quiet, &late));

    close(quiet);
    return told && came(actor, act_recv(actor, socket, &byte, 1, 0, NULL), 0);
}

/* Returns EXS_MHANDLE_INVALID if registering failed. */
static exs_mhandle_t new_region(struct actor *actor, unsigned char *bytes)
{
    exs_mhandle_t memory = exs_mregister(bytes, REGION, 0);

    if (memory == EXS_MHANDLE_INVALID)
        failed(actor, "exs_mregister");
    return memory;
}

static void end_region(struct actor *actor, exs_mhandle_t memory)
{
    if (memory != EXS_MHANDLE_INVALID && exs_mderegister(memory, 0) == -1)
        fault(actor, "exs_mderegister: %s", strerrorname_np(errno));
}

bool talk_as_client(struct actor *actor, const struct talk *talk, int socket, int round)
{
    unsigned char *region = new_bytes(2, REGION);
    exs_mhandle_t memory = new_region(actor, region);
    bool good = memory != EXS_MHANDLE_INVALID && say(actor, socket, round, memory, region) &&
                hear_files(actor, socket) && use(actor, talk, socket) &&
                await(actor, act_shutdown(actor, socket)) && hear_end(actor, socket);

    close_surely(actor, socket);
    end_region(actor, memory);
    free(region);
    return good;
}

bool talk_as_server(struct actor *actor, const struct talk *talk, int socket, int *round)
{
    unsigned char *region = new_bytes(0, REGION);
    exs_mhandle_t memory = new_region(actor, region);
    bool good = memory != EXS_MHANDLE_INVALID && hear(actor, talk, socket, round, memory, region) &&
                say_files(actor, talk, socket) && offer(actor, talk, socket, memory, region) &&
                hear_end(actor, socket);

    close_surely(actor, socket);
    end_region(actor, memory);
    free(region);
    return good;
}
