/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * talk.h - the words a conversation is written in: what the device is told to do, what the tester sends, and
 * waiting.
 *
 * A conversation acts and waits; it judges nothing. Times are nanoseconds.
 */
#ifndef IBTA_TALK_H
#define IBTA_TALK_H

#include "bench.h"

#define REMOTE_VA 0x999000 /* where the device's one-sided work points to: nothing is there */
#define REMOTE_RKEY 0x12345
#define FOREVER (3600000 * IBTA_MS)

/* ---- The device under test ---- */

/* Posts work of `length` bytes from or to the start of the device's memory; signaled. */
void dut_post(struct channel *channel, uint64_t id, enum ibv_wr_opcode opcode, size_t length);
/* Posts a receive for `length` bytes at `at`. */
void dut_receive(struct channel *channel, uint64_t id, size_t at, size_t length);
/* The same, of memory that its key does not cover. */
void dut_receive_elsewhere(struct channel *channel, uint64_t id);
void dut_note_state(struct channel *channel); /* "state": of the queue pair */
void dut_note_byte(struct channel *channel, const char *name, size_t at);
void dut_note_word(struct channel *channel, const char *name, size_t at); /* 8 bytes in host order */

/* ---- The tester ---- */

enum damage { INTACT, BAD_CHECK, BAD_PKEY, BAD_VERSION, BAD_QPN, BAD_TRANSPORT };

/* Sends what is filled in; qpn, pkey and migreq are set here. */
void tester_send(struct channel *channel, const struct roce *roce, enum damage damage);
void tester_acknowledge(struct channel *channel, uint32_t psn, uint8_t syndrome);
/* An answer with `length` bytes of data. */
void tester_respond(struct channel *channel, unsigned opcode, uint32_t psn, size_t length);
/* The result of an atomic. */
void tester_result(struct channel *channel, uint32_t psn, uint64_t original);

/* What is sent between these two comes to the device in one breath. */
void tester_hold(struct channel *channel);
void tester_release(struct channel *channel);

/* A request of the tester to the start of the device's memory, plus `at`, with the next PSN. */
struct roce tester_request(struct channel *channel, unsigned opcode, size_t at, size_t length);
/* Bytes that payloads are made of: IBTA_MTU + 4 of them, all `byte`. */
const uint8_t *payload_of(uint8_t byte);

/* ---- Waiting ---- */

/* The device's next packet, or completion, that was not looked at yet: NULL when none has come in `within`. */
const struct entry *next_packet(struct channel *channel, uint64_t within);
const struct entry *next_completion(struct channel *channel, uint64_t within);
/* For what should come at once. */
const struct entry *prompt_packet(struct channel *channel);
const struct entry *prompt_completion(struct channel *channel);
/* Lets time pass, and keeps what comes. */
void linger(struct channel *channel, uint64_t time);
/* As long as it takes for something that must not come to have come. */
void linger_briefly(struct channel *channel);

#endif
