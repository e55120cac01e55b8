/* SPDX-License-Identifier: BSD-2-Clause */
/* onesided.c - tests of exs_rread and exs_rwrite with memory that the peer has exported. Both take the same arguments
 * and differ in the direction. */
#include <stdio.h>
#include <sys/mman.h>
#include "bodies.h"
#include "onesided_rows.h"

#define EXPORTED 1000 /* bytes of pattern() that the peer exports */

static bool reads(const struct trial *trial)
{
    return strcmp(trial->group->function, "exs_rread") == 0;
}

/* Correct arguments of a call, which a body may change. */
struct call {
    int fd;
    void *buffer;
    size_t length; /* bytes */
    const exs_token_t *token;
    uint64_t offset;
    int flags;
    exs_qhandle_t queue;
    exs_mhandle_t region;
};

static ssize_t make(struct trial *trial, const struct call *call)
{
    return reads(trial) ? exs_rread(call->fd, call->buffer, call->length, call->token, call->offset,
                                    call->flags, call->queue, trial, call->region)
                        : exs_rwrite(call->fd, call->buffer, call->length, call->token, call->offset,
                                     call->flags, call->queue, trial, call->region);
}

static struct call right(struct trial *trial, const exs_token_t *token)
{
    return (struct call){.fd = trial->fd,
                         .buffer = trial->buffer,
                         .length = EXPORTED,
                         .token = token,
                         .flags = trial->flags,
                         .queue = trial->queue};
}

/* Makes the call of the row. */
static void try(struct trial *trial, const struct call *call)
{
    ssize_t result = make(trial, call);

    outcome(trial, moved(trial, result, reads(trial) ? EXS_EVT_RREAD : EXS_EVT_RWRITE));
}

/* Connects to a peer that exports memory with these rights. Returns the token. */
static exs_token_t ok_exported_for(struct trial *trial, int access)
{
    ok_connected(trial);
    trial->access = access;
    return peer_do(trial, PEER_EXPORT, EXPORTED).token;
}

static exs_token_t ok_exported(struct trial *trial)
{
    return ok_exported_for(trial, reads(trial) ? EXS_REMOTE_READ : EXS_REMOTE_WRITE);
}

/* ---- Refused -------------------------------------------------------------------------------------------- */

static void uninitialized(struct trial *trial)
{
    exs_token_t token = {0};
    struct call call = right(trial, &token);

    try(trial, &call);
}

static void uninitialized_bad(struct trial *trial)
{
    try(trial, &(struct call){.fd = BAD_FD, .flags = BAD_FLAG, .queue = INVALID_QHANDLE});
}

static void forked(struct trial *trial)
{
    exs_token_t token = ok_exported(trial);

    in_child(trial);
    trial->queue = NULL;
    trial->connected = false;
    struct call call = right(trial, &token);

    try(trial, &call);
}

static void with_fd(struct trial *trial, int fd, const exs_token_t *token)
{
    struct call call = right(trial, token);

    call.fd = fd;
    try(trial, &call);
}

static void bad_fd(struct trial *trial)
{
    exs_token_t token = ok_exported(trial);

    with_fd(trial, BAD_FD, &token);
}

static void foreign(struct trial *trial)
{
    exs_token_t token = ok_exported(trial);

    with_fd(trial, foreign_fd(trial), &token);
}

static void not_connected(struct trial *trial)
{
    exs_token_t token = ok_exported(trial);

    with_fd(trial, ok_socket(trial), &token);
}

static void listener(struct trial *trial)
{
    exs_token_t token = ok_exported(trial);
    int fd = ok_socket(trial);

    ok_bind(trial, fd, "0");
    ok_listen(trial, fd);
    with_fd(trial, fd, &token);
}

static void with_flags(struct trial *trial, int flags)
{
    exs_token_t token = ok_exported(trial);
    struct call call = right(trial, &token);

    call.flags |= flags;
    try(trial, &call);
}

static void flag_bad(struct trial *trial)
{
    with_flags(trial, BAD_FLAG);
}

static void flag_dont_wait(struct trial *trial)
{
    with_flags(trial, MSG_DONTWAIT);
}

static void flag_waitall(struct trial *trial)
{
    with_flags(trial, MSG_WAITALL);
}

static void flag_unsignaled(struct trial *trial)
{
    with_flags(trial, EXS_UNSIGNALED);
}

static void flag_intr(struct trial *trial)
{
    with_flags(trial, EXS_INTR);
}

static void buffer_null(struct trial *trial)
{
    exs_token_t token = ok_exported(trial);
    struct call call = right(trial, &token);

    call.buffer = NULL;
    try(trial, &call);
}

static void with_length(struct trial *trial, size_t length)
{
    exs_token_t token = ok_exported(trial);
    struct call call = right(trial, &token);

    call.length = length;
    try(trial, &call);
}

static void length_zero(struct trial *trial)
{
    with_length(trial, 0);
}

