/* SPDX-License-Identifier: BSD-2-Clause */
/* export.c - tests of exs_mexport and exs_munexport: memory that the peer of a connection may read and write. */
#include "bodies.h"

#define PART 1000 /* bytes of trial.buffer that are exported */
#define RIGHTS (EXS_REMOTE_READ | EXS_REMOTE_WRITE)

static exs_mhandle_t ok_region(struct trial *trial, int flags)
{
    ok_connected(trial);
    return ok_mregister(trial, trial->buffer, BUFSIZE, flags);
}

/* Makes the call of the row. A call that fails must not create a token or keep the region in use. */
static void try(struct trial *trial, int fd, exs_mhandle_t region, void *at, size_t length, int access)
{
    exs_token_t token, before;

    memset(&token, 0xa5, sizeof(token));
    before = token;
    outcome(trial, exs_mexport(fd, region, at, length, access, &token));
    require(trial, (memcmp(&token, &before, sizeof(token)) == 0) == (trial->row->expected != 0),
            trial->row->expected != 0 ? "a call that failed has written a token" : "it has written no token");
}

/* ---- exs_mexport ---------------------------------------------------------------------------------------- */

static void uninitialized(struct trial *trial)
{
    try(trial, 0, NULL, trial->buffer, PART, EXS_REMOTE_READ);
}

static void uninitialized_bad(struct trial *trial)
{
    outcome(trial, exs_mexport(BAD_FD, NULL, NULL, 0, 0, NULL));
}

static void forked(struct trial *trial)
{
    exs_mhandle_t region = ok_region(trial, 0);

    in_child(trial);
    trial->queue = NULL;
    trial->connected = false;
    try(trial, trial->fd, region, trial->buffer, PART, EXS_REMOTE_READ);
}

static void bad_fd(struct trial *trial)
{
    exs_mhandle_t region = ok_region(trial, 0);

    try(trial, BAD_FD, region, trial->buffer, PART, EXS_REMOTE_READ);
}

static void foreign(struct trial *trial)
{
    exs_mhandle_t region = ok_region(trial, 0);

    try(trial, foreign_fd(trial), region, trial->buffer, PART, EXS_REMOTE_READ);
}

static void not_connected(struct trial *trial)
{
    ok_fresh(trial);
    exs_mhandle_t region = ok_mregister(trial, trial->buffer, BUFSIZE, 0);

    try(trial, trial->fd, region, trial->buffer, PART, EXS_REMOTE_READ);
}

static void listening(struct trial *trial)
{
    ok_listening(trial);
    exs_mhandle_t region = ok_mregister(trial, trial->buffer, BUFSIZE, 0);

    try(trial, trial->fd, region, trial->buffer, PART, EXS_REMOTE_READ);
}

static void with_region(struct trial *trial, exs_mhandle_t region)
{
    ok_connected(trial);
    try(trial, trial->fd, region, trial->buffer, PART, EXS_REMOTE_READ);
}

static void region_null(struct trial *trial)
{
    with_region(trial, NULL);
}

static void region_none(struct trial *trial)
{
    with_region(trial, EXS_MHANDLE_UNREGISTERED);
}

static void region_invalid(struct trial *trial)
{
    with_region(trial, EXS_MHANDLE_INVALID);
}

static void region_gone(struct trial *trial)
{
    exs_mhandle_t region = ok_region(trial, 0);

    require(trial, exs_mderegister(region, 0) == 0, "exs_mderegister failed");
    try(trial, trial->fd, region, trial->buffer, PART, EXS_REMOTE_READ);
}

static void with_range(struct trial *trial, void *at, size_t length)
{
    exs_mhandle_t region = ok_region(trial, 0);

    try(trial, trial->fd, region, at, length, EXS_REMOTE_READ);
    require(trial, exs_mderegister(region, 0) == 0, "the region is in use by what failed");
}

static void nowhere(struct trial *trial)
{
    with_range(trial, NULL, PART);
}

static void empty(struct trial *trial)
{
    with_range(trial, trial->buffer, 0);
}

static void one_byte_behind(struct trial *trial)
{
    with_range(trial, trial->buffer + 1, BUFSIZE);
}

static void one_byte_before(struct trial *trial)
{
    with_range(trial, trial->buffer - 1, PART);
}

