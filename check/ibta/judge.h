/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * judge.h - checks the record of a conversation against the rules of the specification. A judge reads only the record.
 *
 * The first fault is reported. test_ibta.c shows for each rule that it detects a fault.
 */
#ifndef IBTA_JUDGE_H
#define IBTA_JUDGE_H

#include "record.h"

enum rule {
    RULE_NONE,
    RULE_FORM,        /* all packets of the device are well-formed */
    RULE_COUNT,       /* a request was sent the required number of times */
    RULE_INTERVAL,    /* it was retransmitted after at least T and at most 4 T */
    RULE_PAUSE,       /* a step took a time within its bounds */
    RULE_SAME,        /* a retransmission is the same request */
    RULE_REQUESTS,    /* the device sent these requests */
    RULE_ANSWERS,     /* the device sent these responses */
    RULE_COMPLETIONS, /* the device reported these completions */
    RULE_QUIET,       /* the device sent nothing after an error */
    RULE_NOTE,        /* memory and states have the required values */
    RULES
};

/* The judgement of one record. Owned by the caller. */
struct judge {
    const struct record *record;
    enum rule broken; /* RULE_NONE: no fault so far */
    char why[200];
    uint64_t early_by; /* ns; not 0 if the only fault is a time that is too short */
};

struct judge judge_new(const struct record *record);
const char *rule_name(enum rule rule);

void judge_form(struct judge *judge);
/* Counts the device's requests with this PSN (and opcode, if that is not ROCE_NO_OPCODE). */
void judge_count(struct judge *judge, uint32_t psn, unsigned opcode, unsigned count);
/* Checks the time from each transmission of this PSN to the next, and from the last to the completion with an error. */
void judge_intervals(struct judge *judge, uint32_t psn);
void judge_same(struct judge *judge, uint32_t psn);
/* Checks that each transmission of this PSN has this number of bytes of payload. */
void judge_payload(struct judge *judge, uint32_t psn, size_t length);
/* Checks the time between two entries, in nanoseconds. NULL: the entry is missing, which is a fault. */
void judge_pause(struct judge *judge, const struct entry *from, const struct entry *to, uint64_t least,
                 uint64_t most);

struct expected_packet {
    unsigned opcode;
    uint32_t psn;
    int syndrome; /* -1: any, or none */
    uint32_t msn;
    uint64_t original; /* of an atomic's result */
};
/* Check that the device sent exactly these packets, in this order. msn and original are compared if a response has
 * them. */
void judge_requests(struct judge *judge, const struct expected_packet *expected, unsigned count);
void judge_answers(struct judge *judge, const struct expected_packet *expected, unsigned count);

struct expected_completion {
    uint64_t id;
    enum ibv_wc_status status;
};
void judge_completions(struct judge *judge, const struct expected_completion *expected, unsigned count);
/* Checks that no packet of the device arrived after its first completion with an error. */
void judge_quiet_after_error(struct judge *judge);
void judge_note(struct judge *judge, const char *name, uint64_t value);

/* Find entries, for a report: the n-th transmission of a PSN, the completion with an error, the last note of a name.
 * Return NULL if there is none. */
const struct entry *record_transmission(const struct record *record, uint32_t psn, unsigned n);
const struct entry *record_error(const struct record *record);
const struct entry *record_note_of(const struct record *record, const char *name);

#endif
