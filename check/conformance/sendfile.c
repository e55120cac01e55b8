/* SPDX-License-Identifier: BSD-2-Clause */
/* sendfile.c - tests of exs_sendfile (5.2.11) and exs_blocking_sendfile (5.3.13): successful calls, and the rows. */
#include <stdio.h>
#include "sendfile.h"

ssize_t file_call_on(struct trial *trial, exs_xferfile_t *vector, int count, int flags, exs_qhandle_t queue)
{
    bool sends = trial->group == &group_sendfile;

    return (sends ? exs_sendfile : exs_recvfile)(trial->fd, vector, count, flags, queue, trial);
}

ssize_t file_call(struct trial *trial, exs_xferfile_t *vector, int count, int flags)
{
    if (trial->group == &group_blocking_sendfile)
        return exs_blocking_sendfile(trial->fd, vector, count, flags);
    if (trial->group == &group_blocking_recvfile)
        return exs_blocking_recvfile(trial->fd, vector, count, flags);
    return file_call_on(trial, vector, count, trial->flags | flags, trial->queue);
}

exs_xferfile_t file_whole(int file)
{
    return (exs_xferfile_t){.exs_xfv_type = EXS_FDVEC, .exs_xfv.exs_fdv.exs_fildes = file};
}

exs_xferfile_t file_range(int file, off_t offset, size_t length, int flags)
{
    exs_xferfile_t element = file_whole(file);

    element.exs_xfv.exs_fdv.exs_offset = offset;
    element.exs_xfv.exs_fdv.exs_length = length;
    element.exs_xfv.exs_fdv.exs_flags = flags;
    return element;
}

exs_xferfile_t file_named(char *path)
{
    return (exs_xferfile_t){.exs_xfv_type = EXS_PATHVEC, .exs_xfv.exs_pathv.exs_path = path};
}

/* ---- Successful calls ---------------------------------------------------------------------------------- */

/* Checks the number of bytes sent, which blocking calls do not return. */
static void finished(struct trial *trial, ssize_t result, size_t length)
{
    bool tells = (trial->flags & EXS_BLOCK) == 0;
    ssize_t bytes = moved(trial, result, EXS_EVT_SENDFILE);

    outcome(trial, bytes);
    require(trial, bytes == (tells ? (ssize_t)length : 0), "the number of bytes sent is wrong");
}

/* Checks that the peer has received these pieces of pattern(), one after the other. */
static void arrived(struct trial *trial, const struct peer_answer *answer, int times, size_t first,
                    size_t length)
{
    unsigned char bytes[BUFSIZE];
    uint64_t sum = SUM_START;

    pattern(bytes, BUFSIZE);
    for (int i = 0; i < times; i++)
        sum = sum_of(bytes + first, length, sum);
    require(trial, answer->count == length * (size_t)times && answer->sum == sum,
            "the peer did not receive what is in the file");
}

static void sent_with(struct trial *trial, exs_xferfile_t element, size_t first, size_t length, int flags)
{
    ok_connected(trial);
    peer_tell(trial, PEER_RECEIVE, length);
    finished(trial, file_call(trial, &element, 1, flags), length);
    struct peer_answer answer = peer_hear(trial);

    arrived(trial, &answer, 1, first, length);
}

static void sent(struct trial *trial, exs_xferfile_t element, size_t first, size_t length)
{
    sent_with(trial, element, first, length, 0);
}

static void ok(struct trial *trial)
{
    sent(trial, file_whole(file_of(trial, FILE_SIZE)), 0, FILE_SIZE);
}

static void ok_no_signal(struct trial *trial)
{
    sent_with(trial, file_whole(file_of(trial, FILE_SIZE)), 0, FILE_SIZE, MSG_NOSIGNAL);
}

static void ok_range(struct trial *trial)
{
    sent(trial, file_range(file_of(trial, FILE_SIZE), 1000, FILE_SIZE - 1000, 0), 1000, FILE_SIZE - 1000);
}

static void ok_path(struct trial *trial)
{
    char path[40];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", file_of(trial, FILE_SIZE));
    sent(trial, file_named(path), 0, FILE_SIZE);
}

static void ok_memory(struct trial *trial)
{
    pattern(trial->buffer, BUFSIZE);
    sent(trial,
         (exs_xferfile_t){.exs_xfv_type = EXS_IOVEC, .exs_xfv.exs_iov = {trial->buffer, FILE_SIZE, NULL, 0}}, 0,
         FILE_SIZE);
}

static void ok_twice(struct trial *trial)
{
    exs_xferfile_t element = file_whole(file_of(trial, FILE_SIZE));

    ok_connected(trial);
    peer_tell(trial, PEER_RECEIVE, (size_t)2 * FILE_SIZE);
    require(trial, moved(trial, file_call(trial, &element, 1, 0), EXS_EVT_SENDFILE) >= 0,
            "the first time failed");
    finished(trial, file_call(trial, &element, 1, 0), FILE_SIZE);
    struct peer_answer answer = peer_hear(trial);

    arrived(trial, &answer, 2, 0, FILE_SIZE);
}

/* Several elements, then the end of the stream. */
static void ok_vector(struct trial *trial)
{
    int file = file_of(trial, FILE_SIZE);
    exs_xferfile_t vector[2] = {file_whole(file), file_range(file, 0, FILE_SIZE, EXS_SHUT_WR)};

    ok_connected(trial);
    peer_tell(trial, PEER_DRAIN, 0);
    finished(trial, file_call(trial, vector, 2, 0), (size_t)2 * FILE_SIZE);
    struct peer_answer answer = peer_hear(trial);

    arrived(trial, &answer, 2, 0, FILE_SIZE);
    require(trial, exs_write(trial->fd, "x", 1) == -1 && errno == EPIPE,
            "EXS_SHUT_WR, and bytes can still be sent");
}

static void unsignaled(struct trial *trial)
{
    exs_xferfile_t element = file_whole(file_of(trial, FILE_SIZE));

    ok_connected(trial);
    outcome(trial, exs_sendfile(trial->fd, &element, 1, EXS_UNSIGNALED, NULL, trial));
    peer_tell(trial, PEER_RECEIVE, FILE_SIZE + 1);
    ok_send(trial, "x", 1); /* its event must be the first */
    require(trial, peer_hear(trial).count == FILE_SIZE + 1, "the peer did not receive what was sent");
    no_event(trial, trial->queue);
}

static void forked(struct trial *trial)
{
    exs_xferfile_t element = file_whole(file_of(trial, FILE_SIZE));

    ok_fresh(trial);
    in_child(trial);
    trial->queue = NULL;
    outcome(trial, file_call(trial, &element, 1, 0));
}

#include "sendfile_rows.h"