static void too_long(struct trial *trial)
{
    with_range(trial, trial->buffer, MAX_LENGTH);
}

static void with_access(struct trial *trial, int flags, int access)
{
    exs_mhandle_t region = ok_region(trial, flags);

    try(trial, trial->fd, region, trial->buffer, PART, access);
}

static void no_right(struct trial *trial)
{
    with_access(trial, 0, 0);
}

static void unknown_right(struct trial *trial)
{
    with_access(trial, 0, EXS_REMOTE_READ | 0x4);
}

static void not_to_be_sent(struct trial *trial)
{
    with_access(trial, EXS_MRF_SEND_DISABLE, EXS_REMOTE_READ);
}

static void not_to_be_received(struct trial *trial)
{
    with_access(trial, EXS_MRF_RECV_DISABLE, EXS_REMOTE_WRITE);
}

static void half_forbidden(struct trial *trial)
{
    with_access(trial, EXS_MRF_RECV_DISABLE, RIGHTS);
}

static void token_nowhere(struct trial *trial)
{
    exs_mhandle_t region = ok_region(trial, 0);

    outcome(trial, exs_mexport(trial->fd, region, trial->buffer, PART, EXS_REMOTE_READ, NULL));
}

static void after_reset(struct trial *trial)
{
    exs_mhandle_t region = ok_region(trial, 0);

    ok_reset(trial);
    try(trial, trial->fd, region, trial->buffer, PART, EXS_REMOTE_READ);
}

/* Checks that the region cannot be deregistered before the export is revoked. */
static void exports(struct trial *trial, size_t length, int access)
{
    exs_mhandle_t region = ok_region(trial, 0);
    exs_token_t token;

    outcome(trial, exs_mexport(trial->fd, region, trial->buffer, length, access, &token));
    require(trial, exs_mderegister(region, 0) == -1 && errno == EBUSY,
            "a region of which something is exported could be deregistered");
    require(trial, exs_munexport(trial->fd, &token) == 0, "exs_munexport failed");
    require(trial, exs_mderegister(region, 0) == 0, "the region is in use still");
}

static void ok_read(struct trial *trial)
{
    exports(trial, PART, EXS_REMOTE_READ);
}

static void ok_write(struct trial *trial)
{
    exports(trial, PART, EXS_REMOTE_WRITE);
}

static void ok_both(struct trial *trial)
{
    exports(trial, BUFSIZE, RIGHTS);
}

static void ok_byte(struct trial *trial)
{
    exports(trial, 1, RIGHTS);
}

static void only_sent(struct trial *trial)
{
    with_access(trial, EXS_MRF_RECV_DISABLE, EXS_REMOTE_READ);
}

static void only_received(struct trial *trial)
{
    with_access(trial, EXS_MRF_SEND_DISABLE, EXS_REMOTE_WRITE);
}

/* Closing the socket revokes its exports. */
static void goes_with_the_socket(struct trial *trial)
{
    exs_mhandle_t region = ok_region(trial, 0);
    exs_token_t token;

    outcome(trial, exs_mexport(trial->fd, region, trial->buffer, PART, RIGHTS, &token));
    require(trial, done(trial, exs_close(trial->fd, trial->flags, trial->queue, trial), EXS_EVT_CLOSE) == 0,
            "exs_close failed");
    require(trial, exs_mderegister(region, 0) == 0, "the region is in use still");
}

static const char *const export_needs[] = {"exs_init", "exs_socket", "exs_connect", "exs_mregister", NULL};

#define EXPORT(fd, mh, addr, length, access)                                                                   \
    "exs_mexport(" fd ", " mh ", " addr ", " length ", " access ", &token)"
