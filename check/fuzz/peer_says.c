/* SPDX-License-Identifier: BSD-2-Clause */
/* What a peer sends: what the protocol allows, and what breaks it. See peer.h. */
#include <string.h>
#include "check/fuzz/peer.h"

#define WRITTEN_MAX 65536 /* the most bytes of one message that are really written */
#define CHOICES(array) (sizeof(array) / sizeof((array)[0]))

static bool is_stream(const struct peer *peer)
{
    return peer->socktype == SOCK_STREAM;
}

static struct mock_qp *qp_of(const struct peer *peer)
{
    return mock_qp_of(&peer->id->id);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- Control messages ------------------------------------------------------------------------ */

static void say_bytes(struct peer *peer, const void *bytes, uint32_t length, bool with_imm, uint32_t imm)
{
    bool heard = mock_receive(qp_of(peer), IBV_WC_RECV, bytes, length, with_imm, imm);

    require(heard || !peer->honest, "EXS gave a credit, and posted no receive for it");
    peer->credits -= heard;
}

bool peer_control(struct peer *peer, struct control control)
{
    uint8_t bytes[CONTROL_SIZE];

    if (!peer_reachable(peer))
        return false;
    control.credits = (uint16_t)least(peer->owed, UINT16_MAX);
    peer->owed -= control.credits;
    peer->their_credits += control.credits;
    xs_control_pack(&control, bytes);
    say_bytes(peer, bytes, sizeof(bytes), false, 0);
    return true;
}

static void say_bare(struct peer *peer, enum control_type type)
{
    peer_control(peer, (struct control){.type = (uint8_t)type});
}

static struct control next_advert(struct peer *peer, uint64_t length, bool waitall)
{
    struct control control = {.type = CONTROL_ADVERT,
                              .flags = waitall ? CONTROL_WAITALL : 0,
                              .phase = peer->rx_phase + peer->rx_phase % 2,
                              .position = peer->rx_position,
                              .length = length,
                              .rkey = (uint32_t)peer->index << 16 | ++peer->keys};

