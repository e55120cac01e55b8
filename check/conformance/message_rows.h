/* SPDX-License-Identifier: BSD-2-Clause */
/* message_rows.h - the rows of message.c, which contains their bodies. */

#define SENDMSG(fd, message, flags, qh) "exs_sendmsg(" fd ", " message ", " flags ", " qh ", ah)"
#define GOOD_SENDMSG SENDMSG("fd", "&message", "flags", "qh")

static const struct row sendmsg_rows[] = {
    {1, EPERM, GOOD_SENDMSG " [no exs_init]", BOTH, OURS, uninitialized, NULL},
    {2, EPERM, "exs_sendmsg(BAD_FD, NULL, BAD_FLAG, INVALID_QHANDLE, ah) [no exs_init]", BOTH, OURS,
     uninitialized_bad, NULL},
    {3, ECHILD, GOOD_SENDMSG " [in a forked child]", BOTH, OURS, forked, NULL},
    {4, ENOTCONN, SENDMSG("NOT_CONNECTED_FD", "&message", "flags", "qh"), BOTH, OURS, not_connected, NULL},
    {5, ENOTCONN, SENDMSG("LISTENING_FD", "&message", "flags", "qh"), BOTH, OURS, listener, NULL},
    {6, EINVAL, SENDMSG("fd", "&message", "flags", "INVALID_QHANDLE"), BOTH, OURS, queue_invalid, NULL},
    {7, EINVAL, SENDMSG("fd", "&message", "0", "NULL"), BOTH, OURS, queue_null, NULL},
    {8, EOPNOTSUPP, SENDMSG("fd", "&message", "BAD_FLAG", "qh"), BOTH, OURS, flag, NULL},
    {9, EOPNOTSUPP, SENDMSG("fd", "&message", "MSG_WAITALL", "qh"), BOTH, OURS, flag_of_the_other, NULL},
    {10, EINVAL, SENDMSG("fd", "&message", "EXS_UNSIGNALED | EXS_BLOCK", "qh"), BOTH, OURS, unsignaled_block,
     NULL},
    {11, EBADF, SENDMSG("BAD_FD", "&message", "flags", "qh"), BOTH, OURS, bad_fd, NULL},
    {12, EBADF, SENDMSG("FD_OF_A_FILE", "&message", "flags", "qh"), BOTH, OURS, foreign, NULL},
    {13, EINVAL, SENDMSG("fd", "NULL", "flags", "qh"), BOTH, OURS, message_null, NULL},
    {14, EINVAL, GOOD_SENDMSG " [exs_iov is NULL]", BOTH, OURS, pieces_null, NULL},
    {15, EINVAL, GOOD_SENDMSG " [exs_iovlen is 0]", BOTH, OURS, pieces_none, NULL},
    {16, EINVAL, GOOD_SENDMSG " [exs_iovlen is EXS_IOV_MAX + 1]", BOTH, OURS, pieces_many, NULL},
    {17, EINVAL, GOOD_SENDMSG " [exs_base of a piece is NULL]", BOTH, OURS, base_null, NULL},
    {18, EINVAL, GOOD_SENDMSG " [exs_flags of a piece is EXS_SHUT_WR]", BOTH, OURS, piece_flags, NULL},
    {19, EINVAL, GOOD_SENDMSG " [a piece of SIZE_MAX bytes]", BOTH, OURS, piece_too_long, NULL},
    {20, EINVAL, GOOD_SENDMSG " [MAX_LENGTH bytes in all]", BOTH, OURS, all_too_long, NULL},
    {21, EINVAL, GOOD_SENDMSG " [a piece with EXS_MHANDLE_INVALID]", BOTH, OURS, region_invalid, NULL},
    {22, EINVAL, GOOD_SENDMSG " [a piece with TOO_SHORT_MH]", BOTH, OURS, region_elsewhere, NULL},
    {23, EACCES, GOOD_SENDMSG " [a piece with SEND_DISABLE_MH]", BOTH, OURS, region_disabled, NULL},
    {24, EACCES, GOOD_SENDMSG " [a piece that can't be read]", BOTH, OURS, unreadable, NULL},
    {25, EPIPE, GOOD_SENDMSG " [after exs_shutdown]", BOTH, OURS, after_shutdown, NULL},
    {26, ECONNRESET, GOOD_SENDMSG " [the peer was killed]", BOTH, OURS, after_reset, NULL},
    {27, 0, GOOD_SENDMSG, BOTH, OURS, ok, "It returns 0, or with EXS_BLOCK the bytes sent."},
    {28, 0, GOOD_SENDMSG " [a piece with MH_OF_SEND_BUF]", BOTH, OURS, ok_region, NULL},
    {29, 0, SENDMSG("fd", "&message", "MSG_NOSIGNAL", "qh"), BOTH, OURS, ok_flag, NULL},
    {30, 0, GOOD_SENDMSG " [no bytes, on a STREAM]", BOTH, OURS, nothing, NULL},
    {31, 0, SENDMSG("fd", "&message", "EXS_UNSIGNALED", "NULL"), NONBLOCKING, OURS, unsignaled,
     "No event follows."},
    {32, EAGAIN, SENDMSG("fd", "&message", "MSG_DONTWAIT", "qh") " [the peer has no room]", BOTH, OURS,
     dont_wait, "Before that as much is sent as there is room for."},
    {33, EINVAL, SENDMSG("fd", "&message", "EXS_INTR", "qh"), NONBLOCKING, OURS, signal_without_block, NULL},
};
static const char *const message_needs[] = {"exs_init", "exs_socket", "exs_connect", NULL};
const struct group group_sendmsg = {"exs_sendmsg", NULL, message_needs, ROWS(sendmsg_rows)};

