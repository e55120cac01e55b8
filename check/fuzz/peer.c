/* SPDX-License-Identifier: BSD-2-Clause */
/* Creation and reset of peers, what EXS may access at them, and the comparison of streams. See peer.h. */
#include <stdlib.h>
#include <string.h>
#include "check/fuzz/peer.h"

static struct peer peers[PEERS_MAX];
static unsigned count;
static bool losses; /* the device has failed: operations may end half-way */

/* ---- Streams ---------------------------------------------------------------------------------------- */

void pattern_ramp(uint8_t *bytes, size_t length, uint64_t from)
{
    static uint8_t ramp[512];

    for (int i = 0; ramp[511] == 0 && i < 512; i++)
        ramp[i] = (uint8_t)i;
    for (size_t part, done = 0; done < length; done += part) {
        part = length - done < 256 ? length - done : 256;
        memcpy(bytes + done, ramp + (uint8_t)from, part);
    }
}

void pattern_stream(uint8_t *bytes, size_t length, uint64_t from)
{
    pattern_ramp(bytes, length, from);
    for (size_t i = 0; i < length; i += 128)
        bytes[i] = (uint8_t)((from + i) / 128);
}

void stream_add(struct stream *stream, const void *bytes, size_t length)
{
    if (stream->sent + length > STREAM_MAX)
        stream->compared = false;
    if (!stream->compared || length == 0)
        return;
    if (stream->sent + length > stream->room) {
        stream->room = 2 * (stream->sent + length);
        stream->bytes = realloc(stream->bytes, stream->room);
        require(stream->bytes != NULL, "no memory");
    }
    memcpy(stream->bytes + stream->sent, bytes, length);
    stream->sent += length;
}

void stream_end_message(struct stream *stream, size_t length)
{
    if (stream->messages == MESSAGES_MAX)
        stream->compared = false;
    else
        stream->lengths[stream->messages++] = length;
}

void stream_see(struct stream *stream, const void *bytes, size_t length)
{
    if (!stream->compared)
        return;
    require(length <= stream->sent - stream->seen, "%zu bytes arrive where %zu were sent", length,
            stream->sent - stream->seen);
    require(length == 0 || bytes == NULL || memcmp(stream->bytes + stream->seen, bytes, length) == 0,
            "other bytes arrive than were sent");
    stream->seen += length;
}

void stream_cut(struct stream *stream, size_t at, size_t length)
{
    if (!stream->compared || length == 0)
        return;
    require(at >= stream->seen && length <= stream->sent - at, "bytes have arrived that were not sent");
    memmove(stream->bytes + at, stream->bytes + at + length, stream->sent - at - length);
    stream->sent -= length;
}

void stream_cut_message(struct stream *stream, unsigned message)
{
    if (!stream->compared)
        return;
    require(message >= stream->messages_seen, "a message has arrived that was not sent");
    memmove(&stream->lengths[message], &stream->lengths[message + 1],
            (stream->messages - message - 1) * sizeof(stream->lengths[0]));
    stream->messages--;
}

/* ---- Creation and connection ------------------------------------------------------------------------ */

void peer_reset(void)
{
    for (unsigned i = 0; i < count; i++) {
        free(peers[i].out.bytes);
        free(peers[i].in.bytes);
    }
    memset(peers, 0, count * sizeof(peers[0]));
    count = 0;
    losses = false;
}

struct peer *peer_new(struct mock_id *id)
{
    struct peer *peer = &peers[count];

    if (count == PEERS_MAX)
        return NULL;
    peer->index = (int)count++;
    peer->id = id;
    if (id != NULL)
        id->peer = peer;
    return peer;
}

struct peer *peer_number(unsigned number)
{
    return number < count ? &peers[number] : NULL;
}

bool peer_reachable(const struct peer *peer)
{
    const struct mock_qp *qp = peer->id != NULL ? mock_qp_of(&peer->id->id) : NULL;

    return qp != NULL && peer->there && qp->qp.state == IBV_QPS_RTS && peer->id->state != MOCK_ENDED;
}

static uint64_t base_of(const struct peer *peer)
{
    return UINT64_C(0x700000000000) + ((uint64_t)peer->index << 40);
}

bool grant_covers(const struct grant *grant, const struct mock_wr *wr)
{
    return wr->rkey == grant->rkey && wr->remote >= grant->addr && wr->remote - grant->addr <= grant->length &&
           wr->length <= grant->length - (wr->remote - grant->addr);
}

void peer_grant(struct peer *peer, uint64_t addr, uint64_t length, uint32_t rkey, int access, bool is_token)
{
    require(peer->grant_count < PEER_GRANTS, "a peer has let EXS reach too much");
    peer->grants[peer->grant_count++] =
        (struct grant){.addr = addr, .length = length, .rkey = rkey, .access = access, .is_token = is_token};
}