    control.addr = peer->mine.recv_ring_addr + ((uint64_t)(peer->keys & 0x7f) << 32);
    return control;
}

static void say_advert(struct peer *peer, uint64_t length, bool waitall)
{
    struct control control = next_advert(peer, length, waitall);

    if ((is_stream(peer) && peer->recv_ring_in != peer->recv_ring_out) || peer->place_count == PEER_ADVERTS ||
        peer->place_count >= peer->theirs.adverts || peer->recalled || peer->grant_count == PEER_GRANTS)
        return;
    peer->rx_phase = control.phase;
    peer->places[peer->place_count++] =
        (struct place){.addr = control.addr, .left = length, .rkey = control.rkey, .waitall = waitall};
    peer_grant(peer, control.addr, length, control.rkey, EXS_REMOTE_WRITE, false);
    peer_control(peer, control);
}

static void say_ack(struct peer *peer, uint64_t most)
{
    peer->recv_ring_out += least(most, peer->recv_ring_in - peer->recv_ring_out);
    peer->recv_ring_acknowledged = peer->recv_ring_out;
    peer_control(peer, (struct control){.type = CONTROL_ACK, .position = peer->recv_ring_out});
}

static bool rings_grow(const struct peer *peer)
{
    return is_stream(peer) && (peer->mine.flags & peer->theirs.flags & HELLO_RING_GROWS) != 0;
}

static void say_ring_wanted(struct peer *peer)
{
    if (!rings_grow(peer))
        return;
    peer->ring_is_asked = true;
    say_bare(peer, CONTROL_RING_WANTED);
}

static void say_ring(struct peer *peer)
{
    struct control control = next_advert(peer, 4 * peer->own_ring.left, false);

    if (!rings_grow(peer) || !peer->ring_is_wanted || peer->next_ring.left > 0 ||
        control.length > HELLO_RECV_RING_MAX || peer->grant_count == PEER_GRANTS)
        return;
    control.type = CONTROL_RING;
    peer->ring_is_wanted = false;
    peer->next_ring = (struct place){.addr = control.addr, .left = control.length, .rkey = control.rkey};
    peer_grant(peer, control.addr, control.length, control.rkey, EXS_REMOTE_WRITE, false);
    peer_control(peer, control);
}

static void say_fin(struct peer *peer)
{
    if (peer->fin_said || (peer->begun && !is_stream(peer)))
        return;
    peer->fin_said = peer->in.ended = true;
    say_bare(peer, CONTROL_FIN);
}

static void say_recall(struct peer *peer)
{
    if (peer->place_count == 0 || peer->recalling || peer->recalled)
        return;
    peer->recalling = peer->recalled = true;
    say_bare(peer, CONTROL_RECALL);
}

static void say_recalled(struct peer *peer)
{
    if (!peer->recalled_due)
        return;
    peer->recalled_due = false;
    say_bare(peer, CONTROL_RECALLED);
}

/* ---- Data ------------------------------------------------------------------------------------------- */

/* Writes bytes that depend on their offset in the stream. A message that is too long to be compared is not written at
 * all. */
static void write_bytes(struct peer *peer, uint64_t addr, uint32_t rkey, uint32_t length)
{
    static uint8_t bytes[WRITTEN_MAX];
    uint32_t step = 1 + (peer->keys * 7919) % WRITTEN_MAX, part;

    if (length > WRITTEN_MAX) {
        peer->in.compared = false;
        length = 0;
    }
    for (uint32_t done = 0; done < length; done += part) {
        part = (uint32_t)least(length - done, step);
        pattern_stream(bytes, part, peer->in.sent);
        bool written = mock_write(qp_of(peer), addr + done, rkey, bytes, part);

        require(written || !peer->honest, "EXS took back what it had advertised");
        if (!written)
            return;
        stream_add(&peer->in, bytes, part);
    }
}

/* Reports that bytes were written: with immediate data, or with a control message. */
static void say_news(struct peer *peer, uint32_t imm, uint32_t bytes, bool with_credits)
{
    if (!peer->immediate) {
        peer_control(peer, (struct control){.type = CONTROL_DATA, .phase = imm | bytes});
        return;
    }
    if (with_credits && bytes <= IMM_SHORT_MAX && peer->theirs.flags & HELLO_IMM_CREDITS) {
        uint32_t credits = (uint32_t)least(peer->owed, IMM_CREDITS_MASK >> IMM_CREDITS_SHIFT);

        peer->owed -= credits;
        peer->their_credits += credits;
        imm |= IMM_CREDITS | credits << IMM_CREDITS_SHIFT;
    }
    bool heard = peer_reachable(peer) &&
                 mock_receive(qp_of(peer), IBV_WC_RECV_RDMA_WITH_IMM, NULL, bytes, true, imm | bytes);

    require(heard || !peer->honest, "EXS gave a credit, and posted no receive for it");
    peer->credits -= heard;
}

static void say_direct(struct peer *peer, uint64_t length, bool more, bool with_credits)
{
    struct place *place = &peer->given[0];
    uint32_t bytes = (uint32_t)least(least(length, place->left), DATA_MAX), imm = IMM_DIRECT;
    bool cut = length > bytes && bytes == place->left && !is_stream(peer);

    if (is_stream(peer) && bytes == 0 && (more || !peer->begun || !(peer->theirs.flags & HELLO_EMPTY_END)))
        return; /* otherwise it ends a message that was begun */
    if (more && bytes < place->left)
        imm |= IMM_MORE;
    else if (cut)
        imm |= IMM_TRUNC;
    if (!peer->begun)
        peer->packet_out = 0;
    peer->packet_out += bytes;
    write_bytes(peer, place->addr, place->rkey, bytes);
    place->addr += bytes;
    place->left -= bytes;
    peer->tx_position += bytes;
    peer->begun = (imm & IMM_MORE) != 0;
    if (cut && !peer->begun)
        stream_add(&peer->in, "", 1); /* stands for the bytes that were cut off */
    if (!peer->begun && !is_stream(peer))
        stream_end_message(&peer->in, peer->packet_out + (cut ? 1 : 0));
    if (!peer->begun && (!is_stream(peer) || !place->waitall || place->left == 0)) {
        memmove(&peer->given[0], &peer->given[1], sizeof(peer->given) - sizeof(peer->given[0]));
        peer->given_count--;
    }
    say_news(peer, imm, bytes, with_credits);
}

static void say_indirect(struct peer *peer, uint64_t length, bool with_credits)
{
    uint64_t size = peer->ring.left, used = peer->recv_ring_sent - peer->recv_ring_acked;
    uint64_t offset = peer->recv_ring_sent % size;
    uint32_t bytes = (uint32_t)least(least(length, size - used), size - offset);

    if (bytes == 0)
        return;
    write_bytes(peer, peer->ring.addr + offset, peer->ring.rkey, bytes);
    peer->recv_ring_sent += bytes;
    peer->tx_position += bytes;
    peer->tx_phase |= 1;
    say_news(peer, peer->ring_is_new ? IMM_NEW_RING : 0, bytes, with_credits);
    peer->ring_is_new = false;
}

static void say_data(struct peer *peer, uint64_t length, unsigned how)
{
    if (peer->fin_said || peer->credits <= CREDITS_KEPT)
        return;
    if (peer->given_count > 0)
        say_direct(peer, length, how & 1, how & 2);
    else if (is_stream(peer))
        say_indirect(peer, length, how & 2);
}

/* ---- Obeying the protocol --------------------------------------------------------------------------- */

static uint64_t some_length(struct input *input)
{
    static const uint64_t lengths[] = {1,     0,     100,   1000,   4096,    8192, 8193,
                                       20000, 65535, 65536, 262144, 1 << 20, 7};
    uint8_t choice = input_u8(input);

    return choice < 4 * CHOICES(lengths) ? lengths[choice / 4] : choice;
}

void peer_speaks(struct peer *peer, struct input *input)
{
    uint8_t what = input_u8(input);
    uint64_t length = (what & 7) < 4 ? some_length(input) : 0;

    if (!peer_reachable(peer) || peer->credits == 0)
        return;
    if (peer->credits <= CREDITS_KEPT)
        what = 7;
    switch (what & 7) {
    case 0:
    case 1:
        say_data(peer, length, what >> 3);
        break;
    case 2:
        say_advert(peer, length + 1, what & 8);
        break;
    case 3:
        say_ack(peer, what & 8 ? UINT64_MAX : length);
        break;
    case 4:
        say_fin(peer);
        break;
    case 5:
        say_recall(peer);
        break;
    case 6:
        say_recalled(peer);
        break;
    default:
        if ((what & 0x18) == 0x08)
            say_ring_wanted(peer);
        else if ((what & 0x18) == 0x10)
            say_ring(peer);
        else
            say_bare(peer, CONTROL_CREDIT);
        break;
    }
}

void peer_serves(struct peer *peer)
{
    peer_hears(peer, MOCK_SENDS);
    if (!peer_reachable(peer) || peer->credits <= CREDITS_KEPT)
        return;
    if (peer->recalled_due)
        say_recalled(peer);
    else if (peer->recv_ring_in != peer->recv_ring_acknowledged)
        say_ack(peer, UINT64_MAX);
    else if (!is_stream(peer) && peer->place_count == 0)
        say_advert(peer, 4096, false);
    else if (peer->owed >= peer->mine.credits / 2)
        say_bare(peer, CONTROL_CREDIT);
}

/* ---- Breaking the protocol -------------------------------------------------------------------------- */

/* Sends a control message of any type, in which one field may be wrong. */
static void lie_control(struct peer *peer, struct input *input)
{
    uint8_t bytes[CONTROL_SIZE + 24] = {0};
    struct control control = next_advert(peer, some_length(input), false);
    uint8_t field = input_u8(input);
    uint64_t value = input_number(input, field & 0x40 ? 8 : 1);
    uint32_t length = CONTROL_SIZE;

    control.type = input_u8(input) % (CONTROL_RING + 2);
    control.credits = (uint16_t)peer->owed;
    if (control.type == CONTROL_ACK)
        control.position = peer->recv_ring_out;
    if (control.type == CONTROL_DATA)
        control.phase = IMM_DIRECT | 1;
    xs_control_pack(&control, bytes);
    if (field & 0x80) /* a number close to the largest one */
        value = ~value;
    switch (field & 7) {
    case 0:
        length = (uint32_t)(value % sizeof(bytes));
        break;
    case 1:
        bytes[value % CONTROL_SIZE] ^= (uint8_t)(1 + (value >> 8) % 255);
        break;
    case 2:
        control.credits = (uint16_t)value;
        break;
    case 3:
        control.phase = (uint32_t)value;
        break;
    case 4:
        control.position = value;
        break;
    case 5:
        control.addr = value;
        break;
    case 6:
        control.length = value;
        break;
    default:
        break;
    }
    if ((field & 7) > 1)
        xs_control_pack(&control, bytes);
    bool advert = xs_control_unpack(&control, bytes, length) && control.type == CONTROL_ADVERT;

    if (advert && peer->grant_count == PEER_GRANTS)
        return;
    if (advert)
        peer_grant(peer, control.addr, control.length, control.rkey, EXS_REMOTE_WRITE, false);
    say_bytes(peer, bytes, length, field & 8 && field & 16, (uint32_t)value);
}

static void lie_data(struct peer *peer, struct input *input)
{
    static const uint32_t bits[] = {
        0,        IMM_DIRECT,  IMM_DIRECT | IMM_MORE,    IMM_DIRECT | IMM_TRUNC,
        IMM_MORE, IMM_CREDITS, IMM_DIRECT | IMM_CREDITS, IMM_DIRECT | IMM_MORE | IMM_TRUNC};
    uint8_t choice = input_u8(input);
    uint32_t imm = bits[choice & 7];

    imm |= choice & 16 ? input_u32(input) & IMM_LENGTH : choice & 8 ? input_u32(input) : input_u8(input);

    if (mock_receive(qp_of(peer), IBV_WC_RECV_RDMA_WITH_IMM, NULL, imm & IMM_LENGTH, true, imm))
        peer->credits--;
}

/* An RDMA WRITE to memory where EXS allows one, or near it. */
static void lie_write(struct peer *peer, struct input *input)
{
    static const uint8_t bytes[256];
    uint8_t choice = input_u8(input), offset = input_u8(input);
    uint64_t addr = choice & 1 || peer->given_count == 0 ? peer->theirs.recv_ring_addr : peer->given[0].addr;
    uint32_t rkey = choice & 1 || peer->given_count == 0 ? peer->theirs.recv_ring_rkey : peer->given[0].rkey;

    if (choice & 2)
        addr = choice & 4 ? addr - offset : addr + ((uint64_t)offset << 10);
    if (choice & 8)
        rkey ^= offset;
    mock_write(qp_of(peer), addr, rkey, bytes, choice >> 4);
}

void peer_lies(struct peer *peer, struct input *input)
{
    uint8_t what = input_u8(input);

    if (!peer_reachable(peer))
        return;
    peer_lied(peer);
    switch (what & 3) {
    case 0:
    case 1:
        lie_control(peer, input);
        break;
    case 2:
        lie_data(peer, input);
        break;
    default:
        lie_write(peer, input);
        break;
    }
}
