/* SPDX-License-Identifier: BSD-2-Clause */
/* talk.c - the actions of conversations on a channel, each of which is recorded. */
#include <errno.h>
#include <string.h>
#include "talk.h"

static void lock(struct channel *channel)
{
    pthread_mutex_lock(&channel->bench->lock);
}

static void unlock(struct channel *channel)
{
    pthread_mutex_unlock(&channel->bench->lock);
}

static uint64_t now(struct channel *channel)
{
    return channel->bench->now(channel->bench);
}

static void keep(struct channel *channel, enum entry_kind kind, const char *name, uint64_t value)
{
    struct entry *entry;

    lock(channel);
    entry = record_event(&channel->record, kind, now(channel));
    if (entry != NULL) {
        entry->name = name;
        entry->value = value;
    }
    unlock(channel);
}

/* ---- The device under test ---- */

void dut_post(struct channel *channel, uint64_t id, enum ibv_wr_opcode opcode, size_t length)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)channel->memory, .length = (uint32_t)length, .lkey = channel->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = id,
                             .sg_list = &sge,
                             .num_sge = length > 0,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad = NULL;
    int error;

    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        wr.wr.atomic.remote_addr = REMOTE_VA;
        wr.wr.atomic.rkey = REMOTE_RKEY;
        wr.wr.atomic.compare_add = 5;
        wr.wr.atomic.swap = 7;
    } else {
        wr.wr.rdma.remote_addr = REMOTE_VA;
        wr.wr.rdma.rkey = REMOTE_RKEY;
    }
    if (opcode == IBV_WR_SEND_WITH_INV)
        wr.invalidate_rkey = REMOTE_RKEY;
    keep(channel, ENTRY_POSTED, NULL, id);
    error = ibv_post_send(channel->qp, &wr, &bad);
    if (error != 0)
        bench_fail("ibv_post_send", error);
}

static void receive(struct channel *channel, uint64_t id, size_t at, size_t length, uint32_t lkey)
{
    struct ibv_sge sge = {.addr = (uintptr_t)channel->memory + at, .length = (uint32_t)length, .lkey = lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
    int error = ibv_post_recv(channel->qp, &wr, &bad);

    if (error != 0)
        bench_fail("ibv_post_recv", error);
}

void dut_receive(struct channel *channel, uint64_t id, size_t at, size_t length)
{
    receive(channel, id, at, length, channel->mr->lkey);
}

void dut_receive_elsewhere(struct channel *channel, uint64_t id)
{
    receive(channel, id, CHANNEL_MEMORY, IBTA_MTU, channel->mr->lkey);
}

void dut_note_state(struct channel *channel)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    int error = channel->bench->device->query_qp(channel->qp, &attr, IBV_QP_STATE, &init);

    if (error != 0)
        bench_fail("ibv_query_qp", error);
    keep(channel, ENTRY_NOTE, "state", attr.qp_state);
}

void dut_note_byte(struct channel *channel, const char *name, size_t at)
{
    keep(channel, ENTRY_NOTE, name, *(volatile uint8_t *)(channel->memory + at));
}

void dut_note_word(struct channel *channel, const char *name, size_t at)
{
    uint64_t word = __atomic_load_n((uint64_t *)(void *)(channel->memory + at), __ATOMIC_SEQ_CST);

    keep(channel, ENTRY_NOTE, name, word);
}

/* ---- The tester ---- */

static void break_packet(uint8_t *packet, enum damage damage)
{
    switch (damage) {
    case BAD_PKEY:
        packet[3] ^= 0x55;
        break;
    case BAD_VERSION:
        packet[1] |= 1;
        break;
    case BAD_QPN:
        packet[5] ^= 0x40; /* a number of no queue pair */
        packet[6] ^= 0x80;
        break;
    case BAD_TRANSPORT:
        packet[0] |= 0x20; /* an opcode of an unreliable connection */
        break;
    case INTACT:
    case BAD_CHECK:
        break;
    }
}

