/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer.h - the peer at the other end of a mock connection. It sends what the input chooses, and checks what EXS sends.
 *
 * A peer is honest until it breaks the protocol. With an honest peer, EXS must obey the protocol exactly, and the bytes
 * of the streams are compared. With any peer, EXS may only access memory that the peer has granted: that is checked
 * when EXS posts a work request. Peers exist until peer_reset.
 */
#ifndef CHECK_FUZZ_PEER_H
#define CHECK_FUZZ_PEER_H

#include "check/fuzz/input.h"
#include "check/fuzz/mock.h"
#include "core/conn/protocol.h"

#define PEERS_MAX 24
#define PEER_ADVERTS 32
#define PEER_GRANTS 512
#define STREAM_MAX ((size_t)4 << 20) /* the most bytes that are compared */
#define MESSAGES_MAX 1024

/* One direction of a connection: the bytes that were sent, and how many of them have arrived. */
struct stream {
    uint8_t *bytes;
    size_t sent, seen, room;
    size_t lengths[MESSAGES_MAX]; /* of each message, for SOCK_SEQPACKET */
    unsigned messages, messages_seen;
    bool compared; /* false: something made comparison impossible */
    bool ended;    /* the sender has ended its direction */
};

struct grant { /* memory of the peer that EXS may access */
    uint64_t addr, length;
    uint32_t rkey;
    int access; /* EXS_REMOTE_READ, EXS_REMOTE_WRITE */
    bool is_token;
};

struct place { /* an advertised buffer, of EXS or of the peer */
    uint64_t addr, left;
    uint32_t rkey;
    bool waitall;
};

struct peer {
    struct mock_id *id; /* NULL: EXS has destroyed it */
    int index;
    bool there; /* the hellos were exchanged */
    bool honest, immediate, recalled_due, recalling, recalled, fin_heard;
    int socktype;
    struct hello mine, theirs;
    struct stream out, in; /* sent by EXS; sent to EXS */
    struct grant grants[PEER_GRANTS];
    unsigned grant_count;
    uint32_t keys; /* how many keys it has used */
    uint32_t reads;

    /* Sending to EXS. */
    uint32_t credits, owed;
    struct place given[PEER_ADVERTS]; /* advertised by EXS */
    unsigned given_count;
    bool begun, fin_said;
    uint32_t tx_phase;
    uint64_t tx_position, recv_ring_sent, recv_ring_acked, packet_out;
    struct place ring; /* the ring buffer of EXS; left: its size */
    bool ring_is_new, ring_is_asked;

    /* Receiving from EXS. */
    uint32_t their_credits;
    struct place places[PEER_ADVERTS]; /* advertised to EXS */
    unsigned place_count;
    bool filling;
    uint32_t rx_phase;
    uint64_t rx_position, recv_ring_in, recv_ring_out, recv_ring_acknowledged;
    struct place own_ring, next_ring; /* left: the size; next_ring.left is 0: there is none */
    bool ring_is_wanted;
    uint64_t packet;                  /* bytes so far of the message that is arriving */
    uint64_t piece_addr, piece_bytes; /* written, but not yet reported */
    uint32_t piece_rkey;
};

void peer_reset(void);
struct peer *peer_new(struct mock_id *id);    /* NULL: there are PEERS_MAX already */
struct peer *peer_number(unsigned number);    /* NULL: there are fewer */
bool peer_reachable(const struct peer *peer); /* can it send to EXS? */

struct hello peer_hello(struct peer *peer, struct input *input, int socktype); /* a valid hello */
/* Both sides have the hello of the other. */
void peer_met(struct peer *peer, const struct hello *mine);
void peers_lose(void);             /* compare no stream from now on */
void peer_lied(struct peer *peer); /* from now on EXS must only be safe; no more is expected of it */

/* Receives this many of the work requests that EXS posted next, and completes them. */
void peer_hears(struct peer *peer, int count);
/* Sends what the input chooses, if the protocol allows that now. */
void peer_speaks(struct peer *peer, struct input *input);
/* Sends something that breaks the protocol. */
void peer_lies(struct peer *peer, struct input *input);
/* Does what every working peer does: receives, empties the ring buffer, returns credits, and answers a recall. */
void peer_serves(struct peer *peer);
/* A token for `length` bytes of the peer's memory. */
void peer_token(struct peer *peer, int access, uint64_t length, exs_token_t *token);

/* Is all memory of the work request within this grant? */
bool grant_covers(const struct grant *grant, const struct mock_wr *wr);
void peer_grant(struct peer *peer, uint64_t addr, uint64_t length, uint32_t rkey, int access, bool is_token);
bool peer_control(struct peer *peer, struct control control); /* sends it, with the credits that are owed */

/* Fill memory with bytes that begin with `from` and grow by 1; in the pattern of a stream some bytes differ, so that it
 * does not repeat so soon. */
void pattern_ramp(uint8_t *bytes, size_t length, uint64_t from);
void pattern_stream(uint8_t *bytes, size_t length, uint64_t from);
void stream_add(struct stream *stream, const void *bytes, size_t length);
void stream_end_message(struct stream *stream, size_t length);
void stream_see(struct stream *stream, const void *bytes,
                size_t length); /* checks that these bytes arrive next; NULL: only counts them */
/* Removes from what is still to arrive: bytes, or a message. */
void stream_cut(struct stream *stream, size_t at, size_t length);
void stream_cut_message(struct stream *stream, unsigned message);

#endif