#define RECVMSG(fd, message, flags, qh) "exs_recvmsg(" fd ", " message ", " flags ", " qh ", ah)"
#define GOOD_RECVMSG RECVMSG("fd", "&message", "flags", "qh")

static const struct row recvmsg_rows[] = {
    {1, EPERM, GOOD_RECVMSG " [no exs_init]", BOTH, OURS, uninitialized, NULL},
    {2, EPERM, "exs_recvmsg(BAD_FD, NULL, BAD_FLAG, INVALID_QHANDLE, ah) [no exs_init]", BOTH, OURS,
     uninitialized_bad, NULL},
    {3, ECHILD, GOOD_RECVMSG " [in a forked child]", BOTH, OURS, forked, NULL},
    {4, ENOTCONN, RECVMSG("NOT_CONNECTED_FD", "&message", "flags", "qh"), BOTH, OURS, not_connected, NULL},
    {5, ENOTCONN, RECVMSG("LISTENING_FD", "&message", "flags", "qh"), BOTH, OURS, listener, NULL},
    {6, EINVAL, RECVMSG("fd", "&message", "flags", "INVALID_QHANDLE"), BOTH, OURS, queue_invalid, NULL},
    {7, EINVAL, RECVMSG("fd", "&message", "0", "NULL"), BOTH, OURS, queue_null, NULL},
    {8, EOPNOTSUPP, RECVMSG("fd", "&message", "MSG_OOB", "qh"), BOTH, OURS, flag, NULL},
    {9, EOPNOTSUPP, RECVMSG("fd", "&message", "EXS_UNSIGNALED", "qh"), BOTH, OURS, flag_of_the_other, NULL},
    {10, EBADF, RECVMSG("BAD_FD", "&message", "flags", "qh"), BOTH, OURS, bad_fd, NULL},
    {11, EBADF, RECVMSG("FD_OF_A_FILE", "&message", "flags", "qh"), BOTH, OURS, foreign, NULL},
    {12, EINVAL, RECVMSG("fd", "NULL", "flags", "qh"), BOTH, OURS, message_null, NULL},
    {13, EINVAL, GOOD_RECVMSG " [exs_iov is NULL]", BOTH, OURS, pieces_null, NULL},
    {14, EINVAL, GOOD_RECVMSG " [exs_iovlen is 0]", BOTH, OURS, pieces_none, NULL},
    {15, EINVAL, GOOD_RECVMSG " [exs_iovlen is EXS_IOV_MAX + 1]", BOTH, OURS, pieces_many, NULL},
    {16, EINVAL, GOOD_RECVMSG " [exs_base of a piece is NULL]", BOTH, OURS, base_null, NULL},
    {17, EINVAL, GOOD_RECVMSG " [exs_flags of a piece is EXS_SHUT_WR]", BOTH, OURS, piece_flags, NULL},
    {18, EINVAL, GOOD_RECVMSG " [a piece of SIZE_MAX bytes]", BOTH, OURS, piece_too_long, NULL},
    {19, EINVAL, GOOD_RECVMSG " [MAX_LENGTH bytes in all]", BOTH, OURS, all_too_long, NULL},
    {20, EINVAL, GOOD_RECVMSG " [no bytes in all]", BOTH, OURS, no_bytes, NULL},
    {21, EINVAL, GOOD_RECVMSG " [a piece with EXS_MHANDLE_INVALID]", BOTH, OURS, region_invalid, NULL},
    {22, EINVAL, GOOD_RECVMSG " [a piece with TOO_SHORT_MH]", BOTH, OURS, region_elsewhere, NULL},
    {23, EACCES, GOOD_RECVMSG " [a piece with RECV_DISABLE_MH]", BOTH, OURS, region_disabled, NULL},
    {24, ECONNRESET, GOOD_RECVMSG " [the peer was killed]", BOTH, OURS, after_reset, NULL},
    {25, 0, GOOD_RECVMSG, BOTH, OURS, ok, "It returns 0, or with EXS_BLOCK the bytes received."},
    {26, 0, GOOD_RECVMSG " [a piece with MH_OF_RECV_BUF]", BOTH, OURS, ok_region, NULL},
    {27, 0, RECVMSG("fd", "&message", "MSG_WAITALL", "qh"), BOTH, OURS, ok_flag, NULL},
    {28, 0, GOOD_RECVMSG " [the peer has shut down, 0 bytes]", BOTH, OURS, at_end, NULL},
    {29, EAGAIN, RECVMSG("fd", "&message", "MSG_DONTWAIT", "qh"), BOTH, OURS, dont_wait,
     "Nothing has come; when something has, that is received."},
    {30, 0, GOOD_RECVMSG " [after two with MSG_PEEK]", BOTH, OURS, peek,
     "Each sees what has come, and leaves it."},
    {31, EAGAIN, RECVMSG("fd", "&message", "MSG_PEEK | MSG_DONTWAIT", "qh"), BOTH, OURS, peek_at_nothing, NULL},
    {32, EINTR, RECVMSG("fd", "&message", "EXS_BLOCK | EXS_INTR", "qh") " [a signal handler runs]", BLOCKING,
     OURS, signal_ends, "With SA_RESTART, too."},
    {33, EINVAL, RECVMSG("fd", "&message", "EXS_INTR", "qh"), NONBLOCKING, OURS, signal_without_block, NULL},
    {34, 0, GOOD_RECVMSG " [SOCK_SEQPACKET, a message that is longer]", BOTH, OURS, too_long_a_message,
     "MSG_TRUNC is told, and the next message is whole."},
};
const struct group group_recvmsg = {"exs_recvmsg", NULL, message_needs, ROWS(recvmsg_rows)};

