/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * judge.h - what the specification asks of a conversation, rule by rule, looked for in its record and nowhere
 * else.
 *
 * The first fault is told. test_ibta.c shows for each rule that it can be.
 */
#ifndef IBTA_JUDGE_H
#define IBTA_JUDGE_H

#include "record.h"

enum rule {
    RULE_NONE,
    RULE_FORM,        /* every packet of the device is well made */
    RULE_COUNT,       /* a request was sent as often as it must be */
    RULE_INTERVAL,    /* repeated after no less than T and no more than 4 T */
    RULE_PAUSE,       /* something took no less and no more than it may */
    RULE_SAME,        /* a request that is repeated is the same request */
    RULE_REQUESTS,    /* the device's requests are these */
    RULE_ANSWERS,     /* the device's answers are these */
    RULE_COMPLETIONS, /* the device's completions are these */
    RULE_QUIET,       /* the device says nothing more */
    RULE_NOTE,        /* memory and states are as they must be */
    RULES
};

/* One judgement; the caller's. */
struct judge {
    const struct record *record;
    enum rule broken; /* RULE_NONE: it holds so far */
    char why[200];
    uint64_t early_by; /* ns, where a time too short is all that is wrong */
};

struct judge judge_new(const struct record *record);
const char *rule_name(enum rule rule);

void judge_form(struct judge *judge);
/* Requests of the device with this PSN (and opcode, if it is not ROCE_NO_OPCODE). */
void judge_count(struct judge *judge, uint32_t psn, unsigned opcode, unsigned count);
/* From each transmission of this PSN to the next, and from the last to the completion with an error. */
void judge_intervals(struct judge *judge, uint32_t psn);
void judge_same(struct judge *judge, uint32_t psn);
/* Each transmission of this PSN has so many bytes of payload. */
void judge_payload(struct judge *judge, uint32_t psn, size_t length);
/* From entry to entry, either NULL where it is missing. Nanoseconds. */
void judge_pause(struct judge *judge, const struct entry *from, const struct entry *to, uint64_t least,
                 uint64_t most);

struct expected_packet {
    unsigned opcode;
    uint32_t psn;
    int syndrome; /* -1: any, or none */
    uint32_t msn;
    uint64_t original; /* of an atomic's result */
};
/* All of them, in this order, and no other; msn and original are looked at where an answer has them. */
void judge_requests(struct judge *judge, const struct expected_packet *expected, unsigned count);
void judge_answers(struct judge *judge, const struct expected_packet *expected, unsigned count);

struct expected_completion {
    uint64_t id;
    enum ibv_wc_status status;
};
void judge_completions(struct judge *judge, const struct expected_completion *expected, unsigned count);
/* No packet of the device arrived later than its first completion with an error. */
void judge_quiet_after_error(struct judge *judge);
void judge_note(struct judge *judge, const char *name, uint64_t value);

/* What a report prints: the n-th transmission of a PSN, the completion with an error, each NULL when missing.
 */
const struct entry *record_transmission(const struct record *record, uint32_t psn, unsigned n);
const struct entry *record_error(const struct record *record);
const struct entry *record_note_of(const struct record *record, const char *name);

#endif
