/* SPDX-License-Identifier: BSD-2-Clause */
/* judge.c - the rules; see judge.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "judge.h"

struct judge judge_new(const struct record *record)
{
    return (struct judge){.record = record};
}

const char *rule_name(enum rule rule)
{
    static const char *const names[RULES] = {
        [RULE_NONE] = "none",         [RULE_FORM] = "form",
        [RULE_COUNT] = "count",       [RULE_INTERVAL] = "interval",
        [RULE_PAUSE] = "pause",       [RULE_SAME] = "same",
        [RULE_REQUESTS] = "requests", [RULE_ANSWERS] = "answers",
        [RULE_QUIET] = "quiet",       [RULE_COMPLETIONS] = "completions",
        [RULE_NOTE] = "note",
    };

    return names[rule];
}

/* Whether a fault may still be reported: the first fault is, except that any other fault replaces one that is only a
 * time which is too short. */
static bool is_open(const struct judge *judge)
{
    return judge->broken == RULE_NONE || judge->early_by > 0;
}

__attribute__((format(printf, 3, 4))) static void broken(struct judge *judge, enum rule rule,
                                                         const char *format, ...)
{
    va_list arguments;

    if (!is_open(judge))
        return;
    judge->broken = rule;
    judge->early_by = 0;
    va_start(arguments, format);
    vsnprintf(judge->why, sizeof judge->why, format, arguments);
    va_end(arguments);
}

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

/* ---- Finding entries ---- */

const struct entry *record_transmission(const struct record *record, uint32_t psn, unsigned n)
{
    const struct entry *entry;
    unsigned at = 0;

    while ((entry = record_next(record, ENTRY_FROM_DUT, &at)) != NULL)
        if (entry->readable && !entry_is_answer(entry) && entry->roce.psn == roce_psn(psn) && n-- == 0)
            return entry;
    return NULL;
}

const struct entry *record_error(const struct record *record)
{
    const struct entry *entry;
    unsigned at = 0;

    while ((entry = record_next(record, ENTRY_COMPLETION, &at)) != NULL)
        if (entry->wc.status != IBV_WC_SUCCESS)
            return entry;
    return NULL;
}

const struct entry *record_note_of(const struct record *record, const char *name)
{
    const struct entry *entry;
    unsigned at = 0;

    while ((entry = record_next(record, ENTRY_NOTE, &at)) != NULL)
        if (strcmp(entry->name, name) == 0)
            return entry;
    return NULL;
}

/* ---- One packet ---- */

static bool has_zero_pad(const struct entry *entry)
{
    for (unsigned i = 1; i <= entry->roce.pad; i++)
        if (entry->bytes[entry->length - i] != 0)
            return false;
    return true;
}

/* Returns the fault of a packet, or NULL. */
static const char *fault(const struct record *record, const struct entry *entry)
{
    const struct roce *roce = &entry->roce;

    if (!entry->sealed)
        return "its ICRC is wrong";
    if (!entry->readable)
        return "it is too short for its headers, or its opcode is unknown";
    if (roce->version != 0)
        return "its transport header version is not 0";
    if (roce->pkey != 0xffff)
        return "its P_Key is not the default one";
    if (roce->qpn != record->tester_qpn)
        return "it is for another queue pair";
    if (roce->reserved != 0)
        return "reserved bits are set";
    if (entry->length % 4 != 0)
        return "it is not padded to four bytes";
    if (!has_zero_pad(entry))
        return "its pad is not zero";
    if (roce->payload_length > IBTA_MTU)
        return "it is longer than the path MTU";
    return NULL;
}

void judge_form(struct judge *judge)
{
    const struct entry *entry;
    const char *what;
    unsigned at = 0;

    while ((entry = record_next(judge->record, ENTRY_FROM_DUT, &at)) != NULL)
        if ((what = fault(judge->record, entry)) != NULL)
            broken(judge, RULE_FORM, "packet with opcode %02x, PSN %06x: %s", entry->roce.opcode,
                   entry->roce.psn, what);
}

