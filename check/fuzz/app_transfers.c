/* SPDX-License-Identifier: BSD-2-Clause */
/* app_transfers.c - see app.h. Transfers with buffers of every kind and length, and one-sided operations. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "check/fuzz/app.h"
#include "core/conn/protocol.h"

static const size_t lengths[] = {1,    0,    7,     100,   1000,  4095,   4096,   5000,
                                 8192, 8193, 20000, 65536, 65537, 300000, 1 << 20};

size_t app_some_length(uint8_t choice)
{
    return lengths[choice % (sizeof(lengths) / sizeof(lengths[0]))];
}

/* ---- Buffers ---------------------------------------------------------------------------------------- */

static struct region *some_region(uint8_t choice, size_t length)
{
    struct region *region = &app.regions[choice % APP_REGIONS];

    return region->handle != EXS_MHANDLE_INVALID && region->size - region->used >= length ? region : NULL;
}

/* Memory that only the device reads and writes. */
static uint8_t *huge(void)
{
    static uint8_t *memory;

    if (memory == NULL)
        memory =
            mmap(NULL, APP_HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(memory != MAP_FAILED, "no memory");
    return memory;
}

/* All transfers use the same huge buffer, so its contents can't be checked if several have it. */
static void share_huge(struct asked *asked)
{
    for (unsigned i = 0; i < app.asked_count; i++) {
        struct asked *other = &app.asked[i];

        if (other != asked && other->waits && other->buffer == huge())
            other->shared = asked->shared = true;
    }
}

/* Stores a buffer of some length in `asked`, registered or not. Returns its handle. */
static exs_mhandle_t get_buffer(struct asked *asked, uint8_t how, uint8_t choice)
{
    asked->length = app_some_length(choice);
    if (how == 255) {
        asked->length = APP_HUGE;
        asked->buffer = huge();
        asked->registered = true; /* treated like registered memory: other transfers use it, too */
        share_huge(asked);
        return NULL;
    }
    struct region *region = how & 0x80 ? some_region(how, asked->length) : NULL;

    if (region != NULL) {
        asked->buffer = region->memory + region->used;
        region->used += asked->length;
        asked->registered = true;
        return region->handle;
    }
    asked->buffer = asked->own = malloc(asked->length + 1);
    require(asked->own != NULL, "no memory");
    return how == 126 ? (exs_mhandle_t)(uintptr_t)12345 : how & 1 ? EXS_MHANDLE_UNREGISTERED : NULL;
}

/* The peer of the socket must receive these bytes. */
void app_will_arrive(struct asked *asked, const void *bytes, size_t length)
{
    if (asked->peer == NULL || !asked->waits)
        return;
    if (asked->moves == 0)
        asked->at = asked->peer->out.sent;
    asked->moves += length;
    stream_add(&asked->peer->out, bytes, length);
}

void app_one_message(struct asked *asked)
{
    if (asked->peer == NULL || !asked->waits)
        return;
    asked->message_number = asked->peer->out.messages;
    stream_end_message(&asked->peer->out, asked->length);
}

void app_received(struct asked *asked, exs_qhandle_t queue)
{
    struct app_socket *socket = asked->socket;

    if (!asked->waits)
        return;
    if (socket->recvs == 0)
        socket->recv_queue = queue;
    asked->order = socket->recvs++;
    asked->limited = socket->limits_recvs;
    socket->all_one = socket->all_one && queue == socket->recv_queue;
}

/* ---- Sending and receiving -------------------------------------------------------------------------- */

/* Splits the buffer into three segments, the middle one empty. The caller owns the array. */
static exs_msghdr_t *cut(struct asked *asked, exs_mhandle_t handle, uint8_t choice, exs_iovec_t pieces[3])
{
    size_t first = choice & 1 ? asked->length / 3 : 0;

    pieces[0] = (exs_iovec_t){.exs_base = asked->buffer, .exs_length = first, .exs_mhandle = handle};
    pieces[1] = (exs_iovec_t){.exs_flags = choice == 220 ? EXS_SHUT_WR : 0};
    pieces[2] = (exs_iovec_t){
        .exs_base = asked->buffer + first, .exs_length = asked->length - first, .exs_mhandle = handle};
    asked->message =
        (exs_msghdr_t){.exs_iov = choice == 222 ? NULL : pieces, .exs_iovlen = choice == 219 ? 0 : 3};
    return &asked->message;
}

/* By exs_send(), or in segments by exs_sendmsg()? */
static bool in_pieces(uint8_t how)
{
    return how % 64 >= 48 && how != 255;
}

static void call_send(struct input *input, struct app_socket *socket)
{
    exs_qhandle_t queue = app_some_queue(input);
    uint8_t how = input_u8(input), choice = input_u8(input);
    struct asked *asked = app_ask(in_pieces(how) ? EXS_EVT_SENDMSG : EXS_EVT_SEND, socket, queue);
    int flags = choice >= 224 ? EXS_UNSIGNALED : choice == 223 ? MSG_OOB : choice == 221 ? MSG_NOSIGNAL : 0;

    if (choice >= 190 && choice < 212)
        flags = MSG_DONTWAIT;
    if (asked == NULL)
        return;
    exs_mhandle_t handle = get_buffer(asked, how, choice);

    if (asked->length < APP_HUGE)
        pattern_stream(asked->buffer, asked->length, app.fill += 41);
    asked->unsignaled = flags == EXS_UNSIGNALED;
    asked->silent = asked->unsignaled && how & 0x40;
    exs_qhandle_t named = asked->silent ? NULL : queue;
    exs_iovec_t pieces[3];

    if (in_pieces(how))
        app_answer(asked, exs_sendmsg(socket->number, cut(asked, handle, choice, pieces), flags, named, asked));
    else
        app_answer(asked, exs_send(socket->number, choice == 222 ? NULL : asked->buffer, asked->length, flags,
                                   named, asked, handle));
    memset(pieces, 0xff, sizeof(pieces));
    if (!asked->waits)
        return;
    asked->limited = socket->limits_sends;
    app_will_arrive(asked, asked->buffer, asked->length);
    app_one_message(asked);
    if (flags & MSG_DONTWAIT)
        app_sent_at_once(asked);
}

static void call_recv(struct input *input, struct app_socket *socket)
{
    exs_qhandle_t queue = app_some_queue(input);
    uint8_t how = input_u8(input), choice = input_u8(input);
    struct asked *asked = app_ask(in_pieces(how) ? EXS_EVT_RECVMSG : EXS_EVT_RECV, socket, queue);
    int flags = choice >= 180 ? MSG_WAITALL : choice == 179 ? MSG_OOB : 0;

    if ((choice >= 160 && choice < 176) || choice >= 244)
        flags |= MSG_DONTWAIT;
    if ((choice >= 176 && choice < 179) || (choice >= 224 && choice < 240))
        flags |= MSG_PEEK;

    if (asked == NULL)
        return;
    exs_mhandle_t handle = get_buffer(asked, how, choice);

    asked->peeks = flags & MSG_PEEK;
    asked->waitall = flags == MSG_WAITALL && socket->type == SOCK_STREAM;
    exs_iovec_t pieces[3];

    if (in_pieces(how))
        app_answer(asked, exs_recvmsg(socket->number, cut(asked, handle, choice, pieces), flags, queue, asked));
    else
        app_answer(asked, exs_recv(socket->number, asked->buffer, asked->length, flags, queue, asked, handle));
    memset(pieces, 0xff, sizeof(pieces));
    app_received(asked, queue);
}

/* ---- One-sided -------------------------------------------------------------------------------------- */

/* A token of the peer. If it was changed in transit, the peer permits what the changed one says. */
static bool some_token(struct input *input, struct peer *peer, exs_token_t *token)
{
    uint8_t choice = input_u8(input);
    struct token there;

    if (peer == NULL || !peer->there || peer->grant_count + 2 > PEER_GRANTS)
        return false;
    peer_token(peer, 1 + choice % 3, (size_t)1 << (choice >> 3), token);
    if (choice & 4) {
        token->exs_bytes[input_u8(input) % EXS_TOKEN_SIZE] ^= input_u8(input);
        if (xs_token_unpack(&there, token))
            peer_grant(peer, there.addr, there.length, there.rkey, (int)there.access, true);
    }
    return true;
}

static void call_onesided(struct input *input, struct app_socket *socket)
{
    exs_qhandle_t queue = app_some_queue(input);
    uint8_t how = input_u8(input), choice = input_u8(input), offset = input_u8(input);
    int type = choice & 0x80 ? EXS_EVT_RREAD : EXS_EVT_RWRITE,
        flags = choice & 0x40 && !(choice & 0x80) ? EXS_UNSIGNALED : 0;
    exs_token_t token;
    struct token there = {0};

    if (!some_token(input, app_peer(socket->number), &token))
        return;
    struct asked *asked = app_ask(type, socket, queue);

    if (asked == NULL)
        return;
    exs_mhandle_t handle = get_buffer(asked, how == 255 ? 0 : how, choice & 0x3f);

    xs_token_unpack(&there, &token);
    asked->remote = there.addr + offset;
    asked->unsignaled = flags != 0;
    pattern_ramp(asked->buffer, asked->length, type == EXS_EVT_RWRITE ? asked->remote : 0);
    app_answer(asked, type == EXS_EVT_RREAD ? exs_rread(socket->number, asked->buffer, asked->length, &token,
                                                        offset, flags, queue, asked, handle)
                                            : exs_rwrite(socket->number, asked->buffer, asked->length, &token,
                                                         offset, flags, queue, asked, handle));
}

/* The peer has access from the export until its end, and not longer. */
static void call_export(struct input *input, struct app_socket *socket)
{
    uint8_t choice = input_u8(input);
    struct region *region = some_region(choice, 64);
    struct peer *peer = app_peer(socket->number);
    exs_token_t token;
    struct token there;
    int access = 1 + (choice >> 2) % 3;
    uint8_t *memory = region != NULL ? region->memory + region->used : NULL;

    if (exs_mexport(socket->number, region != NULL ? region->handle : NULL, memory, 64,
                    choice == 255 ? 8 : access, &token) < 0) {
        exs_munexport(socket->number, NULL);
        return;
    }
    region->used += 64;
    require(xs_token_unpack(&there, &token) && peer != NULL, "exs_mexport gave no token");
    struct ibv_pd *pd = mock_qp_of(&peer->id->id)->qp.pd;
    int write = IBV_ACCESS_REMOTE_WRITE, read = IBV_ACCESS_REMOTE_READ;

    require(
        (mock_remote(pd, there.rkey, there.addr, 64, write) != NULL) == ((access & EXS_REMOTE_WRITE) != 0) &&
            (mock_remote(pd, there.rkey, there.addr, 64, read) != NULL) == ((access & EXS_REMOTE_READ) != 0),
        "an export gives other rights than it says");
    require(mock_remote(pd, there.rkey, there.addr, 65, 0) == NULL, "an export gives more memory than it says");
    if (!(choice & 0x20))
        return;
    require(exs_mderegister(region->handle, 0) == -1 && errno == EBUSY, "exported memory was deregistered");
    require(exs_munexport(socket->number, &token) == 0, "exs_munexport: %s", strerror(errno));
    require(mock_remote(pd, there.rkey, there.addr, 64, 0) == NULL, "an export goes on after its end");
}

void app_call_transfer(struct input *input, struct app_socket *socket, unsigned what)
{
    switch (what) {
    case 0:
    case 1:
    case 2:
        call_send(input, socket);
        break;
    case 3:
    case 4:
    case 5:
        call_recv(input, socket);
        break;
    case 6:
        app_call_sendfile(input, socket);
        break;
    case 7:
        call_onesided(input, socket);
        break;
    default:
        call_export(input, socket);
        break;
    }
}
