/* SPDX-License-Identifier: BSD-2-Clause */
/* send_rows.h - the rows of send.c, which contains their bodies. */

#define QUEUED                                                                                                 \
    "EBUSY in the thesis. This library queues a send that finds no credits, or waits: it never fails."
#define SEND(fd, buffer, flags, qh, mh)                                                                        \
    "exs_send(" fd ", " buffer ", SEND_BUFSIZE, " flags ", " qh ", ah, " mh ")"
#define GOOD SEND("fd", "send_buf", "flags", "qh", "mh")

static const struct row send_rows[] = {
    {1, ENOTCONN, SEND("NOT_CONNECTED_FD", "send_buf", "flags", "qh", "mh"), BOTH, THESIS, not_connected, NULL},
    {2, EPERM, GOOD " [no exs_init]", BOTH, THESIS, uninitialized, NULL},
    {3, EINVAL, SEND("fd", "send_buf", "flags", "INVALID_QHANDLE", "mh"), BOTH, THESIS, queue_invalid, NULL},
    {4, EINVAL, SEND("fd", "send_buf", "0", "NULL", "mh"), BOTH, THESIS, queue_null,
     "The thesis calls it with INVALID_QHANDLE as in test 3; its text means NULL."},
    {5, EINVAL, SEND("fd", "BAD_BUFFER", "flags", "qh", "mh"), BOTH, THESIS, buffer_null, NULL},
    {7, EOPNOTSUPP, SEND("fd", "send_buf", "BAD_FLAG", "qh", "mh"), BOTH, THESIS, flag, NULL},
    {8, EBADF, SEND("BAD_FD", "send_buf", "flags", "qh", "mh"), BOTH, THESIS, bad_fd, NULL},
    {10, EPIPE, GOOD " [after exs_shutdown]", BOTH, THESIS, after_shutdown, NULL},
    {16, 0, GOOD, BOTH, THESIS, ok, "It returns 0, or with EXS_BLOCK the bytes sent."},
    {17, ECONNRESET, GOOD " [the peer was killed]", BOTH, UNIMPLEMENTED, after_reset, NULL},
    {18, EINVAL, SEND("fd", "send_buf", "EXS_UNSIGNALED | EXS_BLOCK", "qh", "mh"), BOTH, UNIMPLEMENTED,
     unsignaled_block, NULL},
    {19, 0, GOOD " [no send credits]", BOTH, UNIMPLEMENTED, no_credits, QUEUED},
    {20, EINVAL, "exs_send(fd, send_buf, MAX_LENGTH, flags, qh, ah, mh)", BOTH, OURS, too_long, NULL},
    {21, EINVAL, SEND("fd", "send_buf", "flags", "qh", "EXS_MHANDLE_INVALID"), BOTH, OURS, region_invalid,
     NULL},
    {22, EINVAL, SEND("fd", "send_buf", "flags", "qh", "TOO_SHORT_MH"), BOTH, OURS, region_elsewhere, NULL},
    {23, EINVAL, SEND("fd", "send_buf", "flags", "qh", "MH_BEHIND_IT"), BOTH, OURS, region_before, NULL},
    {24, EACCES, SEND("fd", "send_buf", "flags", "qh", "SEND_DISABLE_MH"), BOTH, OURS, region_no_send, NULL},
    {25, 0, SEND("fd", "send_buf", "flags", "qh", "MH_OF_SEND_BUF"), BOTH, OURS, ok_region, NULL},
    {26, 0, SEND("fd", "send_buf", "flags", "qh", "EXS_MHANDLE_UNREGISTERED"), BOTH, OURS, ok_unregistered,
     NULL},
    {27, 0, SEND("fd", "send_buf", "EXS_UNSIGNALED", "NULL", "mh"), NONBLOCKING, OURS, unsignaled,
     "The text of test 4: NULL is no error with EXS_UNSIGNALED. No event follows."},
    {28, EOPNOTSUPP, SEND("fd", "send_buf", "MSG_WAITALL", "qh", "mh"), BOTH, OURS, flag_receive, NULL},
    {29, ENOTCONN, SEND("LISTENING_FD", "send_buf", "flags", "qh", "mh"), BOTH, OURS, not_connected_listener,
     NULL},
    {30, EBADF, SEND("FD_OF_A_FILE", "send_buf", "flags", "qh", "mh"), BOTH, OURS, foreign, NULL},
    {31, EPERM, "exs_send(BAD_FD, NULL, 0, BAD_FLAG, INVALID_QHANDLE, ah, NULL) [no exs_init]", BOTH, OURS,
     uninitialized_bad, NULL},
    {32, ECHILD, GOOD " [in a forked child]", BOTH, OURS, forked, NULL},
    {33, 0, SEND("fd", "send_buf", "EXS_UNSIGNALED", "qh", "mh"), NONBLOCKING, OURS, unsignaled_queue, NULL},
    {34, 0, SEND("fd", "send_buf", "MSG_NOSIGNAL", "qh", "mh"), BOTH, OURS, ok_no_signal, NULL},
    {35, EPIPE, SEND("fd", "send_buf", "MSG_NOSIGNAL", "qh", "mh") " [after exs_shutdown]", BOTH, OURS,
     no_signal_after_shutdown, "Without the flag there is no signal either: test 10."},
    {36, EAGAIN, SEND("fd", "send_buf", "MSG_DONTWAIT", "qh", "mh") " [the peer has no room]", BOTH, OURS,
     dont_wait, "Before that as much is sent as there is room for."},
};
static const char *const send_needs[] = {"exs_init", "exs_socket", "exs_connect", NULL};
const struct group group_send = {"exs_send", "5.2.10", send_needs, ROWS(send_rows)};

