/* SPDX-License-Identifier: BSD-2-Clause */
/* recv_rows.h - the rows of recv.c, which contains their bodies. */

#define RECV(fd, buffer, length, flags, qh, mh)                                                                \
    "exs_recv(" fd ", " buffer ", " length ", " flags ", " qh ", ah, " mh ")"
#define GOOD RECV("fd", "recv_buf", "RECV_BUFSIZE", "flags", "qh", "mh")

static const struct row recv_rows[] = {
    {1, EPERM, GOOD " [no exs_init]", BOTH, THESIS, uninitialized, NULL},
    {2, EINVAL, RECV("fd", "recv_buf", "RECV_BUFSIZE", "flags", "INVALID_QH", "mh"), BOTH, THESIS,
     queue_invalid, NULL},
    {3, EINVAL, RECV("fd", "recv_buf", "RECV_BUFSIZE", "0", "NULL", "mh"), BOTH, THESIS, queue_null,
     "The thesis calls it with INVALID_QH as in test 2; its text means NULL."},
    {4, EINVAL, RECV("fd", "recv_buf", "ZERO_LENGTH", "flags", "qh", "mh"), BOTH, THESIS, length_zero, NULL},
    {5, EINVAL, RECV("fd", "recv_buf", "MAX_LENGTH", "flags", "qh", "mh"), BOTH, THESIS, too_long, NULL},
    {6, EINVAL, RECV("fd", "BAD_BUFFER", "RECV_BUFSIZE", "flags", "qh", "mh"), BOTH, THESIS, buffer_null, NULL},
    {7, EOPNOTSUPP, RECV("fd", "recv_buf", "RECV_BUFSIZE", "BAD_FLAG", "qh", "mh"), BOTH, THESIS, flag,
     "BAD_FLAG is MSG_OOB here: 2 is Linux's MSG_PEEK, which is taken."},
    {8, EBADF, RECV("BAD_FD", "recv_buf", "RECV_BUFSIZE", "flags", "qh", "mh"), BOTH, THESIS, bad_fd, NULL},
    {9, ENOTCONN, RECV("NOT_CONNECTED_FD", "recv_buf", "RECV_BUFSIZE", "flags", "qh", "mh"), BOTH, THESIS,
     not_connected, "The thesis calls it with BAD_FD as in test 8, and means one never connected."},
    {10, 0, GOOD, BOTH, THESIS, ok, "It returns 0, or with EXS_BLOCK the bytes received."},
    {11, 0, RECV("fd", "recv_buf", "RECV_BUFSIZE", "MSG_WAITALL", "qh", "mh"), BOTH, OURS, ok_all, NULL},
    {12, 0, RECV("fd", "recv_buf", "RECV_BUFSIZE", "flags", "qh", "MH_OF_RECV_BUF"), BOTH, OURS, ok_region,
     NULL},
    {13, 0, GOOD " [the peer has shut down, 0 bytes]", BOTH, OURS, at_end, NULL},
    {14, ECONNRESET, GOOD " [the peer was killed]", BOTH, OURS, after_reset, NULL},
    {15, EINVAL, RECV("fd", "recv_buf", "RECV_BUFSIZE", "flags", "qh", "EXS_MHANDLE_INVALID"), BOTH, OURS,
     region_invalid, NULL},
    {16, EINVAL, RECV("fd", "recv_buf", "RECV_BUFSIZE", "flags", "qh", "TOO_SHORT_MH"), BOTH, OURS,
     region_elsewhere, NULL},
    {17, EACCES, RECV("fd", "recv_buf", "RECV_BUFSIZE", "flags", "qh", "RECV_DISABLE_MH"), BOTH, OURS,
     region_no_receive, NULL},
    {18, EOPNOTSUPP, RECV("fd", "recv_buf", "RECV_BUFSIZE", "EXS_UNSIGNALED", "qh", "mh"), BOTH, OURS,
     flag_unsignaled, NULL},
    {19, ENOTCONN, RECV("LISTENING_FD", "recv_buf", "RECV_BUFSIZE", "flags", "qh", "mh"), BOTH, OURS,
     not_connected_listener, NULL},
    {20, EBADF, RECV("FD_OF_A_FILE", "recv_buf", "RECV_BUFSIZE", "flags", "qh", "mh"), BOTH, OURS, foreign,
     NULL},
    {21, EPERM, "exs_recv(BAD_FD, NULL, 0, BAD_FLAG, INVALID_QH, ah, NULL) [no exs_init]", BOTH, OURS,
     uninitialized_bad, NULL},
    {22, ECHILD, GOOD " [in a forked child]", BOTH, OURS, forked, NULL},
    {23, EAGAIN, RECV("fd", "recv_buf", "RECV_BUFSIZE", "MSG_DONTWAIT", "qh", "mh"), BOTH, OURS, dont_wait,
     "Nothing has come; when something has, that is received."},
    {24, 0, RECV("fd", "recv_buf", "RECV_BUFSIZE", "flags", "qh", "mh") " [after two with MSG_PEEK]", BOTH,
     OURS, peek, "Each sees what has come, and leaves it."},
    {25, EAGAIN, RECV("fd", "recv_buf", "RECV_BUFSIZE", "MSG_PEEK | MSG_DONTWAIT", "qh", "mh"), BOTH, OURS,
     peek_at_nothing, NULL},
    {26, EINTR,
     RECV("fd", "recv_buf", "RECV_BUFSIZE", "EXS_BLOCK | EXS_INTR", "qh", "mh") " [a signal handler runs]",
     BLOCKING, OURS, signal_ends, "With SA_RESTART, too."},
    {27, EINVAL, RECV("fd", "recv_buf", "RECV_BUFSIZE", "EXS_INTR", "qh", "mh"), NONBLOCKING, OURS,
     signal_without_block, NULL},
    {28, 0, GOOD " [SOCK_SEQPACKET, a message that is longer]", BOTH, OURS, too_long_a_message,
     "The event has MSG_TRUNC, and the next message is whole."},
};
static const char *const recv_needs[] = {"exs_init",   "exs_socket", "exs_bind",
                                         "exs_listen", "exs_accept", NULL};