void tester_send(struct channel *channel, const struct roce *roce, enum damage damage)
{
    uint8_t packet[FRAME_MAX];
    struct roce whole = *roce;
    size_t length;

    whole.qpn = channel->record.dut_qpn;
    whole.psn = roce_psn(whole.psn);
    whole.pkey = 0xffff;
    whole.migreq = true;
    length = roce_write(packet, &whole);
    break_packet(packet, damage);
    frame_seal(&channel->bench->to_dut, packet, length);
    if (damage == BAD_CHECK)
        packet[length] ^= 1;
    lock(channel);
    record_packet(&channel->record, ENTRY_TO_DUT, now(channel), packet, length, damage != BAD_CHECK);
    unlock(channel);
    channel->bench->send(channel->bench, packet, length + FRAME_CHECK);
}

static void send_answer(struct channel *channel, struct roce answer)
{
    answer.msn = channel->msn & 0xffffff;
    tester_send(channel, &answer, INTACT);
}

void tester_acknowledge(struct channel *channel, uint32_t psn, uint8_t syndrome)
{
    channel->msn += syndrome == SYNDROME_ACK;
    send_answer(channel, (struct roce){.opcode = ACKNOWLEDGE, .psn = psn, .syndrome = syndrome});
}

void tester_respond(struct channel *channel, unsigned opcode, uint32_t psn, size_t length)
{
    channel->msn += opcode == READ_RESPONSE_FIRST || opcode == READ_RESPONSE_ONLY;
    send_answer(channel, (struct roce){.opcode = (uint8_t)opcode,
                                       .psn = psn,
                                       .syndrome = SYNDROME_ACK,
                                       .payload = payload_of(0xd0),
                                       .payload_length = length});
}

void tester_result(struct channel *channel, uint32_t psn, uint64_t original)
{
    channel->msn++;
    send_answer(channel,
                (struct roce){
                    .opcode = ATOMIC_ACKNOWLEDGE, .psn = psn, .syndrome = SYNDROME_ACK, .original = original});
}

void tester_hold(struct channel *channel)
{
    if (channel->bench->hold != NULL)
        channel->bench->hold(channel->bench);
}

void tester_release(struct channel *channel)
{
    if (channel->bench->release != NULL)
        channel->bench->release(channel->bench);
}

struct roce tester_request(struct channel *channel, unsigned opcode, size_t at, size_t length)
{
    bool has_payload = opcode != READ_REQUEST && opcode != COMPARE_SWAP && opcode != FETCH_ADD;

    return (struct roce){.opcode = (uint8_t)opcode,
                         .ackreq = true,
                         .psn = channel->next_psn,
                         .va = (uintptr_t)channel->memory + at,
                         .rkey = channel->mr->rkey,
                         .invalidate = channel->mr->rkey,
                         .dma_length = (uint32_t)length,
                         .payload = payload_of(0x11),
                         .payload_length = has_payload ? length : 0};
}

static uint8_t payloads[256][IBTA_MTU + 4];

static void fill_payloads(void)
{
    for (int byte = 0; byte < 256; byte++)
        memset(payloads[byte], byte, sizeof payloads[byte]);
}

const uint8_t *payload_of(uint8_t byte)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, fill_payloads);
    return payloads[byte];
}

/* ---- Waiting ---- */

static const struct entry *look(struct channel *channel, enum entry_kind kind, unsigned *seen, uint64_t within)
{
    const struct entry *entry;
    uint64_t until;

    lock(channel);
    until = now(channel) + within;
    while ((entry = record_next(&channel->record, kind, seen)) == NULL && now(channel) < until)
        channel->bench->wait(channel->bench, channel, until);
    unlock(channel);
    return entry;
}

const struct entry *next_packet(struct channel *channel, uint64_t within)
{
    return look(channel, ENTRY_FROM_DUT, &channel->seen_packets, within);
}

const struct entry *next_completion(struct channel *channel, uint64_t within)
{
    return look(channel, ENTRY_COMPLETION, &channel->seen_completions, within);
}

const struct entry *prompt_packet(struct channel *channel)
{
    return next_packet(channel, channel->bench->patience);
}

const struct entry *prompt_completion(struct channel *channel)
{
    return next_completion(channel, channel->bench->patience);
}

void linger(struct channel *channel, uint64_t time)
{
    uint64_t until;

    lock(channel);
    until = now(channel) + time;
    while (now(channel) < until)
        channel->bench->wait(channel->bench, channel, until);
    unlock(channel);
}

void linger_briefly(struct channel *channel)
{
    linger(channel, channel->bench->patience / 8);
}