/* ---- Retransmissions ---- */

void judge_count(struct judge *judge, uint32_t psn, unsigned opcode, unsigned count)
{
    const struct entry *entry;
    unsigned sent = 0;

    for (unsigned n = 0; (entry = record_transmission(judge->record, psn, n)) != NULL; n++)
        sent += opcode == ROCE_NO_OPCODE || entry->roce.opcode == opcode;
    if (sent != count)
        broken(judge, RULE_COUNT, "the request with PSN %06x came %u times, not %u", roce_psn(psn), sent,
               count);
}

static void judge_span(struct judge *judge, enum rule rule, uint64_t from, uint64_t to, uint64_t least,
                       uint64_t most)
{
    uint64_t took = to < from ? 0 : to - from;

    if (took < least) {
        if (!is_open(judge) || least - took <= judge->early_by)
            return;
        broken(judge, rule, "%.3f ms is too early: it must be %.3f ms at least", ms(took), ms(least));
        judge->early_by = least - took;
    } else if (took > most + judge->record->late) {
        broken(judge, rule, "%.3f ms is too late: it may be %.3f ms at most", ms(took), ms(most));
    }
}

void judge_intervals(struct judge *judge, uint32_t psn)
{
    uint64_t timeout = ack_timeout(&judge->record->terms);
    const struct entry *sent = record_transmission(judge->record, psn, 0), *next;

    if (sent == NULL)
        broken(judge, RULE_INTERVAL, "the request with PSN %06x never came", roce_psn(psn));
    for (unsigned n = 1; sent != NULL; n++, sent = next) {
        next = record_transmission(judge->record, psn, n);
        if (next != NULL)
            judge_span(judge, RULE_INTERVAL, sent->time, next->time, timeout, 4 * timeout);
        else if ((next = record_error(judge->record)) == NULL)
            broken(judge, RULE_INTERVAL, "no completion with an error after the last retry");
        else {
            judge_span(judge, RULE_INTERVAL, sent->time, next->time, timeout, 4 * timeout);
            break;
        }
    }
}

/* Whether two transmissions are the same request. Only the AckReq bit may be set later. */
static bool is_same(const struct entry *one, const struct entry *other)
{
    if (one->length != other->length)
        return false;
    for (size_t i = 0; i < one->length; i++)
        if (i != 8 && one->bytes[i] != other->bytes[i])
            return false;
    return true;
}

void judge_same(struct judge *judge, uint32_t psn)
{
    const struct entry *first = record_transmission(judge->record, psn, 0), *entry;

    for (unsigned n = 1; (entry = record_transmission(judge->record, psn, n)) != NULL; n++)
        if (!is_same(first, entry))
            broken(judge, RULE_SAME, "retry %u of the request with PSN %06x differs from the request", n,
                   roce_psn(psn));
}

void judge_payload(struct judge *judge, uint32_t psn, size_t length)
{
    const struct entry *entry;

    for (unsigned n = 0; (entry = record_transmission(judge->record, psn, n)) != NULL; n++)
        if (entry->roce.payload_length != length)
            broken(judge, RULE_REQUESTS, "the packet with PSN %06x has %zu bytes of payload, not %zu",
                   roce_psn(psn), entry->roce.payload_length, length);
}

void judge_pause(struct judge *judge, const struct entry *from, const struct entry *to, uint64_t least,
                 uint64_t most)
{
    if (from == NULL || to == NULL)
        broken(judge, RULE_PAUSE, "what a time was to be taken of is missing");
    else
        judge_span(judge, RULE_PAUSE, from->time, to->time, least, most);
}

/* ---- Order of packets and completions ---- */