static void too_long(struct trial *trial)
{
    with_length(trial, MAX_LENGTH);
}

static void token_null(struct trial *trial)
{
    ok_exported(trial);
    struct call call = right(trial, NULL);

    try(trial, &call);
}

static void token_zeros(struct trial *trial)
{
    exs_token_t token = {0};

    ok_exported(trial);
    struct call call = right(trial, &token);

    try(trial, &call);
}

static void token_damaged(struct trial *trial)
{
    exs_token_t token = ok_exported(trial);
    struct call call = right(trial, &token);

    token.exs_bytes[0] ^= 1;
    try(trial, &call);
}

/* A token of this end's own export is invalid here. */
static void token_own(struct trial *trial)
{
    exs_token_t token;

    ok_exported(trial);
    exs_mhandle_t region = ok_mregister(trial, trial->buffer, BUFSIZE, 0);

    require(trial,
            exs_mexport(trial->fd, region, trial->buffer, EXPORTED, EXS_REMOTE_READ | EXS_REMOTE_WRITE,
                        &token) == 0,
            "exs_mexport failed");
    struct call call = right(trial, &token);

    try(trial, &call);
}

static void with_queue(struct trial *trial, exs_qhandle_t queue)
{
    exs_token_t token = ok_exported(trial);
    struct call call = right(trial, &token);

    call.queue = queue;
    try(trial, &call);
}

static void queue_invalid(struct trial *trial)
{
    with_queue(trial, INVALID_QHANDLE);
}

static void queue_null(struct trial *trial)
{
    with_queue(trial, NULL);
}

static void with_region(struct trial *trial, size_t size, int flags)
{
    exs_token_t token = ok_exported(trial);
    struct call call = right(trial, &token);

    call.region = ok_mregister(trial, trial->buffer, size, flags);
    try(trial, &call);
}

static void region_invalid(struct trial *trial)
{
    exs_token_t token = ok_exported(trial);
    struct call call = right(trial, &token);

    call.region = EXS_MHANDLE_INVALID;
    try(trial, &call);
}

static void region_too_short(struct trial *trial)
{
    with_region(trial, EXPORTED - 1, 0);
}

static void region_not_for_this(struct trial *trial)
{
    with_region(trial, BUFSIZE, reads(trial) ? EXS_MRF_RECV_DISABLE : EXS_MRF_SEND_DISABLE);
}

static void with_range(struct trial *trial, uint64_t offset, size_t length)
{
    exs_token_t token = ok_exported(trial);
    struct call call = right(trial, &token);

    call.offset = offset;
    call.length = length;
    try(trial, &call);
}

static void one_byte_behind(struct trial *trial)
{
    with_range(trial, 1, EXPORTED);
}

static void far_behind(struct trial *trial)
{
    with_range(trial, UINT64_MAX - 5, 10);
}

static void longer_than_exported(struct trial *trial)
{
    with_range(trial, 0, EXPORTED + 1);
}

static void not_this_right(struct trial *trial)
{
    exs_token_t token = ok_exported_for(trial, reads(trial) ? EXS_REMOTE_WRITE : EXS_REMOTE_READ);
    struct call call = right(trial, &token);

    try(trial, &call);
}

