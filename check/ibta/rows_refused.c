/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rows_refused.c - responder: requests that it must refuse or ignore. Checks the syndrome of its NAK and its state
 * afterwards, or that it sends no response.
 */
#include "rows.h"

#define PACKETS 3
#define SILENCE (-1)
#define UNJUDGED (-1)
#define ALL_ACCESS                                                                                             \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define NO_WRITE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define NO_READ (ALL_ACCESS & ~IBV_ACCESS_REMOTE_READ)
#define NO_ATOMIC (ALL_ACCESS & ~IBV_ACCESS_REMOTE_ATOMIC)

enum lie { TRUTH, WRONG_KEY, BEHIND_END, AROUND_ZERO, ODD_ADDRESS, TOO_LONG };

/* A packet of the tester. */
struct said {
    uint8_t opcode;
    uint16_t length;     /* bytes of payload */
    uint16_t dma_length; /* length in the RETH, bytes */
    enum lie lie;
};

struct refused {
    const char *name;
    struct said said[PACKETS]; /* ends at the first with opcode and length 0; SEND FIRST always has a length */
    int syndrome;              /* of the last response, or SILENCE */
    int receive;               /* status of the posted receive, or UNJUDGED */
    uint16_t room;             /* bytes of that receive; 0: its key does not cover its memory */
    unsigned qp_access, mr_access;
    uint8_t reads; /* READs in flight that the device accepts, plus 1; 0: the default */
    enum damage damage;
};

#define MTU IBTA_MTU
#define ROOM (3 * MTU) /* bytes of a receive into which all messages fit */
#define INVALID SYNDROME_INVALID_REQUEST, UNJUDGED, ROOM, 0, 0, 0, INTACT
#define INVALIDATES SYNDROME_ACCESS, IBV_WC_REM_INV_REQ_ERR, ROOM, 0, 0, 0, INTACT
#define ACCESS SYNDROME_ACCESS, UNJUDGED, ROOM, 0, 0, 0, INTACT