static void judge_packet(struct judge *judge, enum rule rule, const struct roce *roce,
                         const struct expected_packet *expected)
{
    if (roce->opcode != expected->opcode || roce->psn != roce_psn(expected->psn))
        broken(judge, rule, "opcode %02x with PSN %06x came, not %02x with %06x", roce->opcode, roce->psn,
               expected->opcode, roce_psn(expected->psn));
    else if (expected->syndrome >= 0 && roce->syndrome != expected->syndrome)
        broken(judge, rule, "the answer at PSN %06x has syndrome %02x, not %02x", roce->psn, roce->syndrome,
               (unsigned)expected->syndrome);
    else if (roce->has_original && roce->original != expected->original)
        broken(judge, rule, "the result at PSN %06x is %" PRIu64 ", not %" PRIu64, roce->psn, roce->original,
               expected->original);
    else if (roce->has_aeth && !roce->has_original && roce->msn != expected->msn)
        broken(judge, rule, "the answer at PSN %06x has message number %u, not %u", roce->psn, roce->msn,
               expected->msn);
}

static void judge_packets(struct judge *judge, enum rule rule, bool answers,
                          const struct expected_packet *expected, unsigned count)
{
    const struct entry *entry;
    unsigned at = 0, seen = 0;

    while ((entry = record_next(judge->record, ENTRY_FROM_DUT, &at)) != NULL) {
        if (entry_is_answer(entry) != answers)
            continue;
        if (seen == count)
            broken(judge, rule, "a packet too many: opcode %02x, PSN %06x", entry->roce.opcode,
                   entry->roce.psn);
        else
            judge_packet(judge, rule, &entry->roce, &expected[seen++]);
    }
    if (seen < count)
        broken(judge, rule, "opcode %02x with PSN %06x did not come", expected[seen].opcode,
               roce_psn(expected[seen].psn));
}

void judge_requests(struct judge *judge, const struct expected_packet *expected, unsigned count)
{
    judge_packets(judge, RULE_REQUESTS, false, expected, count);
}

void judge_answers(struct judge *judge, const struct expected_packet *expected, unsigned count)
{
    judge_packets(judge, RULE_ANSWERS, true, expected, count);
}

void judge_completions(struct judge *judge, const struct expected_completion *expected, unsigned count)
{
    const struct entry *entry;
    unsigned at = 0, seen = 0;

    while ((entry = record_next(judge->record, ENTRY_COMPLETION, &at)) != NULL) {
        if (seen == count)
            broken(judge, RULE_COMPLETIONS, "a completion too many: work %" PRIu64 ", status %d",
                   entry->wc.wr_id, entry->wc.status);
        else if (entry->wc.wr_id != expected[seen].id || entry->wc.status != expected[seen].status)
            broken(judge, RULE_COMPLETIONS,
                   "work %" PRIu64 " completed with status %d where work %" PRIu64 " with status %d was due",
                   entry->wc.wr_id, entry->wc.status, expected[seen].id, expected[seen].status);
        seen++;
    }
    if (seen < count)
        broken(judge, RULE_COMPLETIONS, "work %" PRIu64 " did not complete (status %d was due)",
               expected[seen].id, expected[seen].status);
}

void judge_quiet_after_error(struct judge *judge)
{
    const struct entry *error = record_error(judge->record), *entry;
    unsigned at = 0;

    if (error == NULL) {
        broken(judge, RULE_QUIET, "no completion with an error");
        return;
    }
    while ((entry = record_next(judge->record, ENTRY_FROM_DUT, &at)) != NULL)
        if (entry->time > error->time)
            broken(judge, RULE_QUIET, "opcode %02x with PSN %06x came %.3f ms after the error",
                   entry->roce.opcode, entry->roce.psn, ms(entry->time - error->time));
}

void judge_note(struct judge *judge, const char *name, uint64_t value)
{
    const struct entry *note = record_note_of(judge->record, name);

    if (note == NULL)
        broken(judge, RULE_NOTE, "%s is not known", name);
    else if (note->value != value)
        broken(judge, RULE_NOTE, "%s is %#" PRIx64 ", not %#" PRIx64, name, note->value, value);
}