const struct group group_recv = {"exs_recv", "5.2.9", recv_needs, ROWS(recv_rows)};

#define BLOCKING_RECV(fd, buffer, length, flags, mh)                                                           \
    "exs_blocking_recv(" fd ", " buffer ", " length ", " flags ", " mh ")"
#define BLOCKING_GOOD BLOCKING_RECV("fd", "recv_buf", "RECV_BUFSIZE", "flags", "mh")

static const struct row blocking_recv_rows[] = {
    {1, EPERM, BLOCKING_GOOD " [no exs_init]", BLOCKING, THESIS, uninitialized, NULL},
    {2, EINVAL, BLOCKING_RECV("fd", "recv_buf", "ZERO_LENGTH", "flags", "mh"), BLOCKING, THESIS, length_zero,
     NULL},
    {3, EINVAL, BLOCKING_RECV("fd", "recv_buf", "MAX_LENGTH", "flags", "mh"), BLOCKING, THESIS, too_long, NULL},
    {4, EINVAL, BLOCKING_RECV("fd", "BAD_BUFFER", "RECV_BUFSIZE", "flags", "mh"), BLOCKING, THESIS, buffer_null,
     NULL},
    {5, EOPNOTSUPP, BLOCKING_RECV("fd", "recv_buf", "RECV_BUFSIZE", "BAD_FLAG", "mh"), BLOCKING, THESIS, flag,
     "BAD_FLAG is MSG_OOB here, as in exs_recv."},
    {6, EBADF, BLOCKING_RECV("BAD_FD", "recv_buf", "RECV_BUFSIZE", "flags", "mh"), BLOCKING, THESIS, bad_fd,
     NULL},
    {7, ENOTCONN, BLOCKING_RECV("NOT_CONNECTED_FD", "recv_buf", "RECV_BUFSIZE", "flags", "mh"), BLOCKING,
     THESIS, not_connected, NULL},
    {8, 0, BLOCKING_GOOD, BLOCKING, THESIS, ok, NULL},
    {9, 0, BLOCKING_RECV("fd", "recv_buf", "RECV_BUFSIZE", "MSG_WAITALL", "mh"), BLOCKING, OURS, ok_all, NULL},
    {10, 0, BLOCKING_GOOD " [the peer has shut down, 0 bytes]", BLOCKING, OURS, at_end, NULL},
    {11, ECONNRESET, BLOCKING_GOOD " [the peer was killed]", BLOCKING, OURS, after_reset, NULL},
    {12, EACCES, BLOCKING_RECV("fd", "recv_buf", "RECV_BUFSIZE", "flags", "RECV_DISABLE_MH"), BLOCKING, OURS,
     region_no_receive, NULL},
    {13, EPERM, "exs_blocking_recv(BAD_FD, NULL, 0, BAD_FLAG, NULL) [no exs_init]", BLOCKING, OURS,
     uninitialized_bad, NULL},
    {14, ECHILD, BLOCKING_GOOD " [in a forked child]", BLOCKING, OURS, forked, NULL},
};
const struct group group_blocking_recv = {"exs_blocking_recv", "5.3.5", recv_needs, ROWS(blocking_recv_rows)};

static const struct row read_rows[] = {
    {1, EPERM, "exs_read(fd, recv_buf, RECV_BUFSIZE) [no exs_init]", BLOCKING, THESIS, uninitialized, NULL},
    {2, EINVAL, "exs_read(fd, recv_buf, ZERO_LENGTH)", BLOCKING, THESIS, length_zero, NULL},
    {3, EINVAL, "exs_read(fd, recv_buf, MAX_LENGTH)", BLOCKING, THESIS, too_long, NULL},
    {4, EINVAL, "exs_read(fd, NULL, RECV_BUFSIZE)", BLOCKING, THESIS, buffer_null,
     "The thesis passes INVALID_QHANDLE as the buffer and speaks of a NULL qhandle: a NULL buffer is meant."},
    {5, EBADF, "exs_read(BAD_FD, recv_buf, RECV_BUFSIZE)", BLOCKING, THESIS, bad_fd, NULL},
    {6, ENOTCONN, "exs_read(NOT_CONNECTED_FD, recv_buf, RECV_BUFSIZE)", BLOCKING, THESIS, not_connected, NULL},
    {7, 0, "exs_read(fd, recv_buf, RECV_BUFSIZE)", BLOCKING, THESIS, ok, NULL},
    {8, 0, "exs_read(fd, recv_buf, RECV_BUFSIZE) [the peer has shut down, 0 bytes]", BLOCKING, OURS, at_end,
     NULL},
    {9, ECONNRESET, "exs_read(fd, recv_buf, RECV_BUFSIZE) [the peer was killed]", BLOCKING, OURS, after_reset,
     NULL},
    {10, EAGAIN, "exs_read(FD_WITH_O_NONBLOCK, recv_buf, RECV_BUFSIZE) [nothing has arrived]", BLOCKING, OURS,
     nonblocking_read, NULL},
    {11, ECHILD, "exs_read(fd, recv_buf, RECV_BUFSIZE) [in a forked child]", BLOCKING, OURS, forked, NULL},
};
const struct group group_read = {"exs_read", "5.3.9", recv_needs, ROWS(read_rows)};