#define BLOCKING_SEND(fd, buffer, flags, mh)                                                                   \
    "exs_blocking_send(" fd ", " buffer ", SEND_BUFSIZE, " flags ", " mh ")"
#define BLOCKING_GOOD BLOCKING_SEND("fd", "send_buf", "flags", "mh")

static const struct row blocking_send_rows[] = {
    {1, ENOTCONN, BLOCKING_SEND("NOT_CONNECTED_FD", "send_buf", "flags", "mh"), BLOCKING, THESIS, not_connected,
     NULL},
    {2, EPERM, BLOCKING_GOOD " [no exs_init]", BLOCKING, THESIS, uninitialized, NULL},
    {3, EINVAL, BLOCKING_SEND("fd", "BAD_BUFFER", "flags", "mh"), BLOCKING, THESIS, buffer_null, NULL},
    {4, EINVAL, BLOCKING_SEND("fd", "send_buf", "EXS_UNSIGNALED | EXS_BLOCK", "mh"), BLOCKING, THESIS,
     unsignaled_block, NULL},
    {5, EOPNOTSUPP, BLOCKING_SEND("fd", "send_buf", "BAD_FLAG", "mh"), BLOCKING, THESIS, flag, NULL},
    {6, EBADF, BLOCKING_SEND("BAD_FD", "send_buf", "flags", "mh"), BLOCKING, THESIS, bad_fd, NULL},
    {8, EPIPE, BLOCKING_GOOD " [after exs_shutdown]", BLOCKING, THESIS, after_shutdown,
     "The thesis's heading has EBADF, its text EPIPE: the text stands."},
    {14, 0, BLOCKING_GOOD, BLOCKING, THESIS, ok, NULL},
    {15, ECONNRESET, BLOCKING_GOOD " [the peer was killed]", BLOCKING, UNIMPLEMENTED, after_reset, NULL},
    {16, 0, BLOCKING_GOOD " [no send credits]", BLOCKING, UNIMPLEMENTED, no_credits, QUEUED},
    {17, EINVAL, BLOCKING_SEND("fd", "send_buf", "flags", "EXS_MHANDLE_INVALID"), BLOCKING, OURS,
     region_invalid, NULL},
    {18, EACCES, BLOCKING_SEND("fd", "send_buf", "flags", "SEND_DISABLE_MH"), BLOCKING, OURS, region_no_send,
     NULL},
    {19, EPERM, "exs_blocking_send(BAD_FD, NULL, 0, BAD_FLAG, NULL) [no exs_init]", BLOCKING, OURS,
     uninitialized_bad, NULL},
    {20, 0, BLOCKING_SEND("fd", "send_buf", "MSG_NOSIGNAL", "mh"), BLOCKING, OURS, ok_no_signal, NULL},
    {21, EPIPE, BLOCKING_SEND("fd", "send_buf", "MSG_NOSIGNAL", "mh") " [after exs_shutdown]", BLOCKING, OURS,
     no_signal_after_shutdown, NULL},
    {22, ECHILD, BLOCKING_GOOD " [in a forked child]", BLOCKING, OURS, forked, NULL},
};
const struct group group_blocking_send = {"exs_blocking_send", "5.3.6", send_needs, ROWS(blocking_send_rows)};

static const struct row write_rows[] = {
    {1, ENOTCONN, "exs_write(NOT_CONNECTED_FD, send_buf, SEND_BUFSIZE)", BLOCKING, THESIS, not_connected, NULL},
    {2, EPERM, "exs_write(fd, send_buf, SEND_BUFSIZE) [no exs_init]", BLOCKING, THESIS, uninitialized, NULL},
    {3, EINVAL, "exs_write(fd, BAD_BUFFER, SEND_BUFSIZE)", BLOCKING, THESIS, buffer_null, NULL},
    {5, EPIPE, "exs_write(fd, send_buf, SEND_BUFSIZE) [after exs_shutdown]", BLOCKING, THESIS, after_shutdown,
     NULL},
    {11, 0, "exs_write(fd, send_buf, SEND_BUFSIZE)", BLOCKING, THESIS, ok, NULL},
    {12, ECONNRESET, "exs_write(fd, send_buf, SEND_BUFSIZE) [the peer was killed]", BLOCKING, UNIMPLEMENTED,
     after_reset, NULL},
    {13, EINVAL, SEND("fd", "send_buf", "EXS_UNSIGNALED | EXS_BLOCK", "qh", "mh"), BLOCKING, UNIMPLEMENTED,
     unsignaled_block, "exs_write has no such parameter: asked of the call that it stands for."},
    {14, 0, "exs_write(fd, send_buf, SEND_BUFSIZE) [no send credits]", BLOCKING, UNIMPLEMENTED, no_credits,
     QUEUED},
    {15, EBADF, "exs_write(BAD_FD, send_buf, SEND_BUFSIZE)", BLOCKING, OURS, bad_fd, NULL},
    {16, ECHILD, "exs_write(fd, send_buf, SEND_BUFSIZE) [in a forked child]", BLOCKING, OURS, forked, NULL},
};
const struct group group_write = {"exs_write", "5.3.12", send_needs, ROWS(write_rows)};
