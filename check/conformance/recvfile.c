/* SPDX-License-Identifier: BSD-2-Clause */
/* recvfile.c - tests of exs_recvfile and exs_blocking_recvfile: received files, and errors of these functions only. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
#include "sendfile.h"

/* ---- Refused ------------------------------------------------------------------------------------------- */

static void forked(struct trial *trial)
{
    exs_xferfile_t element = file_whole(file_of(trial, FILE_SIZE));

    ok_fresh(trial);
    in_child(trial);
    trial->queue = NULL;
    outcome(trial, file_call(trial, &element, 1, 0));
}

static void refused(struct trial *trial, exs_xferfile_t *vector, int count)
{
    ok_connected(trial);
    outcome(trial, file_call(trial, vector, count, 0));
}

static void appending(struct trial *trial)
{
    exs_xferfile_t element = file_whole(file_opened(trial, O_RDWR | O_APPEND));

    refused(trial, &element, 1);
}

static void open_ended_first(struct trial *trial)
{
    int file = file_of(trial, FILE_SIZE);
    exs_xferfile_t vector[2] = {file_whole(file), file_range(file, 0, 10, 0)};

    refused(trial, vector, 2);
}

static void element_shut(struct trial *trial)
{
    exs_xferfile_t element = file_range(file_of(trial, FILE_SIZE), 0, 10, EXS_SHUT_WR);

    refused(trial, &element, 1);
}

static void no_bytes(struct trial *trial)
{
    exs_xferfile_t element = {.exs_xfv_type = EXS_IOVEC, .exs_xfv.exs_iov.exs_base = trial->buffer};

    refused(trial, &element, 1);
}

static void region_disabled(struct trial *trial)
{
    exs_xferfile_t element = {.exs_xfv_type = EXS_IOVEC};

    ok_connected(trial);
    element.exs_xfv.exs_iov.exs_base = trial->buffer;
    element.exs_xfv.exs_iov.exs_length = BUFSIZE;
    element.exs_xfv.exs_iov.exs_mhandle = ok_mregister(trial, trial->buffer, BUFSIZE, EXS_MRF_RECV_DISABLE);
    outcome(trial, file_call(trial, &element, 1, 0));
}

/* ---- Received files ------------------------------------------------------------------------------------ */

/* Checks that the peer's data, pattern(), are received into these elements. */
static void filled_by(struct trial *trial, exs_xferfile_t *vector, int count, size_t length)
{
    peer_tell(trial, PEER_SEND, length);
    ssize_t bytes = moved(trial, file_call(trial, vector, count, 0), EXS_EVT_RECVFILE);

    outcome(trial, bytes);
    peer_hear(trial);
    require(trial, bytes == (ssize_t)length, "the number of bytes received is wrong");
}

/* Checks that the file contains `length` bytes of pattern(), from its byte `first`, at this offset; and that the file
 * ends at `end`. */
static void has(struct trial *trial, int file, off_t offset, size_t first, size_t length, off_t end)
{
    unsigned char expected[BUFSIZE], bytes[BUFSIZE];

    pattern(expected, BUFSIZE);
    require(trial,
            pread(file, bytes, length, offset) == (ssize_t)length &&
                memcmp(bytes, expected + first, length) == 0,
            "the file does not have what the peer sent");
    require(trial, lseek(file, 0, SEEK_END) == end, "the length of the file is wrong");
}

static void fill_range(struct trial *trial, off_t offset, size_t length, off_t before, off_t after)
{
    int file = file_of(trial, before);
    exs_xferfile_t element = file_range(file, offset, length, 0);

    ok_connected(trial);
    filled_by(trial, &element, 1, length);
    has(trial, file, offset, 0, length, after);
}

static void ok(struct trial *trial)
{
    fill_range(trial, 0, FILE_SIZE, 0, FILE_SIZE);
}

static void ok_within(struct trial *trial)
{
    fill_range(trial, 1000, 500, FILE_SIZE, FILE_SIZE);
}

