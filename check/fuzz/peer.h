/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer.h - the other end of a connection on the mock: it says what the fuzzer's bytes say, and judges what EXS
 * says.
 *
 * A peer is honest until it lies. To an honest one EXS must keep the protocol to the letter, and the streams of
 * bytes are compared. Whatever the peer, EXS writes and reads only where it was let: that is judged for every
 * work request when it is posted. Peers stay until peer_reset.
 */
#ifndef CHECK_FUZZ_PEER_H
#define CHECK_FUZZ_PEER_H

#include "check/fuzz/input.h"
#include "check/fuzz/mock.h"
#include "core/conn/protocol.h"

#define PEERS_MAX 24
#define PEER_ADVERTS 32
#define PEER_GRANTS 512
#define STREAM_MAX ((size_t)4 << 20) /* bytes compared */
#define MESSAGES_MAX 1024

/* One direction: what was sent, and has been seen to arrive. */
struct stream {
    uint8_t *bytes;
    size_t sent, seen, room;
    size_t lengths[MESSAGES_MAX]; /* of the messages of a SEQPACKET */
    unsigned messages, messages_seen;
    bool compared; /* until something makes it impossible */
    bool ended;    /* the sender has said that this was all */
};

struct grant { /* where EXS may reach */
    uint64_t addr, length;
    uint32_t rkey;
    int access; /* EXS_REMOTE_ */
    bool is_token;
};

struct place { /* an advertisement, of either side */
    uint64_t addr, left;
    uint32_t rkey;
    bool waitall;
};

struct peer {
    struct mock_id *id; /* NULL: EXS is done with it */
    int index;
    bool there; /* the hellos are exchanged */
    bool honest, immediate, recalled_due, recalling, recalled, fin_heard;
    int socktype;
    struct hello mine, theirs;
    struct stream out, in; /* of EXS; to EXS */
    struct grant grants[PEER_GRANTS];
    unsigned grant_count;
    uint32_t keys; /* given out */
    uint32_t reads;

    /* to EXS */
    uint32_t credits, owed;
    struct place given[PEER_ADVERTS]; /* by EXS */
    unsigned given_count;
    bool begun, fin_said;
    uint32_t tx_phase;
    uint64_t tx_position, recv_ring_sent, recv_ring_acked, packet_out;
    struct place ring; /* EXS's ring buffer; left: its size */
    bool ring_is_new, ring_is_asked;

    /* from EXS */
    uint32_t their_credits;
    struct place places[PEER_ADVERTS]; /* given to EXS */
    unsigned place_count;
    bool filling;
    uint32_t rx_phase;
    uint64_t rx_position, recv_ring_in, recv_ring_out, recv_ring_acknowledged;
    struct place own_ring, next_ring; /* left: the size; of the next one 0: there is none */
    bool ring_is_wanted;
    uint64_t packet;                  /* bytes of the packet that is arriving */
    uint64_t piece_addr, piece_bytes; /* written, and not told yet */
    uint32_t piece_rkey;
};

void peer_reset(void);
struct peer *peer_new(struct mock_id *id);    /* NULL: there are too many */
struct peer *peer_number(unsigned number);    /* NULL: there are not so many */
bool peer_reachable(const struct peer *peer); /* it can talk to EXS */

struct hello peer_hello(struct peer *peer, struct input *input, int socktype); /* a good one */
/* The hellos that count were exchanged. */
void peer_met(struct peer *peer, const struct hello *mine);
void peers_lose(void);             /* streams are not compared from now on */
void peer_lied(struct peer *peer); /* from now on nothing is expected of EXS but to be careful */

/* EXS's next work requests are done. */
void peer_hears(struct peer *peer, int count);
/* Something that the protocol allows now, if it does. */
void peer_speaks(struct peer *peer, struct input *input);
/* Something else. */
void peer_lies(struct peer *peer, struct input *input);
/* What any peer does that goes on: hear, empty the ring buffer, return credits, answer a recall. */
void peer_serves(struct peer *peer);
/* A token for memory of this peer's, bytes long. */
void peer_token(struct peer *peer, int access, uint64_t length, exs_token_t *token);

/* This is where all of a work request goes. */
bool grant_covers(const struct grant *grant, const struct mock_wr *wr);
void peer_grant(struct peer *peer, uint64_t addr, uint64_t length, uint32_t rkey, int access, bool is_token);
bool peer_control(struct peer *peer, struct control control); /* send it, with the credits owed */

/* Every byte one more than the one before, from this on; and likewise, but never the same again for long. */
void pattern_ramp(uint8_t *bytes, size_t length, uint64_t from);
void pattern_stream(uint8_t *bytes, size_t length, uint64_t from);
void stream_add(struct stream *stream, const void *bytes, size_t length);
void stream_end_message(struct stream *stream, size_t length);
void stream_see(struct stream *stream, const void *bytes,
                size_t length); /* these are the next, or NULL: so many are */
/* These bytes of those that were to come, or this message, will not. */
void stream_cut(struct stream *stream, size_t at, size_t length);
void stream_cut_message(struct stream *stream, unsigned message);

#endif
