/* SPDX-License-Identifier: BSD-2-Clause */
/* How a peer handles what EXS sends, and checks that it obeys the protocol if the peer does. See peer.h. */
#include <string.h>
#include "check/fuzz/peer.h"

#define expect(condition, ...) require(!peer->honest || (condition), __VA_ARGS__)

static bool is_stream(const struct peer *peer)
{
    return peer->socktype == SOCK_STREAM;
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* Does the work request go to the memory of a token, and not to a place for messages? After a change to a token on its
 * way, its key may be that of either. */
static bool is_token(const struct peer *peer, const struct mock_wr *wr)
{
    bool found = false;

    for (unsigned i = 0; i < peer->grant_count; i++) {
        if (!grant_covers(&peer->grants[i], wr))
            continue;
        if (!peer->grants[i].is_token)
            return false;
        found = true;
    }
    return found;
}

/* Handles an RDMA WRITE: part of a message, or a one-sided write, whose bytes depend on their address. */
static void hear_write(struct peer *peer, const struct mock_wr *wr)
{
    if (wr->length == 0)
        return;
    if (is_token(peer, wr)) {
        for (uint32_t i = 0; i < wr->length; i += 61)
            require(wr->data[i] == (uint8_t)(wr->remote + i), "other bytes are written than were given");
        return;
    }
    if (peer->piece_bytes == 0) {
        peer->piece_addr = wr->remote;
        peer->piece_rkey = wr->rkey;
    }
    expect(wr->rkey == peer->piece_rkey && wr->remote == peer->piece_addr + peer->piece_bytes,
           "the pieces of a message don't lie together");
    peer->piece_bytes += wr->length;
    stream_see(&peer->out, wr->data, wr->length);
}

static void drop_place(struct peer *peer)
{
    memmove(&peer->places[0], &peer->places[1], sizeof(peer->places) - sizeof(peer->places[0]));
    peer->place_count--;
}

/* A message is complete: it has the length that was sent, or less if it was truncated. */
static void hear_packet(struct peer *peer, uint64_t bytes, bool truncated)
{
    struct stream *out = &peer->out;

    if (!out->compared)
        return;
    expect(out->messages_seen < out->messages, "a packet that was not sent");
    size_t length = out->lengths[out->messages_seen++];

    expect(truncated ? bytes < length : bytes == length, "a packet of %zu bytes arrives with %zu", length,
           (size_t)bytes);
    out->seen += length - bytes;
}

static void hear_direct(struct peer *peer, uint32_t bytes, uint32_t imm)
{
    struct place *place = &peer->places[0];

    expect(peer->place_count > 0, "data where nothing is advertised");
    if (!peer->honest)
        return;
    expect(bytes <= place->left &&
               (bytes == 0 || (peer->piece_addr == place->addr && peer->piece_rkey == place->rkey)),
           "data beside what is advertised");
    place->addr += bytes;
    place->left -= bytes;
    if (!peer->filling)
        peer->packet = 0;
    peer->packet += bytes;
    peer->filling = (imm & IMM_MORE) != 0;
    expect(!is_stream(peer) || !(imm & IMM_TRUNC), "a stream is cut off");
    if (peer->filling)
        return;
    if (!is_stream(peer))
        hear_packet(peer, peer->packet, (imm & IMM_TRUNC) != 0);
    if (!is_stream(peer) || !place->waitall || place->left == 0)
        drop_place(peer);
}

static void hear_indirect(struct peer *peer, uint32_t bytes, uint32_t imm)
{
    if (imm & IMM_NEW_RING) {
        expect(peer->next_ring.left > 0, "data in a ring that was not offered");
        peer->own_ring = peer->next_ring;
        peer->next_ring.left = 0;
    }
    uint64_t size = peer->own_ring.left, offset = peer->recv_ring_in % size;

    expect(is_stream(peer) && !peer->filling, "indirect data at the wrong time");
    expect(bytes <= size - (peer->recv_ring_in - peer->recv_ring_out) && bytes <= size - offset &&
               peer->piece_addr == peer->own_ring.addr + offset && peer->piece_rkey == peer->own_ring.rkey,
           "data beside the room in the ring buffer");
    peer->recv_ring_in += bytes;
    if (peer->rx_phase % 2 == 0) {
        peer->rx_phase++;
        peer->place_count = 0;
    }
}

static void hear_news(struct peer *peer, uint32_t imm)
{
    uint32_t bytes = imm & IMM_LENGTH;

    expect(bytes == peer->piece_bytes, "%u bytes are told where %zu were written", bytes,
           (size_t)peer->piece_bytes);
    expect(!peer->fin_heard, "data behind the end");
    expect(!is_stream(peer) || bytes > 0 ||
               (imm == IMM_DIRECT && peer->filling && peer->mine.flags & HELLO_EMPTY_END),
           "no bytes on a stream");
    if (imm & IMM_DIRECT)
        hear_direct(peer, bytes, imm);
    else
        hear_indirect(peer, bytes, imm);
    peer->rx_position += bytes;
    peer->piece_bytes = 0;
}

static void credits_returned(struct peer *peer, uint32_t credits)
{
    peer->credits += credits;
    expect(peer->credits <= peer->theirs.credits, "more credits than there are");
}

static void hear_immediate(struct peer *peer, uint32_t imm)
{
    expect(peer->immediate, "immediate data, which was not agreed on");
    if (imm & IMM_CREDITS) {
        expect(peer->mine.flags & HELLO_IMM_CREDITS, "credits in an immediate, which was not agreed on");
        credits_returned(peer, (imm & IMM_CREDITS_MASK) >> IMM_CREDITS_SHIFT);
        imm &= ~(IMM_CREDITS | IMM_CREDITS_MASK);
    }
    hear_news(peer, imm);
}

/* ---- Control messages ------------------------------------------------------------------------ */

static void hear_advert(struct peer *peer, const struct control *control)
{
    struct ibv_pd *pd = mock_qp_of(&peer->id->id)->qp.pd;
    bool usable = !is_stream(peer) || (control->phase == peer->tx_phase && peer->tx_phase % 2 == 0) ||
                  ((int32_t)(control->phase - peer->tx_phase) > 0 && control->position == peer->tx_position);

    expect(control->length > 0 && control->phase % 2 == 0 && control->position <= peer->tx_position,
           "an invalid advertisement");
    if (!usable || peer->fin_said) /* the peer will write no more */
        return;
    expect(peer->given_count < PEER_ADVERTS && peer->given_count < peer->mine.adverts,
           "an advertisement too many");
    expect(mock_remote(pd, control->rkey, control->addr, control->length, IBV_ACCESS_REMOTE_WRITE) != NULL,
           "what is advertised can't be written");
    peer->tx_phase = control->phase;
    if (peer->given_count < PEER_ADVERTS)
        peer->given[peer->given_count++] = (struct place){.addr = control->addr,
                                                          .left = control->length,
                                                          .rkey = control->rkey,
                                                          .waitall = (control->flags & CONTROL_WAITALL) != 0};
}

static void hear_ring(struct peer *peer, const struct control *control)
{
    struct ibv_pd *pd = mock_qp_of(&peer->id->id)->qp.pd;

    expect(peer->ring_is_asked && control->length > peer->ring.left,
           "a ring that was not asked for, or no larger one");
    expect(mock_remote(pd, control->rkey, control->addr, control->length, IBV_ACCESS_REMOTE_WRITE) != NULL,
           "a ring that can't be written");
    peer->ring = (struct place){.addr = control->addr, .left = control->length, .rkey = control->rkey};
    peer->ring_is_new = true;
    peer->ring_is_asked = false;
}

static void hear_control(struct peer *peer, const struct mock_wr *wr)
{
    struct control control;

    require(xs_control_unpack(&control, wr->data, wr->length), "no control message");
    credits_returned(peer, control.credits);
    switch ((enum control_type)control.type) {
    case CONTROL_ADVERT:
        hear_advert(peer, &control);
        break;
    case CONTROL_ACK:
        expect(control.position >= peer->recv_ring_acked && control.position <= peer->recv_ring_sent,
               "an invalid acknowledgement");
        peer->recv_ring_acked = control.position;
        break;
    case CONTROL_FIN:
        expect(!peer->fin_heard, "two ends of a stream");
        peer->fin_heard = true;
        break;
    case CONTROL_RECALL:
        peer->given_count = peer->begun ? 1 : 0;
        peer->given[0].waitall = false;
        peer->recalled_due = true;
        break;
    case CONTROL_RECALLED:
        expect(peer->recalling, "an unexpected reply to a recall");
        peer->recalling = false;
        peer->place_count = peer->filling ? 1 : 0;
        peer->places[0].waitall = false;
        break;
    case CONTROL_DATA:
        expect(!peer->immediate, "data without immediate data, which was not agreed on");
        hear_news(peer, control.phase);
        break;
    case CONTROL_RING_WANTED:
        expect(is_stream(peer) && (peer->mine.flags & peer->theirs.flags & HELLO_RING_GROWS) != 0,
               "a wish that was not agreed on");
        peer->ring_is_wanted = true;
        break;
    case CONTROL_RING:
        hear_ring(peer, &control);
        break;
    case CONTROL_CREDIT:
        break;
    }
}

/* ---- Work requests ---------------------------------------------------------------------------------- */

static void use_credit(struct peer *peer)
{
    expect(peer->their_credits > 0, "a message without a credit");
    peer->their_credits--;
    peer->owed++;
}

static void serve_read(const struct mock_wr *wr)
{
    pattern_ramp((uint8_t *)(uintptr_t)wr->data, wr->length, wr->remote);
}

static void hear_one(struct peer *peer, const struct mock_wr *wr)
{
    switch (wr->opcode) {
    case IBV_WR_RDMA_READ:
        serve_read(wr);
        break;
    case IBV_WR_RDMA_WRITE:
        hear_write(peer, wr);
        break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        use_credit(peer);
        hear_write(peer, wr);
        hear_immediate(peer, wr->imm);
        break;
    default:
        use_credit(peer);
        hear_control(peer, wr);
        break;
    }
}

void peer_hears(struct peer *peer, int count)
{
    struct mock_wr *wr;

    while (count-- > 0 && peer_reachable(peer) && (wr = mock_sending(mock_qp_of(&peer->id->id))) != NULL) {
        hear_one(peer, wr);
        mock_sent(mock_qp_of(&peer->id->id), IBV_WC_SUCCESS);
    }
}
