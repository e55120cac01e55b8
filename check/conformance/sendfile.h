/* SPDX-License-Identifier: BSD-2-Clause */
/* sendfile.h - common parts of the tests of exs_sendfile, exs_recvfile and their blocking forms, with one set of bodies
 * for all. */
#ifndef SENDFILE_H
#define SENDFILE_H

#include "bodies.h"

#define FILE_SIZE 3000 /* bytes */

/* Calls the function of the row's group, on trial.fd. */
ssize_t file_call(struct trial *trial, exs_xferfile_t *vector, int count, int flags);
/* Calls the form of the function that has a queue, with exactly these flags. */
ssize_t file_call_on(struct trial *trial, exs_xferfile_t *vector, int count, int flags, exs_qhandle_t queue);

/* Elements: a file from its start to its end, a range of it, or by its path. */
exs_xferfile_t file_whole(int file);
exs_xferfile_t file_range(int file, off_t offset, size_t length, int flags);
exs_xferfile_t file_named(char *path);

/* Bodies of calls that must fail (sendfile_refused.c). */
void refuse_uninitialized(struct trial *trial);
void refuse_uninitialized_bad(struct trial *trial);
void refuse_not_connected(struct trial *trial);
void refuse_bad_fd(struct trial *trial);
void refuse_count_zero(struct trial *trial);
void refuse_count_negative(struct trial *trial);
void refuse_count_too_many(struct trial *trial);
void refuse_flag(struct trial *trial);
void refuse_unsignaled_block(struct trial *trial);
void refuse_queue_invalid_block(struct trial *trial);
void refuse_queue_invalid(struct trial *trial);
void refuse_queue_null(struct trial *trial);
void refuse_after_shutdown(struct trial *trial);
void refuse_after_reset(struct trial *trial);
void refuse_vector_null(struct trial *trial);
void refuse_no_file(struct trial *trial);
void refuse_bad_file(struct trial *trial);
void refuse_bad_path(struct trial *trial);
void refuse_no_path(struct trial *trial);
void refuse_path_of_folder(struct trial *trial);
void refuse_path_of_nothing(struct trial *trial);
void refuse_path_of_device(struct trial *trial);
void refuse_path_through_file(struct trial *trial);
void refuse_path_of_links(struct trial *trial);
void refuse_path_without_descriptor(struct trial *trial);
void refuse_read_only(struct trial *trial);
void refuse_write_only(struct trial *trial);
/* Opens the file of the test again, with these flags. */
int file_opened(struct trial *trial, int how);
void refuse_long_path(struct trial *trial);
void refuse_too_big(struct trial *trial);
void refuse_range_too_big(struct trial *trial);
void refuse_past_end(struct trial *trial);
void refuse_behind_end(struct trial *trial);
void refuse_before_start(struct trial *trial);
void refuse_element_flag(struct trial *trial);
void refuse_element_type(struct trial *trial);
void refuse_memory_null(struct trial *trial);
void refuse_memory_too_long(struct trial *trial);
void refuse_memory_region(struct trial *trial);
void refuse_behind_shutdown(struct trial *trial);

#endif