#define BLOCKING_SENDMSG(fd, message, flags) "exs_blocking_sendmsg(" fd ", " message ", " flags ")"

static const struct row blocking_sendmsg_rows[] = {
    {1, EPERM, BLOCKING_SENDMSG("fd", "&message", "flags") " [no exs_init]", BLOCKING, OURS, uninitialized,
     NULL},
    {2, EOPNOTSUPP, BLOCKING_SENDMSG("fd", "&message", "BAD_FLAG"), BLOCKING, OURS, flag, NULL},
    {3, EBADF, BLOCKING_SENDMSG("BAD_FD", "&message", "flags"), BLOCKING, OURS, bad_fd, NULL},
    {4, EINVAL, BLOCKING_SENDMSG("fd", "NULL", "flags"), BLOCKING, OURS, message_null, NULL},
    {5, 0, BLOCKING_SENDMSG("fd", "&message", "flags"), BLOCKING, OURS, ok, NULL},
    {6, ECHILD, BLOCKING_SENDMSG("fd", "&message", "flags") " [in a forked child]", BLOCKING, OURS, forked,
     NULL},
};
const struct group group_blocking_sendmsg = {"exs_blocking_sendmsg", NULL, message_needs,
                                             ROWS(blocking_sendmsg_rows)};

#define BLOCKING_RECVMSG(fd, message, flags) "exs_blocking_recvmsg(" fd ", " message ", " flags ")"

static const struct row blocking_recvmsg_rows[] = {
    {1, EPERM, BLOCKING_RECVMSG("fd", "&message", "flags") " [no exs_init]", BLOCKING, OURS, uninitialized,
     NULL},
    {2, EOPNOTSUPP, BLOCKING_RECVMSG("fd", "&message", "MSG_OOB"), BLOCKING, OURS, flag, NULL},
    {3, EBADF, BLOCKING_RECVMSG("BAD_FD", "&message", "flags"), BLOCKING, OURS, bad_fd, NULL},
    {4, EINVAL, BLOCKING_RECVMSG("fd", "NULL", "flags"), BLOCKING, OURS, message_null, NULL},
    {5, 0, BLOCKING_RECVMSG("fd", "&message", "flags"), BLOCKING, OURS, ok, NULL},
    {6, 0, BLOCKING_RECVMSG("fd", "&message", "flags") " [the peer has shut down, 0 bytes]", BLOCKING, OURS,
     at_end, NULL},
    {7, 0, BLOCKING_RECVMSG("fd", "&message", "flags") " [SOCK_SEQPACKET, a message that is longer]", BLOCKING,
     OURS, too_long_a_message, "MSG_TRUNC is told, and the next message is whole."},
    {8, ECHILD, BLOCKING_RECVMSG("fd", "&message", "flags") " [in a forked child]", BLOCKING, OURS, forked,
     NULL},
};
const struct group group_blocking_recvmsg = {"exs_blocking_recvmsg", NULL, message_needs,
                                             ROWS(blocking_recvmsg_rows)};
