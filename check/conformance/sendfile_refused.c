/* SPDX-License-Identifier: BSD-2-Clause */
/* sendfile_refused.c - tests of exs_sendfile, exs_recvfile and their blocking forms: calls that must fail. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>
#include "sendfile.h"

/* Connects, and checks that a call with this element fails. */
static void refused(struct trial *trial, exs_xferfile_t element)
{
    ok_connected(trial);
    outcome(trial, file_call(trial, &element, 1, 0));
}

/* ---- Refused: the call --------------------------------------------------------------------------------- */

void refuse_uninitialized(struct trial *trial)
{
    exs_xferfile_t element = file_whole(file_of(trial, FILE_SIZE));

    trial->fd = 0;
    outcome(trial, file_call(trial, &element, 1, 0));
}

void refuse_uninitialized_bad(struct trial *trial)
{
    trial->queue = trial->flags & EXS_BLOCK ? NULL : INVALID_QHANDLE;
    outcome(trial, file_call(trial, NULL, -1, BAD_FLAG));
}

void refuse_not_connected(struct trial *trial)
{
    exs_xferfile_t element = file_whole(file_of(trial, FILE_SIZE));

    ok_fresh(trial);
    outcome(trial, file_call(trial, &element, 1, 0));
    ok_bind(trial, trial->fd, "0");
    ok_listen(trial, trial->fd);
    outcome(trial, file_call(trial, &element, 1, 0));
}

void refuse_bad_fd(struct trial *trial)
{
    exs_xferfile_t element = file_whole(file_of(trial, FILE_SIZE));

    ok_fresh(trial);
    const int bad[] = {BAD_FD, UNUSED_FD, foreign_fd(trial)};

    for (int i = 0; i < 3; i++) {
        trial->fd = bad[i];
        outcome(trial, file_call(trial, &element, 1, 0));
    }
}

/* Makes a call with this count and enough valid elements. */
static void count(struct trial *trial, int elements)
{
    exs_xferfile_t vector[EXS_XFV_MAX + 1];
    int file = file_of(trial, 1);

    for (int i = 0; i <= EXS_XFV_MAX; i++)
        vector[i] = file_whole(file);
    ok_connected(trial);
    outcome(trial, file_call(trial, vector, elements, 0));
}

void refuse_count_zero(struct trial *trial)
{
    count(trial, 0);
}

void refuse_count_negative(struct trial *trial)
{
    count(trial, -1);
}

void refuse_count_too_many(struct trial *trial)
{
    count(trial, EXS_XFV_MAX + 1);
}

static void flags(struct trial *trial, int bad)
{
    exs_xferfile_t element = file_whole(file_of(trial, FILE_SIZE));

    ok_connected(trial);
    outcome(trial, file_call(trial, &element, 1, bad));
}

void refuse_flag(struct trial *trial)
{
    exs_xferfile_t element = file_whole(file_of(trial, FILE_SIZE));

    flags(trial, BAD_FLAG);
    outcome(trial, file_call(trial, &element, 1, MSG_OOB));
    outcome(trial, file_call(trial, &element, 1, MSG_WAITALL));
    outcome(trial, file_call(trial, &element, 1, -1));
}

void refuse_unsignaled_block(struct trial *trial)
{
    flags(trial, EXS_UNSIGNALED | EXS_BLOCK);
    if (strncmp(trial->group->function, "exs_blocking_", 13) == 0) {
        exs_xferfile_t element = file_whole(file_of(trial, FILE_SIZE));

        outcome(trial, file_call(trial, &element, 1, EXS_UNSIGNALED));
    }
}

static void queue(struct trial *trial, int call_flags, exs_qhandle_t given)
{
    exs_xferfile_t element = file_whole(file_of(trial, FILE_SIZE));

    ok_connected(trial);
    outcome(trial, file_call_on(trial, &element, 1, call_flags, given));
}

void refuse_queue_invalid_block(struct trial *trial)
{
    queue(trial, EXS_BLOCK, INVALID_QHANDLE);
}

void refuse_queue_invalid(struct trial *trial)
{
    queue(trial, 0, INVALID_QHANDLE);
}

void refuse_queue_null(struct trial *trial)
{
    queue(trial, 0, NULL);
}

void refuse_after_shutdown(struct trial *trial)
{
    exs_xferfile_t element = file_whole(file_of(trial, FILE_SIZE));

    ok_connected(trial);
    ok_shutdown(trial, SHUT_WR);
    outcome(trial, file_call(trial, &element, 1, 0));
}

void refuse_after_reset(struct trial *trial)
{
    exs_xferfile_t element = file_whole(file_of(trial, FILE_SIZE));

    ok_connected(trial);
    ok_reset(trial);
    outcome(trial, file_call(trial, &element, 1, 0));
}

