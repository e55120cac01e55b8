/* SPDX-License-Identifier: BSD-2-Clause */
/* sendfile_rows.h - the rows of sendfile.c, whose bodies it names. */

#define SENDFILE(fd, vector, count, flags, qh)                                                                 \
    "exs_sendfile(" fd ", " vector ", " count ", " flags ", " qh ", ah)"
#define GOOD(what) SENDFILE("fd", "sendvec", "sendvec_cnt", "flags", "qh") " [" what "]"

static const struct row sendfile_rows[] = {
    {1, EPERM, GOOD("no exs_init"), BOTH, THESIS, refuse_uninitialized, NULL},
    {2, ENOTCONN, SENDFILE("NOT_CONNECTED_FD", "sendvec", "sendvec_cnt", "flags", "qh"), BOTH, THESIS,
     refuse_not_connected, NULL},
    {3, EBADF, SENDFILE("BAD_FD", "sendvec", "sendvec_cnt", "flags", "qh"), BOTH, THESIS, refuse_bad_fd,
     "The thesis's heading has EINVAL, its text EBADF: the text stands."},
    {4, ENODEV, GOOD("exs_fildes is a pipe"), BOTH, THESIS, refuse_no_file, NULL},
    {5, EINVAL, GOOD("exs_fildes is -1"), BOTH, THESIS, refuse_bad_file, NULL},
    {6, EINVAL, GOOD("exs_path is empty"), BOTH, THESIS, refuse_bad_path,
     "An invalid path is one that can be nobody's; one that names no file has the errno of open."},
    {7, EFBIG, GOOD("a file of 1 GB and a byte"), BOTH, THESIS, refuse_too_big,
     "EXS_BIGFILE lifts the limit; see test_sendfile."},
    {8, EINVAL, GOOD("offset + length beyond the file's end"), BOTH, THESIS, refuse_past_end, NULL},
    {9, EINVAL, GOOD("offset beyond the file's end"), BOTH, THESIS, refuse_behind_end, NULL},
    {10, EINVAL, SENDFILE("fd", "sendvec", "0", "flags", "qh"), BOTH, THESIS, refuse_count_zero, NULL},
    {11, EINVAL, SENDFILE("fd", "sendvec", "sendvec_cnt", "BAD_FLAG", "qh"), BOTH, THESIS, refuse_flag, NULL},
    {12, EINVAL, SENDFILE("fd", "sendvec", "sendvec_cnt", "EXS_UNSIGNALED | EXS_BLOCK", "qh"), BOTH, THESIS,
     refuse_unsignaled_block, "The thesis prints & for |."},
    {13, EINVAL, SENDFILE("fd", "sendvec", "sendvec_cnt", "EXS_BLOCK", "INVALID_QHANDLE"), BOTH, THESIS,
     refuse_queue_invalid_block, NULL},
    {14, EPIPE, GOOD("after exs_shutdown"), BOTH, THESIS, refuse_after_shutdown, NULL},
    {15, 0, GOOD("a file"), BOTH, THESIS, ok, "It returns 0 in both modes."},
    {16, 0, GOOD("a file, immediately again"), BOTH, THESIS, ok_twice, NULL},
    {17, 0, GOOD("exs_pathvec"), BOTH, THESIS, ok_path, "The thesis's second [15]."},
    {18, EINVAL, SENDFILE("fd", "sendvec", "-1", "flags", "qh"), BOTH, OURS, refuse_count_negative, NULL},
    {19, EINVAL, SENDFILE("fd", "sendvec", "EXS_XFV_MAX + 1", "flags", "qh"), BOTH, OURS, refuse_count_too_many,
     NULL},
    {20, EINVAL, SENDFILE("fd", "NULL", "sendvec_cnt", "flags", "qh"), BOTH, OURS, refuse_vector_null, NULL},
    {21, EINVAL, SENDFILE("fd", "sendvec", "sendvec_cnt", "0", "INVALID_QHANDLE"), BOTH, OURS,
     refuse_queue_invalid, NULL},
    {22, EINVAL, SENDFILE("fd", "sendvec", "sendvec_cnt", "0", "NULL"), BOTH, OURS, refuse_queue_null, NULL},
    {23, ECONNRESET, GOOD("the peer was killed"), BOTH, OURS, refuse_after_reset, NULL},
    {24, EINVAL, GOOD("exs_path is NULL"), BOTH, OURS, refuse_no_path, NULL},
    {25, EISDIR, GOOD("exs_path names a folder"), BOTH, OURS, refuse_path_of_folder, NULL},
    {26, EFBIG, GOOD("a range of 1 GB and a byte"), BOTH, OURS, refuse_range_too_big, NULL},
    {27, EINVAL, GOOD("a negative offset"), BOTH, OURS, refuse_before_start, NULL},
    {28, EINVAL, GOOD("unknown exs_flags"), BOTH, OURS, refuse_element_flag, NULL},
    {29, EINVAL, GOOD("unknown exs_xfv_type"), BOTH, OURS, refuse_element_type, NULL},
    {30, EINVAL, GOOD("exs_iovec, exs_base is NULL"), BOTH, OURS, refuse_memory_null, NULL},
    {31, EINVAL, GOOD("exs_iovec, longer than EXS_MSG_MAX"), BOTH, OURS, refuse_memory_too_long, NULL},
    {32, EINVAL, GOOD("exs_iovec, EXS_MHANDLE_INVALID"), BOTH, OURS, refuse_memory_region, NULL},
    {33, EINVAL, GOOD("an element behind EXS_SHUT_WR"), BOTH, OURS, refuse_behind_shutdown, NULL},
    {34, 0, GOOD("a range of a file"), BOTH, OURS, ok_range, NULL},
    {35, 0, GOOD("exs_iovec"), BOTH, OURS, ok_memory, NULL},
    {36, 0, GOOD("two elements, then EXS_SHUT_WR"), BOTH, OURS, ok_vector, NULL},
    {37, 0, SENDFILE("fd", "sendvec", "sendvec_cnt", "EXS_UNSIGNALED", "NULL"), NONBLOCKING, OURS, unsignaled,
     "No event follows."},
    {38, EPERM, SENDFILE("BAD_FD", "NULL", "-1", "BAD_FLAG", "INVALID_QHANDLE") " [no exs_init]", BOTH, OURS,
     refuse_uninitialized_bad, NULL},
    {39, ECHILD, GOOD("in a forked child"), BOTH, OURS, forked, NULL},
    {40, ENOENT, GOOD("exs_path names no file"), BOTH, OURS, refuse_path_of_nothing, NULL},
    {41, ENAMETOOLONG, GOOD("exs_path is too long"), BOTH, OURS, refuse_long_path, NULL},
    {42, ENODEV, GOOD("exs_path names a device"), BOTH, OURS, refuse_path_of_device, NULL},
};
static const char *const needs[] = {"exs_init", "exs_socket", "exs_connect", NULL};
const struct group group_sendfile = {"exs_sendfile", "5.2.11", needs, ROWS(sendfile_rows)};