static void buffer_not_mapped(struct trial *trial)
{
    exs_token_t token = ok_exported(trial);
    struct call call = right(trial, &token);

    call.buffer = mmap(NULL, BUFSIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    try(trial, &call);
}

static void after_reset(struct trial *trial)
{
    exs_token_t token = ok_exported(trial);

    ok_reset(trial);
    struct call call = right(trial, &token);

    try(trial, &call);
}

/* The peer has revoked the export: its device refuses the access, and the connection fails. */
static void taken_back(struct trial *trial)
{
    exs_token_t token = ok_exported(trial);

    peer_do(trial, PEER_UNEXPORT, 0);
    trial->connected = false;
    struct call call = right(trial, &token);

    try(trial, &call);
}

/* ---- Successful calls ----------------------------------------------------------------------------------- */

/* Checks that the bytes at call->offset were read; or that they were written, and the peer's other bytes are
 * unchanged. */
static void moves(struct trial *trial, struct call *call)
{
    unsigned char there[EXPORTED];

    pattern(there, EXPORTED);
    memset(trial->buffer, 0xa5, BUFSIZE);
    ssize_t result = moved(trial, make(trial, call), reads(trial) ? EXS_EVT_RREAD : EXS_EVT_RWRITE);

    outcome(trial, result);
    require(trial, result == (ssize_t)call->length, "it moved another number of bytes");
    if (reads(trial)) {
        require(trial, memcmp(call->buffer, there + call->offset, call->length) == 0, "it read other bytes");
        require(trial, trial->buffer[call->length] == 0xa5, "it read more than it was asked for");
    } else {
        memset(there + call->offset, 0xa5, call->length);
        require(trial, peer_do(trial, PEER_SUM, 0).sum == sum_of(there, EXPORTED, SUM_START),
                "the peer's memory has other bytes");
    }
}

static void moves_range(struct trial *trial, uint64_t offset, size_t length)
{
    exs_token_t token = ok_exported(trial);
    struct call call = right(trial, &token);

    call.offset = offset;
    call.length = length;
    moves(trial, &call);
}

static void ok_all(struct trial *trial)
{
    moves_range(trial, 0, EXPORTED);
}

static void ok_middle(struct trial *trial)
{
    moves_range(trial, 1, EXPORTED - 2);
}

static void ok_last_byte(struct trial *trial)
{
    moves_range(trial, EXPORTED - 1, 1);
}

static void ok_region(struct trial *trial)
{
    exs_token_t token = ok_exported_for(trial, EXS_REMOTE_READ | EXS_REMOTE_WRITE);
    struct call call = right(trial, &token);

    call.region =
        ok_mregister(trial, trial->buffer, BUFSIZE, reads(trial) ? EXS_MRF_SEND_DISABLE : EXS_MRF_RECV_DISABLE);
    moves(trial, &call);
}

static void ok_seqpacket(struct trial *trial)
{
    trial->type = SOCK_SEQPACKET;
    ok_all(trial);
}

/* One-sided operations are possible after the stream was shut down. */
static void ok_shut_down(struct trial *trial)
{
    exs_token_t token = ok_exported(trial);

    ok_shutdown(trial, SHUT_WR);
    struct call call = right(trial, &token);

    moves(trial, &call);
}

/* There is no event. The completion of a later send implies that the operation is complete. */
static void unsignaled(struct trial *trial, bool names_queue)
{
    exs_token_t token = ok_exported(trial);
    unsigned char there[EXPORTED];
    struct call call = right(trial, &token);

    memset(trial->buffer, 0xa5, BUFSIZE);
    memset(there, 0xa5, EXPORTED);
    call.flags = EXS_UNSIGNALED;
    call.queue = names_queue ? trial->queue : NULL;
    outcome(trial, make(trial, &call));
    peer_tell(trial, PEER_RECEIVE, 1);
    ok_send(trial, trial->buffer, 1);
    peer_hear(trial);
    require(trial, peer_do(trial, PEER_SUM, 0).sum == sum_of(there, EXPORTED, SUM_START),
            "the peer's memory has other bytes");
    no_event(trial, trial->queue);
}

static void ok_unsignaled(struct trial *trial)
{
    unsignaled(trial, false);
}

static void ok_unsignaled_queue(struct trial *trial)
{
    unsignaled(trial, true);
}

static const char *const needs[] = {"exs_init", "exs_socket",  "exs_connect", "exs_send",
                                    "exs_recv", "exs_mexport", NULL};
static const struct row read_rows[] = {
    ONESIDED_ROWS("exs_rread"),
    {35, EOPNOTSUPP, CALL("exs_rread", "fd", "buf", "length", "token", "offset", "EXS_UNSIGNALED", "qh", "mh"),
     BOTH, OURS, flag_unsignaled, NULL},
    {36, EFAULT, CALL("exs_rread", "fd", "NOT_MAPPED", "length", "token", "0", "flags", "qh", "mh"), BOTH, OURS,
     buffer_not_mapped, "A buffer that is copied into is looked at when the bytes are here."},
    {37, EINVAL, CALL("exs_rread", "fd", "buf", "length", "DAMAGED_TOKEN", "offset", "flags", "qh", "mh"), BOTH,
     OURS, token_damaged, NULL},
};
const struct group group_rread = {"exs_rread", NULL, needs, ROWS(read_rows)};

static const struct row write_rows[] = {
    ONESIDED_ROWS("exs_rwrite"),
    {35, EINVAL,
     CALL("exs_rwrite", "fd", "buf", "length", "token", "offset", "EXS_BLOCK | EXS_UNSIGNALED", "NULL", "mh"),
     BLOCKING, OURS, flag_unsignaled, NULL},
    {36, 0, CALL("exs_rwrite", "fd", "buf", "length", "token", "offset", "EXS_UNSIGNALED", "NULL", "mh"),
     NONBLOCKING, OURS, ok_unsignaled, NULL},
    {37, EACCES, CALL("exs_rwrite", "fd", "NOT_MAPPED", "length", "token", "0", "flags", "qh", "mh"), BOTH,
     OURS, buffer_not_mapped, NULL},
    {38, 0, CALL("exs_rwrite", "fd", "buf", "length", "token", "offset", "EXS_UNSIGNALED", "qh", "mh"),
     NONBLOCKING, OURS, ok_unsignaled_queue, NULL},
    {39, EINVAL, CALL("exs_rwrite", "fd", "buf", "length", "DAMAGED_TOKEN", "offset", "flags", "qh", "mh"),
     BOTH, OURS, token_damaged, NULL},
};
const struct group group_rwrite = {"exs_rwrite", NULL, needs, ROWS(write_rows)};