#define RIGHT EXPORT("fd", "mh", "addr", "length", "EXS_REMOTE_READ")
static const struct row export_rows[] = {
    {1, EPERM, RIGHT " [no exs_init]", BOTH, OURS, uninitialized, NULL},
    {2, EPERM, "exs_mexport(BAD_FD, NULL, NULL, 0, 0, NULL) [no exs_init]", BOTH, OURS, uninitialized_bad,
     NULL},
    {3, ECHILD, RIGHT " [in a forked child]", BOTH, OURS, forked, NULL},
    {4, EBADF, EXPORT("BAD_FD", "mh", "addr", "length", "access"), BOTH, OURS, bad_fd, NULL},
    {5, EBADF, EXPORT("FD_OF_A_FILE", "mh", "addr", "length", "access"), BOTH, OURS, foreign, NULL},
    {6, ENOTCONN, EXPORT("NOT_CONNECTED_FD", "mh", "addr", "length", "access"), BOTH, OURS, not_connected,
     NULL},
    {7, ENOTCONN, EXPORT("LISTENING_FD", "mh", "addr", "length", "access"), BOTH, OURS, listening, NULL},
    {8, EINVAL, EXPORT("fd", "NULL", "addr", "length", "access"), BOTH, OURS, region_null, NULL},
    {9, EINVAL, EXPORT("fd", "EXS_MHANDLE_UNREGISTERED", "addr", "length", "access"), BOTH, OURS, region_none,
     NULL},
    {10, EINVAL, EXPORT("fd", "EXS_MHANDLE_INVALID", "addr", "length", "access"), BOTH, OURS, region_invalid,
     NULL},
    {11, EINVAL, EXPORT("fd", "DEREGISTERED_MH", "addr", "length", "access"), BOTH, OURS, region_gone, NULL},
    {12, EINVAL, EXPORT("fd", "mh", "NULL", "length", "access"), BOTH, OURS, nowhere, NULL},
    {13, EINVAL, EXPORT("fd", "mh", "addr", "0", "access"), BOTH, OURS, empty, NULL},
    {14, EINVAL, EXPORT("fd", "mh", "addr + 1", "LENGTH_OF_MH", "access"), BOTH, OURS, one_byte_behind, NULL},
    {15, EINVAL, EXPORT("fd", "mh", "addr - 1", "length", "access"), BOTH, OURS, one_byte_before, NULL},
    {16, EINVAL, EXPORT("fd", "mh", "addr", "MAX_LENGTH", "access"), BOTH, OURS, too_long, NULL},
    {17, EINVAL, EXPORT("fd", "mh", "addr", "length", "0"), BOTH, OURS, no_right, NULL},
    {18, EINVAL, EXPORT("fd", "mh", "addr", "length", "EXS_REMOTE_READ | 0x4"), BOTH, OURS, unknown_right,
     NULL},
    {19, EACCES, EXPORT("fd", "SEND_DISABLE_MH", "addr", "length", "EXS_REMOTE_READ"), BOTH, OURS,
     not_to_be_sent, NULL},
    {20, EACCES, EXPORT("fd", "RECV_DISABLE_MH", "addr", "length", "EXS_REMOTE_WRITE"), BOTH, OURS,
     not_to_be_received, NULL},
    {21, EACCES, EXPORT("fd", "RECV_DISABLE_MH", "addr", "length", "both"), BOTH, OURS, half_forbidden, NULL},
    {22, EFAULT, "exs_mexport(fd, mh, addr, length, access, NULL)", BOTH, OURS, token_nowhere, NULL},
    {23, ECONNRESET, RIGHT " [the peer was killed]", BOTH, OURS, after_reset, NULL},
    {24, 0, RIGHT, BOTH, OURS, ok_read, NULL},
    {25, 0, EXPORT("fd", "mh", "addr", "length", "EXS_REMOTE_WRITE"), BOTH, OURS, ok_write, NULL},
    {26, 0, EXPORT("fd", "mh", "addr", "LENGTH_OF_MH", "both"), BOTH, OURS, ok_both, NULL},
    {27, 0, EXPORT("fd", "mh", "addr", "1", "both"), BOTH, OURS, ok_byte, NULL},
    {28, 0, EXPORT("fd", "RECV_DISABLE_MH", "addr", "length", "EXS_REMOTE_READ"), BOTH, OURS, only_sent, NULL},
    {29, 0, EXPORT("fd", "SEND_DISABLE_MH", "addr", "length", "EXS_REMOTE_WRITE"), BOTH, OURS, only_received,
     NULL},
    {30, 0, RIGHT " [and the socket is closed]", BOTH, OURS, goes_with_the_socket, NULL},
};
const struct group group_mexport = {"exs_mexport", NULL, export_needs, ROWS(export_rows)};

/* ---- exs_munexport -------------------------------------------------------------------------------------- */