#define BLOCKING_SENDFILE(fd, vector, count, flags)                                                            \
    "exs_blocking_sendfile(" fd ", " vector ", " count ", " flags ")"
#define BLOCKING_GOOD(what) BLOCKING_SENDFILE("fd", "sendvec", "sendvec_cnt", "flags") " [" what "]"

static const struct row blocking_sendfile_rows[] = {
    {1, EPERM, BLOCKING_GOOD("no exs_init"), BLOCKING, THESIS, refuse_uninitialized, NULL},
    {2, ENOTCONN, BLOCKING_SENDFILE("NOT_CONNECTED_FD", "sendvec", "sendvec_cnt", "flags"), BLOCKING, THESIS,
     refuse_not_connected, NULL},
    {3, EBADF, BLOCKING_SENDFILE("BAD_FD", "sendvec", "sendvec_cnt", "flags"), BLOCKING, THESIS, refuse_bad_fd,
     "The thesis's heading has EINVAL, its text EBADF: the text stands."},
    {4, ENODEV, BLOCKING_GOOD("exs_fildes is a pipe"), BLOCKING, THESIS, refuse_no_file, NULL},
    {5, EINVAL, BLOCKING_GOOD("exs_fildes is -1"), BLOCKING, THESIS, refuse_bad_file, NULL},
    {6, EINVAL, BLOCKING_GOOD("exs_path is empty"), BLOCKING, THESIS, refuse_bad_path, NULL},
    {7, EFBIG, BLOCKING_GOOD("a file of 1 GB and a byte"), BLOCKING, THESIS, refuse_too_big, NULL},
    {8, EINVAL, BLOCKING_GOOD("offset + length beyond the file's end"), BLOCKING, THESIS, refuse_past_end,
     NULL},
    {9, EINVAL, BLOCKING_GOOD("offset beyond the file's end"), BLOCKING, THESIS, refuse_behind_end, NULL},
    {10, EINVAL, BLOCKING_SENDFILE("fd", "sendvec", "0", "flags"), BLOCKING, THESIS, refuse_count_zero, NULL},
    {11, EINVAL, BLOCKING_SENDFILE("fd", "sendvec", "sendvec_cnt", "BAD_FLAG"), BLOCKING, THESIS, refuse_flag,
     NULL},
    {12, EINVAL, BLOCKING_SENDFILE("fd", "sendvec", "sendvec_cnt", "EXS_UNSIGNALED | EXS_BLOCK"), BLOCKING,
     THESIS, refuse_unsignaled_block, "The thesis prints & for |."},
    {13, EPIPE, BLOCKING_GOOD("after exs_shutdown"), BLOCKING, THESIS, refuse_after_shutdown, NULL},
    {14, 0, BLOCKING_GOOD("a file"), BLOCKING, THESIS, ok, NULL},
    {15, 0, BLOCKING_GOOD("exs_pathvec"), BLOCKING, THESIS, ok_path, NULL},
    {16, 0, BLOCKING_GOOD("a file, immediately again"), BLOCKING, THESIS, ok_twice, NULL},
    {17, ECONNRESET, BLOCKING_GOOD("the peer was killed"), BLOCKING, OURS, refuse_after_reset, NULL},
    {18, 0, BLOCKING_GOOD("two elements, then EXS_SHUT_WR"), BLOCKING, OURS, ok_vector, NULL},
    {19, EPERM, BLOCKING_SENDFILE("BAD_FD", "NULL", "-1", "BAD_FLAG") " [no exs_init]", BLOCKING, OURS,
     refuse_uninitialized_bad, NULL},
};
const struct group group_blocking_sendfile = {"exs_blocking_sendfile", "5.3.13", needs,
                                              ROWS(blocking_sendfile_rows)};
