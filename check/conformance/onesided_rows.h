/* SPDX-License-Identifier: BSD-2-Clause */
/* onesided_rows.h - the common rows of exs_rread and exs_rwrite; onesided.c contains their bodies. */

#define CALL(function, fd, buffer, length, token, offset, flags, qh, mh)                                       \
    function "(" fd ", " buffer ", " length ", " token ", " offset ", " flags ", " qh ", ah, " mh ")"
#define RIGHT(f) CALL(f, "fd", "buf", "length", "token", "0", "flags", "qh", "mh")
#define WITH_FD(f, fd) CALL(f, fd, "buf", "length", "token", "0", "flags", "qh", "mh")
#define WITH_FLAGS(f, flags) CALL(f, "fd", "buf", "length", "token", "0", flags, "qh", "mh")
#define WITH_LENGTH(f, length) CALL(f, "fd", "buf", length, "token", "0", "flags", "qh", "mh")
#define WITH_TOKEN(f, token) CALL(f, "fd", "buf", "length", token, "0", "flags", "qh", "mh")
#define WITH_OFFSET(f, offset) CALL(f, "fd", "buf", "length", "token", offset, "flags", "qh", "mh")
#define WITH_QUEUE(f, qh) CALL(f, "fd", "buf", "length", "token", "0", "flags", qh, "mh")
#define WITH_REGION(f, mh) CALL(f, "fd", "buf", "length", "token", "0", "flags", "qh", mh)

/* clang-format off */
#define ONESIDED_ROWS(f) \
    {1, EPERM, RIGHT(f) " [no exs_init]", BOTH, OURS, uninitialized, NULL}, \
    {2, EPERM, f "(BAD_FD, NULL, 0, NULL, 0, BAD_FLAG, INVALID_QH, ah, NULL) [no exs_init]", BOTH, OURS, \
     uninitialized_bad, NULL}, \
    {3, ECHILD, RIGHT(f) " [in a forked child]", BOTH, OURS, forked, NULL}, \
    {4, EBADF, WITH_FD(f, "BAD_FD"), BOTH, OURS, bad_fd, NULL}, \
    {5, EBADF, WITH_FD(f, "FD_OF_A_FILE"), BOTH, OURS, foreign, NULL}, \
    {6, ENOTCONN, WITH_FD(f, "NOT_CONNECTED_FD"), BOTH, OURS, not_connected, NULL}, \
    {7, ENOTCONN, WITH_FD(f, "LISTENING_FD"), BOTH, OURS, listener, NULL}, \
    {8, EOPNOTSUPP, WITH_FLAGS(f, "BAD_FLAG"), BOTH, OURS, flag_bad, NULL}, \
    {9, EOPNOTSUPP, WITH_FLAGS(f, "MSG_DONTWAIT"), BOTH, OURS, flag_dont_wait, NULL}, \
    {10, EOPNOTSUPP, WITH_FLAGS(f, "MSG_WAITALL"), BOTH, OURS, flag_waitall, NULL}, \
    {11, EINVAL, WITH_FLAGS(f, "EXS_INTR"), NONBLOCKING, OURS, flag_intr, NULL}, \
    {12, EINVAL, CALL(f, "fd", "NULL", "length", "token", "0", "flags", "qh", "mh"), BOTH, OURS, \
     buffer_null, NULL}, \
    {13, EINVAL, WITH_LENGTH(f, "0"), BOTH, OURS, length_zero, NULL}, \
    {14, EINVAL, WITH_LENGTH(f, "MAX_LENGTH"), BOTH, OURS, too_long, NULL}, \
    {15, EINVAL, WITH_TOKEN(f, "NULL"), BOTH, OURS, token_null, NULL}, \
    {16, EINVAL, WITH_TOKEN(f, "ZEROS"), BOTH, OURS, token_zeros, NULL}, \
    {17, EINVAL, WITH_TOKEN(f, "TOKEN_OF_THIS_END"), BOTH, OURS, token_own, NULL}, \
    {18, EINVAL, WITH_QUEUE(f, "INVALID_QH"), BOTH, OURS, queue_invalid, NULL}, \
    {19, EINVAL, WITH_QUEUE(f, "NULL"), NONBLOCKING, OURS, queue_null, NULL}, \
    {20, EINVAL, WITH_REGION(f, "EXS_MHANDLE_INVALID"), BOTH, OURS, region_invalid, NULL}, \
    {21, EINVAL, WITH_REGION(f, "TOO_SHORT_MH"), BOTH, OURS, region_too_short, NULL}, \
    {22, EACCES, WITH_REGION(f, "MH_NOT_FOR_THIS"), BOTH, OURS, region_not_for_this, \
     "EXS_MRF_RECV_DISABLE where it is read into, EXS_MRF_SEND_DISABLE where it is written from."}, \
    {23, ERANGE, WITH_OFFSET(f, "1"), BOTH, OURS, one_byte_behind, NULL}, \
    {24, ERANGE, WITH_OFFSET(f, "UINT64_MAX - 5"), BOTH, OURS, far_behind, NULL}, \
    {25, ERANGE, WITH_LENGTH(f, "EXPORTED + 1"), BOTH, OURS, longer_than_exported, NULL}, \
    {26, EACCES, WITH_TOKEN(f, "TOKEN_FOR_THE_OTHER_DIRECTION"), BOTH, OURS, not_this_right, NULL}, \
    {27, ECONNRESET, RIGHT(f) " [the peer was killed]", BOTH, OURS, after_reset, NULL}, \
    {28, EACCES, RIGHT(f) " [the peer took it back]", BOTH, OURS, taken_back, \
     "By the peer's device, in the event; the connection is broken."}, \
    {29, 0, RIGHT(f), BOTH, OURS, ok_all, NULL}, \
    {30, 0, CALL(f, "fd", "buf", "length - 2", "token", "1", "flags", "qh", "mh"), BOTH, OURS, ok_middle, \
     NULL}, \
    {31, 0, CALL(f, "fd", "buf", "1", "token", "length - 1", "flags", "qh", "mh"), BOTH, OURS, ok_last_byte, \
     NULL}, \
    {32, 0, WITH_REGION(f, "MH_FOR_THIS_ALONE"), BOTH, OURS, ok_region, NULL}, \
    {33, 0, RIGHT(f) " [SOCK_SEQPACKET]", BOTH, OURS, ok_seqpacket, NULL}, \
    {34, 0, RIGHT(f) " [after exs_shutdown of writing]", BOTH, OURS, ok_shut_down, NULL}
/* clang-format on */