/* ---- Refused: an element ------------------------------------------------------------------------------- */

void refuse_vector_null(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, file_call(trial, NULL, 1, 0));
}

void refuse_no_file(struct trial *trial)
{
    int ends[2];

    if (pipe(ends) < 0)
        broken(trial, "pipe");
    refused(trial, file_whole(ends[0]));
}

void refuse_bad_file(struct trial *trial)
{
    refused(trial, file_whole(BAD_FD));
}

void refuse_bad_path(struct trial *trial)
{
    refused(trial, file_named(""));
}

int file_opened(struct trial *trial, int how)
{
    char path[40];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", file_of(trial, FILE_SIZE));
    int file = open(path, how | O_CLOEXEC);

    if (file < 0)
        broken(trial, "opening a file again");
    return file;
}

void refuse_read_only(struct trial *trial)
{
    refused(trial, file_whole(file_opened(trial, O_RDONLY)));
}

void refuse_write_only(struct trial *trial)
{
    refused(trial, file_whole(file_opened(trial, O_WRONLY)));
}

void refuse_no_path(struct trial *trial)
{
    refused(trial, file_named(NULL));
}

void refuse_path_of_folder(struct trial *trial)
{
    refused(trial, file_named("/"));
}

void refuse_path_of_nothing(struct trial *trial)
{
    refused(trial, file_named("/nonexistent/exs"));
}

void refuse_path_through_file(struct trial *trial)
{
    refused(trial, file_named("/proc/self/stat/exs"));
}

/* A symbolic link to itself. */
void refuse_path_of_links(struct trial *trial)
{
    char path[40];

    snprintf(path, sizeof(path), "/tmp/exs-conformance-%d", (int)getpid());
    unlink(path);
    if (symlink(path, path) < 0)
        broken(trial, "symlink");
    refused(trial, file_named(path));
    unlink(path);
}

void refuse_path_without_descriptor(struct trial *trial)
{
    exs_xferfile_t element;
    char path[40];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", file_of(trial, FILE_SIZE));
    element = file_named(path);
    ok_connected(trial);
    use_up_descriptors(trial);
    outcome(trial, file_call(trial, &element, 1, 0));
}

void refuse_path_of_device(struct trial *trial)
{
    refused(trial, file_named("/dev/null"));
}

void refuse_long_path(struct trial *trial)
{
    static char name[PATH_MAX + 1];

    memset(name, 'x', PATH_MAX);
    refused(trial, file_named(name));
}

void refuse_too_big(struct trial *trial)
{
    refused(trial, file_whole(file_of(trial, (off_t)EXS_FILE_MAX + 1)));
}

void refuse_range_too_big(struct trial *trial)
{
    refused(trial, file_range(file_of(trial, (off_t)EXS_FILE_MAX + 2), 1, EXS_FILE_MAX + 1, 0));
}

void refuse_past_end(struct trial *trial)
{
    refused(trial, file_range(file_of(trial, FILE_SIZE), 1, FILE_SIZE, 0));
}

void refuse_behind_end(struct trial *trial)
{
    refused(trial, file_range(file_of(trial, FILE_SIZE), FILE_SIZE + 1, 0, 0));
}

void refuse_before_start(struct trial *trial)
{
    refused(trial, file_range(file_of(trial, FILE_SIZE), -1, 1, 0));
}

void refuse_element_flag(struct trial *trial)
{
    refused(trial, file_range(file_of(trial, FILE_SIZE), 0, 0, EXS_SHUT_WR | BAD_FLAG));
}

void refuse_element_type(struct trial *trial)
{
    exs_xferfile_t element = file_whole(file_of(trial, FILE_SIZE));

    element.exs_xfv_type = 0;
    refused(trial, element);
}

void refuse_memory_null(struct trial *trial)
{
    refused(trial, (exs_xferfile_t){.exs_xfv_type = EXS_IOVEC, .exs_xfv.exs_iov.exs_length = 1});
}

void refuse_memory_too_long(struct trial *trial)
{
    refused(trial, (exs_xferfile_t){.exs_xfv_type = EXS_IOVEC,
                                    .exs_xfv.exs_iov = {trial->buffer, MAX_LENGTH, NULL, 0}});
}

void refuse_memory_region(struct trial *trial)
{
    refused(trial, (exs_xferfile_t){.exs_xfv_type = EXS_IOVEC,
                                    .exs_xfv.exs_iov = {trial->buffer, BUFSIZE, EXS_MHANDLE_INVALID, 0}});
}

void refuse_behind_shutdown(struct trial *trial)
{
    int file = file_of(trial, FILE_SIZE);
    exs_xferfile_t vector[2] = {file_range(file, 0, 0, EXS_SHUT_WR), file_whole(file)};

    ok_connected(trial);
    outcome(trial, file_call(trial, vector, 2, 0));
}
