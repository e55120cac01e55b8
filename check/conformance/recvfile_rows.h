/* SPDX-License-Identifier: BSD-2-Clause */
/* recvfile_rows.h - the rows of recvfile.c. Their bodies are in recvfile.c, or are those of exs_sendfile. */

#define RECVFILE(fd, vector, count, flags, qh)                                                                 \
    "exs_recvfile(" fd ", " vector ", " count ", " flags ", " qh ", ah)"
#define GOOD(what) RECVFILE("fd", "recvvec", "recvvec_cnt", "flags", "qh") " [" what "]"

static const struct row recvfile_rows[] = {
    {1, EPERM, GOOD("no exs_init"), BOTH, OURS, refuse_uninitialized, NULL},
    {2, EPERM, RECVFILE("BAD_FD", "NULL", "-1", "BAD_FLAG", "INVALID_QHANDLE") " [no exs_init]", BOTH, OURS,
     refuse_uninitialized_bad, NULL},
    {3, ECHILD, GOOD("in a forked child"), BOTH, OURS, forked, NULL},
    {4, ENOTCONN, RECVFILE("NOT_CONNECTED_FD", "recvvec", "recvvec_cnt", "flags", "qh"), BOTH, OURS,
     refuse_not_connected, NULL},
    {5, EBADF, RECVFILE("BAD_FD", "recvvec", "recvvec_cnt", "flags", "qh"), BOTH, OURS, refuse_bad_fd, NULL},
    {6, EINVAL, RECVFILE("fd", "recvvec", "0", "flags", "qh"), BOTH, OURS, refuse_count_zero, NULL},
    {7, EINVAL, RECVFILE("fd", "recvvec", "-1", "flags", "qh"), BOTH, OURS, refuse_count_negative, NULL},
    {8, EINVAL, RECVFILE("fd", "recvvec", "EXS_XFV_MAX + 1", "flags", "qh"), BOTH, OURS, refuse_count_too_many,
     NULL},
    {9, EINVAL, RECVFILE("fd", "NULL", "recvvec_cnt", "flags", "qh"), BOTH, OURS, refuse_vector_null, NULL},
    {10, EINVAL, RECVFILE("fd", "recvvec", "recvvec_cnt", "BAD_FLAG", "qh"), BOTH, OURS, refuse_flag, NULL},
    {11, EINVAL, RECVFILE("fd", "recvvec", "recvvec_cnt", "EXS_UNSIGNALED | EXS_BLOCK", "qh"), BOTH, OURS,
     refuse_unsignaled_block, NULL},
    {12, EINVAL, RECVFILE("fd", "recvvec", "recvvec_cnt", "0", "INVALID_QHANDLE"), BOTH, OURS,
     refuse_queue_invalid, NULL},
    {13, EINVAL, RECVFILE("fd", "recvvec", "recvvec_cnt", "EXS_BLOCK", "INVALID_QHANDLE"), BOTH, OURS,
     refuse_queue_invalid_block, NULL},
    {14, EINVAL, RECVFILE("fd", "recvvec", "recvvec_cnt", "0", "NULL"), BOTH, OURS, refuse_queue_null, NULL},
    {15, ECONNRESET, GOOD("the peer was killed"), BOTH, OURS, refuse_after_reset, NULL},
    {16, ENODEV, GOOD("exs_fildes is a pipe"), BOTH, OURS, refuse_no_file, NULL},
    {17, EINVAL, GOOD("exs_fildes is -1"), BOTH, OURS, refuse_bad_file, NULL},
    {18, EACCES, GOOD("exs_fildes is open for reading"), BOTH, OURS, refuse_read_only, NULL},
    {19, EINVAL, GOOD("exs_fildes is open with O_APPEND"), BOTH, OURS, appending, NULL},
    {20, EINVAL, GOOD("exs_path is empty"), BOTH, OURS, refuse_bad_path, NULL},
    {21, EINVAL, GOOD("exs_path is NULL"), BOTH, OURS, refuse_no_path, NULL},
    {22, EISDIR, GOOD("exs_path names a folder"), BOTH, OURS, refuse_path_of_folder, NULL},
    {23, ENOENT, GOOD("exs_path is in no folder"), BOTH, OURS, refuse_path_of_nothing, NULL},
    {24, ENAMETOOLONG, GOOD("exs_path is too long"), BOTH, OURS, refuse_long_path, NULL},
    {25, ENODEV, GOOD("exs_path names a device"), BOTH, OURS, refuse_path_of_device, NULL},
    {26, EFBIG, GOOD("a range of 1 GB and a byte"), BOTH, OURS, refuse_range_too_big,
     "EXS_BIGFILE lifts the limit; see test_recvfile_large."},
    {27, EINVAL, GOOD("a negative offset"), BOTH, OURS, refuse_before_start, NULL},
    {28, EINVAL, GOOD("unknown exs_flags"), BOTH, OURS, refuse_element_flag, NULL},
    {29, EINVAL, GOOD("exs_flags is EXS_SHUT_WR"), BOTH, OURS, element_shut, NULL},
    {30, EINVAL, GOOD("unknown exs_xfv_type"), BOTH, OURS, refuse_element_type, NULL},
    {31, EINVAL, GOOD("exs_length is 0, and not in the last element"), BOTH, OURS, open_ended_first, NULL},
    {32, EINVAL, GOOD("no bytes in all"), BOTH, OURS, no_bytes, NULL},
    {33, EINVAL, GOOD("exs_iovec, exs_base is NULL"), BOTH, OURS, refuse_memory_null, NULL},
    {34, EINVAL, GOOD("exs_iovec, longer than EXS_MSG_MAX"), BOTH, OURS, refuse_memory_too_long, NULL},
    {35, EINVAL, GOOD("exs_iovec, EXS_MHANDLE_INVALID"), BOTH, OURS, refuse_memory_region, NULL},
    {36, EACCES, GOOD("exs_iovec, RECV_DISABLE_MH"), BOTH, OURS, region_disabled, NULL},
    {37, 0, GOOD("a file"), BOTH, OURS, ok, "It returns 0, or with EXS_BLOCK the bytes received."},
    {38, 0, GOOD("exs_pathvec"), BOTH, OURS, ok_path, NULL},
    {39, 0, GOOD("a range within a file"), BOTH, OURS, ok_within, NULL},
    {40, 0, GOOD("a range behind the end of a file"), BOTH, OURS, ok_behind, NULL},
    {41, 0, GOOD("two ranges of a file, and memory between"), BOTH, OURS, ok_vector, NULL},
    {42, 0, GOOD("exs_length is 0, and the peer shuts down"), BOTH, OURS, ok_end, NULL},
    {43, 0, RECVFILE("fd", "recvvec", "recvvec_cnt", "EXS_BIGFILE", "qh") " [the peer has shut down, 0 bytes]",
     BOTH, OURS, ok_nothing, NULL},
    {44, ENOTDIR, GOOD("exs_path leads through a file"), BOTH, OURS, refuse_path_through_file, NULL},
    {45, ELOOP, GOOD("exs_path is a link to itself"), BOTH, OURS, refuse_path_of_links, NULL},
    {46, EMFILE, GOOD("exs_pathvec, no descriptor left"), BOTH, OURS, refuse_path_without_descriptor, NULL},
    {47, EFBIG, GOOD("RLIMIT_FSIZE is half of what comes"), BOTH, OURS, limited,
     "A full disk: test_recvfile_full."},
};
static const char *const needs[] = {"exs_init", "exs_socket", "exs_connect", NULL};
const struct group group_recvfile = {"exs_recvfile", NULL, needs, ROWS(recvfile_rows)};