static const struct refused table[] = {
    /* Order of opcodes in a message. */
    {"SEND MIDDLE without a FIRST", {{SEND_MIDDLE, MTU, 0, TRUTH}}, INVALID},
    {"SEND LAST without a FIRST", {{SEND_LAST, 8, 0, TRUTH}}, INVALID},
    {"WRITE MIDDLE without a FIRST", {{WRITE_MIDDLE, MTU, 0, TRUTH}}, INVALID},
    {"WRITE LAST without a FIRST", {{WRITE_LAST, 8, 0, TRUTH}}, INVALID},
    {"SEND FIRST in a SEND", {{SEND_FIRST, MTU, 0, TRUTH}, {SEND_FIRST, MTU, 0, TRUTH}}, INVALID},
    {"SEND ONLY in a SEND", {{SEND_FIRST, MTU, 0, TRUTH}, {SEND_ONLY, 8, 0, TRUTH}}, INVALID},
    {"WRITE MIDDLE in a SEND", {{SEND_FIRST, MTU, 0, TRUTH}, {WRITE_MIDDLE, MTU, 0, TRUTH}}, INVALID},
    {"SEND LAST in a WRITE", {{WRITE_FIRST, MTU, 2 * MTU, TRUTH}, {SEND_LAST, 8, 0, TRUTH}}, INVALID},
    {"READ in a SEND", {{SEND_FIRST, MTU, 0, TRUTH}, {READ_REQUEST, 0, 8, TRUTH}}, INVALID},
    {"FETCH ADD in a WRITE", {{WRITE_FIRST, MTU, 2 * MTU, TRUTH}, {FETCH_ADD, 0, 0, TRUTH}}, INVALID},
    {"SEND LAST INVALIDATE without a FIRST", {{SEND_LAST_INV, 8, 0, TRUTH}}, INVALID},
    {"SEND ONLY INVALIDATE in a SEND", {{SEND_FIRST, MTU, 0, TRUTH}, {SEND_ONLY_INV, 8, 0, TRUTH}}, INVALID},
    {"SEND LAST INVALIDATE in a WRITE",
     {{WRITE_FIRST, MTU, 2 * MTU, TRUTH}, {SEND_LAST_INV, 8, 0, TRUTH}},
     INVALID},
    {"an opcode that is reserved", {{0x1f, 8, 0, TRUTH}}, INVALID},
    /* Lengths. */
    {"FIRST of less than the MTU", {{SEND_FIRST, MTU - 4, 0, TRUTH}}, INVALID},
    {"MIDDLE of less than the MTU", {{SEND_FIRST, MTU, 0, TRUTH}, {SEND_MIDDLE, 8, 0, TRUTH}}, INVALID},
    {"LAST of nothing", {{WRITE_FIRST, MTU, MTU, TRUTH}, {WRITE_LAST, 0, 0, TRUTH}}, INVALID},
    {"ONLY of more than the MTU", {{SEND_ONLY, MTU + 4, 0, TRUTH}}, INVALID},
    {"WRITE of more than its RETH says", {{WRITE_ONLY, 16, 8, TRUTH}}, INVALID},
    {"WRITE of less than its RETH says", {{WRITE_ONLY, 8, 16, TRUTH}}, INVALID},
    {"WRITE of two packets, too much",
     {{WRITE_FIRST, MTU, MTU + 8, TRUTH}, {WRITE_LAST, 16, 0, TRUTH}},
     INVALID},
    {"WRITE of two packets, too little",
     {{WRITE_FIRST, MTU, MTU + 16, TRUTH}, {WRITE_LAST, 8, 0, TRUTH}},
     INVALID},
    {"READ of more than 2 GiB", {{READ_REQUEST, 0, 0, TOO_LONG}}, INVALID},
    {"SEND of more than the receive holds",
     {{SEND_ONLY, 32, 0, TRUTH}},
     SYNDROME_INVALID_REQUEST,
     IBV_WC_LOC_LEN_ERR,
     16,
     0,
     0,
     0,
     INTACT},
    {"SEND to a receive whose key is wrong",
     {{SEND_ONLY, 32, 0, TRUTH}},
     SYNDROME_OPERATION,
     IBV_WC_LOC_PROT_ERR,
     0,
     0,
     0,
     0,
     INTACT},
    /* Keys and bounds. */
    {"WRITE with a wrong key", {{WRITE_ONLY, 8, 8, WRONG_KEY}}, ACCESS},
    {"READ with a wrong key", {{READ_REQUEST, 0, 8, WRONG_KEY}}, ACCESS},
    {"FETCH ADD with a wrong key", {{FETCH_ADD, 0, 0, WRONG_KEY}}, ACCESS},
    {"WRITE behind the end", {{WRITE_ONLY, 8, 8, BEHIND_END}}, ACCESS},
    {"READ behind the end", {{READ_REQUEST, 0, 8, BEHIND_END}}, ACCESS},
    {"FETCH ADD behind the end", {{FETCH_ADD, 0, 0, BEHIND_END}}, ACCESS},
    {"WRITE around address 0", {{WRITE_ONLY, 16, 16, AROUND_ZERO}}, ACCESS},
    {"READ around address 0", {{READ_REQUEST, 0, 16, AROUND_ZERO}}, ACCESS},
    {"FETCH ADD at an odd address", {{FETCH_ADD, 0, 0, ODD_ADDRESS}}, INVALID},
    {"COMPARE SWAP at an odd address", {{COMPARE_SWAP, 0, 0, ODD_ADDRESS}}, INVALID},
    {"SEND that invalidates a wrong key", {{SEND_ONLY_INV, 8, 0, WRONG_KEY}}, INVALIDATES},
    {"SEND that invalidates a region", {{SEND_ONLY_INV, 8, 0, TRUTH}}, INVALIDATES},
    {"SEND of two packets that invalidates a region",
     {{SEND_FIRST, MTU, 0, TRUTH}, {SEND_LAST_INV, 8, 0, TRUTH}},
     INVALIDATES},
    /* Access rights. */
    {"WRITE to a region for reading",
     {{WRITE_ONLY, 8, 8, TRUTH}},
     SYNDROME_ACCESS,
     UNJUDGED,
     ROOM,
     0,
     NO_WRITE,
     0,
     INTACT},
    {"READ of a region for writing",
     {{READ_REQUEST, 0, 8, TRUTH}},
     SYNDROME_ACCESS,
     UNJUDGED,
     ROOM,
     0,
     NO_READ,
     0,
     INTACT},
    {"FETCH ADD without the region's right",
     {{FETCH_ADD, 0, 0, TRUTH}},
     SYNDROME_ACCESS,
     UNJUDGED,
     ROOM,
     0,
     NO_ATOMIC,
     0,
     INTACT},
    {"WRITE without the queue pair's right",
     {{WRITE_ONLY, 8, 8, TRUTH}},
     SYNDROME_INVALID_REQUEST,
     UNJUDGED,
     ROOM,
     NO_WRITE,
     0,
     0,
     INTACT},
    {"READ without the queue pair's right",
     {{READ_REQUEST, 0, 8, TRUTH}},
     SYNDROME_INVALID_REQUEST,
     UNJUDGED,
     ROOM,
     NO_READ,
     0,
     0,
     INTACT},
    {"FETCH ADD without the queue pair's right",
     {{FETCH_ADD, 0, 0, TRUTH}},
     SYNDROME_INVALID_REQUEST,
     UNJUDGED,
     ROOM,
     NO_ATOMIC,
     0,
     0,
     INTACT},
    {"READ where none is agreed on",
     {{READ_REQUEST, 0, 8, TRUTH}},
     SYNDROME_INVALID_REQUEST,
     UNJUDGED,
     ROOM,
     0,
     0,
     1,
     INTACT},
    /* Packets for another queue pair, or corrupted packets. */
    {"SEND with a wrong ICRC", {{SEND_ONLY, 8, 0, TRUTH}}, SILENCE, UNJUDGED, ROOM, 0, 0, 0, BAD_CHECK},
    {"SEND with a wrong P_Key", {{SEND_ONLY, 8, 0, TRUTH}}, SILENCE, UNJUDGED, ROOM, 0, 0, 0, BAD_PKEY},
    {"SEND with a wrong version", {{SEND_ONLY, 8, 0, TRUTH}}, SILENCE, UNJUDGED, ROOM, 0, 0, 0, BAD_VERSION},
    {"SEND to a wrong queue pair", {{SEND_ONLY, 8, 0, TRUTH}}, SILENCE, UNJUDGED, ROOM, 0, 0, 0, BAD_QPN},
    {"SEND of another transport", {{SEND_ONLY, 8, 0, TRUTH}}, SILENCE, UNJUDGED, ROOM, 0, 0, 0, BAD_TRANSPORT},
};