void peer_token(struct peer *peer, int access, uint64_t length, exs_token_t *token)
{
    const struct token fresh = {.access = (uint32_t)access,
                                .recv_ring_rkey = peer->mine.recv_ring_rkey,
                                .recv_ring_addr = peer->mine.recv_ring_addr,
                                .rkey = (uint32_t)peer->index << 16 | ++peer->keys,
                                .addr = base_of(peer) + ((uint64_t)peer->keys << 32),
                                .length = length};

    xs_token_pack(&fresh, token);
    if (peer->grant_count < PEER_GRANTS)
        peer_grant(peer, fresh.addr, fresh.length, fresh.rkey, access, true);
}

struct hello peer_hello(struct peer *peer, struct input *input, int socktype)
{
    static const uint32_t credits[] = {64, 4, 5, 8, 16, 32, 200, 65535};
    static const uint16_t adverts[] = {32, 1, 2, 65535};
    static const uint32_t sizes[] = {65536, 1024, 1025, 4096, 262144, 1u << 20, 1u << 30, 3000};
    uint16_t choice = input_u16(input);

    return (struct hello){.magic = HELLO_MAGIC,
                          .version = HELLO_VERSION,
                          .socktype = (uint8_t)socktype,
                          .credits = credits[choice & 7],
                          .flags = (uint16_t)(((choice & 0x8) ? (choice >> 4) & 3 : HELLO_IMM_CREDITS) |
                                              (choice & 0x800 ? HELLO_EMPTY_END : 0) |
                                              (choice & 0x1000 ? HELLO_RING_GROWS : 0)),
                          .adverts = adverts[(choice >> 6) & 3],
                          .recv_ring_size = sizes[(choice >> 8) & 7],
                          .recv_ring_rkey = (uint32_t)peer->index << 16 | ++peer->keys,
                          .recv_ring_addr = base_of(peer)};
}

void peer_met(struct peer *peer, const struct hello *mine)
{
    const struct mock_id *id = peer->id;

    require(id->hello_length == HELLO_SIZE &&
                xs_hello_unpack(&peer->theirs, id->hello, id->hello_length, id->hello[6]) == HELLO_OK,
            "EXS says hello in no way that it would take");
    peer->mine = *mine;
    peer->socktype = peer->theirs.socktype;
    peer->honest = true;
    peer->there = true;
    peer->in.compared = peer->out.compared = !losses;
    peer->immediate = ((mine->flags | peer->theirs.flags) & HELLO_NO_IMMEDIATE) == 0;
    peer->credits = peer->theirs.credits;
    peer->their_credits = mine->credits;
    peer->ring = (struct place){.addr = peer->theirs.recv_ring_addr,
                                .left = peer->theirs.recv_ring_size,
                                .rkey = peer->theirs.recv_ring_rkey};
    peer->own_ring = (struct place){
        .addr = mine->recv_ring_addr, .left = mine->recv_ring_size, .rkey = mine->recv_ring_rkey};
    peer_grant(peer, mine->recv_ring_addr, mine->recv_ring_size, mine->recv_ring_rkey, EXS_REMOTE_WRITE, false);
}

void peers_lose(void)
{
    losses = true;
    for (unsigned i = 0; i < count; i++)
        peers[i].in.compared = peers[i].out.compared = false;
}

void peer_lied(struct peer *peer)
{
    peer->honest = peer->in.compared = peer->out.compared = false;
}

/* ---- Calls of the mock ----------------------------------------------------------------------- */

void mock_connects(struct mock_id *id)
{
    if (id->peer == NULL)
        peer_new(id);
}

void mock_accepts(struct mock_id *id)
{
    const struct hello mine = id->peer->mine;

    peer_met(id->peer, &mine);
}

void mock_disconnects(struct mock_id *id)
{
    (void)id;
}

void mock_gone(struct mock_id *id)
{
    if (id->peer != NULL)
        id->peer->id = NULL;
    id->peer = NULL;
}

/* RDMA may go to, or read from, granted memory only, whether or not the peer still exists. */
void mock_posted(struct mock_qp *qp, const struct mock_wr *wr)
{
    const struct peer *peer = qp->id->peer;
    int access = wr->opcode == IBV_WR_RDMA_READ ? EXS_REMOTE_READ : EXS_REMOTE_WRITE;

    if (wr->opcode == IBV_WR_SEND || wr->length == 0 || peer == NULL)
        return;
    require(wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_RDMA_WRITE ||
                wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM,
            "a work request of kind %d", wr->opcode);
    for (unsigned i = 0; i < peer->grant_count; i++) {
        if (peer->grants[i].access & access && grant_covers(&peer->grants[i], wr))
            return;
    }
    mock_broken(__FILE__, __LINE__, "EXS reaches %u bytes at %#jx with key %#x, where nobody let it",
                wr->length, (uintmax_t)wr->remote, wr->rkey);
}