#define BLOCKING_RECVFILE(fd, vector, count, flags)                                                            \
    "exs_blocking_recvfile(" fd ", " vector ", " count ", " flags ")"
#define BLOCKING_GOOD(what) BLOCKING_RECVFILE("fd", "recvvec", "recvvec_cnt", "flags") " [" what "]"

static const struct row blocking_recvfile_rows[] = {
    {1, EPERM, BLOCKING_GOOD("no exs_init"), BLOCKING, OURS, refuse_uninitialized, NULL},
    {2, ENOTCONN, BLOCKING_RECVFILE("NOT_CONNECTED_FD", "recvvec", "recvvec_cnt", "flags"), BLOCKING, OURS,
     refuse_not_connected, NULL},
    {3, EBADF, BLOCKING_RECVFILE("BAD_FD", "recvvec", "recvvec_cnt", "flags"), BLOCKING, OURS, refuse_bad_fd,
     NULL},
    {4, EINVAL, BLOCKING_RECVFILE("fd", "NULL", "recvvec_cnt", "flags"), BLOCKING, OURS, refuse_vector_null,
     NULL},
    {5, EINVAL, BLOCKING_RECVFILE("fd", "recvvec", "0", "flags"), BLOCKING, OURS, refuse_count_zero, NULL},
    {6, EINVAL, BLOCKING_RECVFILE("fd", "recvvec", "recvvec_cnt", "BAD_FLAG"), BLOCKING, OURS, refuse_flag,
     NULL},
    {7, ENODEV, BLOCKING_GOOD("exs_fildes is a pipe"), BLOCKING, OURS, refuse_no_file, NULL},
    {8, EFBIG, BLOCKING_GOOD("a range of 1 GB and a byte"), BLOCKING, OURS, refuse_range_too_big, NULL},
    {9, 0, BLOCKING_GOOD("a file"), BLOCKING, OURS, ok, NULL},
    {10, 0, BLOCKING_GOOD("exs_length is 0, and the peer shuts down"), BLOCKING, OURS, ok_end, NULL},
    {11, EFBIG, BLOCKING_GOOD("RLIMIT_FSIZE is half of what comes"), BLOCKING, OURS, limited, NULL},
    {12, ECHILD, BLOCKING_GOOD("in a forked child"), BLOCKING, OURS, forked, NULL},
};
const struct group group_blocking_recvfile = {"exs_blocking_recvfile", NULL, needs,
                                              ROWS(blocking_recvfile_rows)};
