/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * talk.h - the actions of a conversation: posting work to the device, sending packets as the tester, and waiting.
 *
 * A conversation judges nothing. Times are nanoseconds.
 */
#ifndef IBTA_TALK_H
#define IBTA_TALK_H

#include "bench.h"

/* Remote address in the device's one-sided requests. The tester has no memory there. */
#define REMOTE_VA 0x999000
#define REMOTE_RKEY 0x12345
#define FOREVER (3600000 * IBTA_MS)

/* ---- The device under test ---- */

/* Posts a signaled request of `length` bytes from or to the start of the device's memory. */
void dut_post(struct channel *channel, uint64_t id, enum ibv_wr_opcode opcode, size_t length);
/* Posts a receive for `length` bytes at `at`. */
void dut_receive(struct channel *channel, uint64_t id, size_t at, size_t length);
/* Posts a receive into memory that its key does not cover. */
void dut_receive_elsewhere(struct channel *channel, uint64_t id);
/* Record a value: the state of the queue pair (named "state"), a byte or a word of the device's memory. */
void dut_note_state(struct channel *channel);
void dut_note_byte(struct channel *channel, const char *name, size_t at);
void dut_note_word(struct channel *channel, const char *name, size_t at); /* 8 bytes in host order */

/* ---- The tester ---- */

enum damage { INTACT, BAD_CHECK, BAD_PKEY, BAD_VERSION, BAD_QPN, BAD_TRANSPORT };

/* Sends a packet with these fields; sets qpn, pkey and migreq. */
void tester_send(struct channel *channel, const struct roce *roce, enum damage damage);
void tester_acknowledge(struct channel *channel, uint32_t psn, uint8_t syndrome);
/* Sends a response with `length` bytes of data. */
void tester_respond(struct channel *channel, unsigned opcode, uint32_t psn, size_t length);
/* Sends the response to an atomic. */
void tester_result(struct channel *channel, uint32_t psn, uint64_t original);

/* Packets sent between these two calls reach the device as one batch. */
void tester_hold(struct channel *channel);
void tester_release(struct channel *channel);

/* Returns a request of the tester with the next PSN, for the device's memory at offset `at`. */
struct roce tester_request(struct channel *channel, unsigned opcode, size_t at, size_t length);
/* Returns a payload of IBTA_MTU + 4 bytes, all `byte`. */
const uint8_t *payload_of(uint8_t byte);

/* ---- Waiting ---- */

/* Return the device's next packet or completion that was not returned before; NULL if none arrives within this time. */
const struct entry *next_packet(struct channel *channel, uint64_t within);
const struct entry *next_completion(struct channel *channel, uint64_t within);
/* Like next_...(), for packets and completions that the device should produce immediately. */
const struct entry *prompt_packet(struct channel *channel);
const struct entry *prompt_completion(struct channel *channel);
/* Waits for this time. Packets and completions that arrive are recorded. */
void linger(struct channel *channel, uint64_t time);
/* Waits so long that a packet which must not be sent would have arrived. */
void linger_briefly(struct channel *channel);

#endif