static exs_token_t ok_export(struct trial *trial, exs_mhandle_t region)
{
    exs_token_t token;

    if (exs_mexport(trial->fd, region, trial->buffer, PART, RIGHTS, &token) < 0)
        broken(trial, "exs_mexport");
    return token;
}

static void back_uninitialized(struct trial *trial)
{
    outcome(trial, exs_munexport(BAD_FD, NULL));
}

static void back_forked(struct trial *trial)
{
    exs_token_t token = ok_export(trial, ok_region(trial, 0));

    in_child(trial);
    trial->queue = NULL;
    trial->connected = false;
    outcome(trial, exs_munexport(trial->fd, &token));
}

static void back_of(struct trial *trial, int fd)
{
    exs_token_t token = ok_export(trial, ok_region(trial, 0));

    outcome(trial, exs_munexport(fd >= 0 ? foreign_fd(trial) : BAD_FD, &token));
}

static void back_bad_fd(struct trial *trial)
{
    back_of(trial, BAD_FD);
}

static void back_foreign(struct trial *trial)
{
    back_of(trial, 0);
}

static void back_not_connected(struct trial *trial)
{
    exs_token_t token = ok_export(trial, ok_region(trial, 0));

    outcome(trial, exs_munexport(ok_socket(trial), &token));
}

static void back_null(struct trial *trial)
{
    ok_export(trial, ok_region(trial, 0));
    outcome(trial, exs_munexport(trial->fd, NULL));
}

static void back_zeros(struct trial *trial)
{
    exs_token_t token = {0};

    ok_export(trial, ok_region(trial, 0));
    outcome(trial, exs_munexport(trial->fd, &token));
}

static void back_peers(struct trial *trial)
{
    ok_connected(trial);
    trial->access = EXS_REMOTE_READ;
    exs_token_t token = peer_do(trial, PEER_EXPORT, PART).token;

    outcome(trial, exs_munexport(trial->fd, &token));
}

static void back_twice(struct trial *trial)
{
    exs_token_t token = ok_export(trial, ok_region(trial, 0));

    require(trial, exs_munexport(trial->fd, &token) == 0, "exs_munexport failed");
    outcome(trial, exs_munexport(trial->fd, &token));
}

static void back_again(struct trial *trial)
{
    exs_mhandle_t region = ok_region(trial, 0);
    exs_token_t first = ok_export(trial, region), second = ok_export(trial, region);

    outcome(trial, exs_munexport(trial->fd, &first));
    require(trial, exs_mderegister(region, 0) == -1 && errno == EBUSY, "the other export has gone, too");
    require(trial, exs_munexport(trial->fd, &second) == 0, "the other export has gone, too");
    require(trial, exs_mderegister(region, 0) == 0, "the region is in use still");
}

static const char *const unexport_needs[] = {"exs_init",      "exs_socket",  "exs_connect",
                                             "exs_mregister", "exs_mexport", NULL};
static const struct row unexport_rows[] = {
    {1, EPERM, "exs_munexport(BAD_FD, NULL) [no exs_init]", BOTH, OURS, back_uninitialized, NULL},
    {2, ECHILD, "exs_munexport(fd, &token) [in a forked child]", BOTH, OURS, back_forked, NULL},
    {3, EBADF, "exs_munexport(BAD_FD, &token)", BOTH, OURS, back_bad_fd, NULL},
    {4, EBADF, "exs_munexport(FD_OF_A_FILE, &token)", BOTH, OURS, back_foreign, NULL},
    {5, ENOTCONN, "exs_munexport(NOT_CONNECTED_FD, &token)", BOTH, OURS, back_not_connected, NULL},
    {6, EINVAL, "exs_munexport(fd, NULL)", BOTH, OURS, back_null, NULL},
    {7, EINVAL, "exs_munexport(fd, ZEROS)", BOTH, OURS, back_zeros, NULL},
    {8, EINVAL, "exs_munexport(fd, TOKEN_OF_THE_PEER)", BOTH, OURS, back_peers, NULL},
    {9, EINVAL, "exs_munexport(fd, &token) [a second time]", BOTH, OURS, back_twice, NULL},
    {10, 0, "exs_munexport(fd, &token) [one of two exports of the same bytes]", BOTH, OURS, back_again, NULL},
};
const struct group group_munexport = {"exs_munexport", NULL, unexport_needs, ROWS(unexport_rows)};