static void ok_behind(struct trial *trial)
{
    fill_range(trial, 10000, 500, FILE_SIZE, 10500);
}

static void ok_path(struct trial *trial)
{
    char path[40];
    int file = file_of(trial, 0);

    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    exs_xferfile_t element = file_named(path);

    element.exs_xfv.exs_pathv.exs_length = FILE_SIZE;
    ok_connected(trial);
    filled_by(trial, &element, 1, FILE_SIZE);
    has(trial, file, 0, 0, FILE_SIZE, FILE_SIZE);
}

static void ok_vector(struct trial *trial)
{
    int file = file_of(trial, 0);
    exs_xferfile_t vector[3] = {
        file_range(file, 100, 1000, 0), {.exs_xfv_type = EXS_IOVEC}, file_range(file, 0, 100, 0)};
    unsigned char expected[BUFSIZE];

    ok_connected(trial);
    vector[1].exs_xfv.exs_iov.exs_base = trial->buffer;
    vector[1].exs_xfv.exs_iov.exs_length = 500;
    filled_by(trial, vector, 3, 1600);
    has(trial, file, 100, 0, 1000, 1100);
    has(trial, file, 0, 1500, 100, 1100);
    pattern(expected, BUFSIZE);
    require(trial, memcmp(trial->buffer, expected + 1000, 500) == 0,
            "the memory does not have what the peer sent");
}

/* The limit on file sizes: the file contains the bytes that fit, the next receive gets the rest, and there is no
 * SIGXFSZ. */
static void limited(struct trial *trial)
{
    const struct rlimit limit = {FILE_SIZE / 2, FILE_SIZE / 2};
    unsigned char rest[FILE_SIZE / 2], expected[FILE_SIZE];
    int file = file_of(trial, 0);
    exs_xferfile_t element = file_range(file, 0, FILE_SIZE, 0);

    ok_connected(trial);
    if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
        broken(trial, "setrlimit");
    peer_tell(trial, PEER_SEND, FILE_SIZE);
    ssize_t bytes = moved(trial, file_call(trial, &element, 1, 0), EXS_EVT_RECVFILE);
    int error = errno;

    has(trial, file, 0, 0, FILE_SIZE / 2, FILE_SIZE / 2);
    ok_receive(trial, rest, FILE_SIZE / 2);
    peer_hear(trial);
    pattern(expected, FILE_SIZE);
    require(trial, memcmp(rest, expected + FILE_SIZE / 2, FILE_SIZE / 2) == 0, "the rest did not come");
    trial->other_call = true;
    errno = error;
    outcome(trial, bytes);
}

/* Without a length the file contains all data up to the end of the stream. */
static void ok_end(struct trial *trial)
{
    int file = file_of(trial, 0);
    exs_xferfile_t element = file_whole(file);

    ok_connected(trial);
    peer_do(trial, PEER_SEND, FILE_SIZE);
    peer_tell(trial, PEER_SHUTDOWN, 0);
    ssize_t bytes = moved(trial, file_call(trial, &element, 1, 0), EXS_EVT_RECVFILE);

    outcome(trial, bytes);
    require(trial, bytes == FILE_SIZE, "the number of bytes received is wrong");
    has(trial, file, 0, 0, FILE_SIZE, FILE_SIZE);
}

static void ok_nothing(struct trial *trial)
{
    exs_xferfile_t element = file_range(file_of(trial, 10), 0, FILE_SIZE, 0);

    ok_connected(trial);
    peer_tell(trial, PEER_SHUTDOWN, 0);
    ssize_t bytes = moved(trial, file_call(trial, &element, 1, EXS_BIGFILE), EXS_EVT_RECVFILE);

    outcome(trial, bytes);
    require(trial, bytes == 0, "the end is not 0 bytes");
    has(trial, element.exs_xfv.exs_fdv.exs_fildes, 0, 0, 10, 10);
}

#include "recvfile_rows.h"