static struct roce make(struct channel *channel, const struct said *said)
{
    struct roce packet = tester_request(channel, said->opcode, 0, 0);

    packet.payload_length = said->length;
    packet.dma_length = said->dma_length;
    switch (said->lie) {
    case WRONG_KEY:
        packet.rkey ^= 0xbad00;
        packet.invalidate ^= 0xbad00;
        break;
    case BEHIND_END:
        packet.va += CHANNEL_MEMORY;
        break;
    case AROUND_ZERO:
        packet.va = UINT64_MAX - 7;
        break;
    case ODD_ADDRESS:
        packet.va += 4;
        break;
    case TOO_LONG:
        packet.dma_length = 0x80000001;
        break;
    case TRUTH:
        break;
    }
    return packet;
}

/* Only the last packet requests an acknowledgement, so that there is only one response. */
static void talk_refused(struct channel *channel, const struct row *row)
{
    const struct refused *refused = row->data;
    unsigned count = 1;

    if (refused->room > 0)
        dut_receive(channel, 1, MTU, refused->room);
    else
        dut_receive_elsewhere(channel, 1);
    while (count < PACKETS && (refused->said[count].opcode != 0 || refused->said[count].length != 0))
        count++;
    for (unsigned i = 0; i < count; i++) {
        struct roce packet = make(channel, &refused->said[i]);

        packet.ackreq = i + 1 == count;
        channel->next_psn++;
        tester_send(channel, &packet, refused->damage);
    }
    if (refused->syndrome != SILENCE)
        prompt_packet(channel);
    linger_briefly(channel);
    dut_note_state(channel);
    dut_note_word(channel, "memory behind", 12 * MTU);
    if (refused->syndrome == SILENCE) { /* the responder must still accept a valid packet */
        struct roce packet = make(channel, &refused->said[0]);

        packet.psn = row->terms.tester_psn;
        tester_send(channel, &packet, INTACT);
        prompt_packet(channel);
        linger_briefly(channel);
    }
}

static unsigned last_psn(const struct refused *refused)
{
    return refused->said[1].opcode != 0 || refused->said[1].length != 0;
}

/* A length above 2 GiB also exceeds the region. The device may report either error. */
static int syndrome_due(const struct record *record, const struct refused *refused)
{
    const struct entry *entry;
    unsigned at = 0;

    if (refused->said[0].lie == TOO_LONG && (entry = record_next(record, ENTRY_FROM_DUT, &at)) != NULL &&
        entry->roce.syndrome == SYNDROME_ACCESS)
        return SYNDROME_ACCESS;
    return refused->syndrome;
}

static void judge_receive(struct judge *judge, const struct refused *refused)
{
    if (refused->receive != UNJUDGED)
        judge_completions(judge, &(struct expected_completion){1, (enum ibv_wc_status)refused->receive}, 1);
}

static void judge_refused(struct judge *judge, const struct row *row)
{
    const struct refused *refused = row->data;
    struct expected_packet expected = {ACKNOWLEDGE, row->terms.tester_psn + last_psn(refused),
                                       .syndrome = syndrome_due(judge->record, refused)};

    judge_form(judge);
    if (refused->syndrome == SILENCE) {
        expected.syndrome = SYNDROME_ACK;
        expected.msn = 1;
    }
    judge_answers(judge, &expected, 1);
    judge_receive(judge, refused);
    judge_note(judge, "state", refused->syndrome == SILENCE ? IBV_QPS_RTS : IBV_QPS_ERR);
    judge_note(judge, "memory behind", 0);
}

void rows_refused(struct rows *rows)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct refused *refused = &table[i];
        struct row *row = rows_add(rows, refused->syndrome == SILENCE ? "take no notice" : "refuse",
                                   talk_refused, judge_refused, "%s", refused->name);

        row->data = refused;
        if (refused->qp_access != 0)
            row->terms.qp_access = refused->qp_access;
        if (refused->mr_access != 0)
            row->terms.mr_access = refused->mr_access;
        if (refused->reads != 0)
            row->terms.max_dest_rd_atomic = refused->reads - 1u;
    }
}
