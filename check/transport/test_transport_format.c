/* SPDX-License-Identifier: BSD-2-Clause */
/* test_transport_format.c - the packets of a conversation without loss, bit by bit. */
#include <string.h>
#include "check/support/endpoints.h"

#define IMM 0xcafe0123u

/* The opcodes of an operation, and which of its packets have which headers. */
struct kind {
    enum ibv_wr_opcode operation;
    uint8_t first, middle, last, only;
    bool reth, imm, receive;
};

static const struct kind kinds[] = {
    {IBV_WR_SEND, SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY, false, false, true},
    {IBV_WR_SEND_WITH_IMM, SEND_FIRST, SEND_MIDDLE, SEND_LAST_IMM, SEND_ONLY_IMM, false, true, true},
    {IBV_WR_RDMA_WRITE, WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_ONLY, true, false, false},
    {IBV_WR_RDMA_WRITE_WITH_IMM, WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST_IMM, WRITE_ONLY_IMM, true, true, true},
};

static uint8_t opcode_at(uint32_t i, uint32_t count, uint8_t first, uint8_t middle, uint8_t last, uint8_t only)
{
    if (count == 1)
        return only;
    return i == 0 ? first : i == count - 1 ? last : middle;
}

static size_t payload_at(uint32_t i, uint32_t count, size_t length, size_t mtu)
{
    return i < count - 1 ? mtu : length - (size_t)(count - 1) * mtu;
}

/* Checks the fields that every packet has. */
static void check_common(const struct packet *packet, uint32_t qpn, uint32_t psn, size_t payload,
                         unsigned extension)
{
    const struct roce *roce = &packet->roce;
    expect(packet->readable, "packet %u cannot be read", packet->number);
    expect(roce->version == 0 && roce->pkey == 0xffff && roce->migreq, "packet %u: BTH", packet->number);
    expect(roce->congestion == 0 && roce->reserved == 0, "packet %u: reserved bits", packet->number);
    expect(roce->qpn == qpn, "packet %u: queue pair %06x, not %06x", packet->number, roce->qpn, qpn);
    expect(roce->psn == roce_psn(psn), "packet %u: PSN %06x, not %06x", packet->number, roce->psn,
           roce_psn(psn));
    expect(roce->payload_length == payload, "packet %u: %zu bytes, not %zu", packet->number,
           roce->payload_length, payload);
    expect(roce->pad == (-payload & 3), "packet %u: pad %u for %zu bytes", packet->number, roce->pad, payload);
    expect(packet->length == ROCE_BTH + extension + payload + roce->pad, "packet %u: length", packet->number);
    expect_byte(roce->payload + payload, roce->pad, 0);
}

static void check_reth(const struct roce *roce, const struct end *target, size_t offset, size_t length)
{
    ck_assert_uint_eq(roce->va, (uintptr_t)target->memory + offset);
    ck_assert_uint_eq(roce->rkey, target->rkey);
    ck_assert_uint_eq(roce->dma_length, length);
}

static unsigned extension_of(uint8_t opcode)
{
    return (unsigned)roce_extension(opcode);
}

/* Checks the packets of one SEND or WRITE, which are all that `a` sent. */
static void check_request(struct pair *pair, const struct kind *kind, size_t length, uint32_t psn,
                          bool solicited)
{
    struct end *a = &pair->end[0], *b = &pair->end[1];
    size_t mtu = mtu_bytes(pair->setup.mtu);
    uint32_t count = roce_packets(length, mtu);
    ck_assert_uint_eq(count_packets(pair->network, 0, ROCE_NO_OPCODE), count);
    for (uint32_t i = 0; i < count; i++) {
        const struct packet *packet = find_packet(pair->network, 0, ROCE_NO_OPCODE, i);
        uint8_t opcode = opcode_at(i, count, kind->first, kind->middle, kind->last, kind->only);
        bool last = i == count - 1;
        expect(packet->roce.opcode == opcode, "packet %u of %u: opcode %02x, not %02x", i, count,
               packet->roce.opcode, opcode);
        size_t payload = payload_at(i, count, length, mtu);
        check_common(packet, b->qpn, psn + i, payload, extension_of(opcode));
        expect(!memcmp(packet->roce.payload, a->memory + i * mtu, payload), "packet %u: payload", i);
        expect(packet->roce.has_reth == (kind->reth && i == 0), "packet %u: RETH", i);
        expect(packet->roce.has_imm == (kind->imm && last), "packet %u: immediate data", i);
        expect(packet->roce.solicited == (solicited && last), "packet %u: solicited event bit", i);
        if (last)
            expect(packet->roce.ackreq, "packet %u: no AckReq on the last of a message", i);
        if (packet->roce.has_reth)
            check_reth(&packet->roce, b, 64, length);
        if (packet->roce.has_imm)
            ck_assert_uint_eq(packet->roce.imm, htobe32(IMM));
    }
}

/* Checks all that was sent back: acknowledgements, the last one of the whole message. */
static void check_acknowledgements(struct pair *pair, uint32_t first_psn, uint32_t last_psn, uint32_t msn)
{
    unsigned count = count_packets(pair->network, 1, ROCE_NO_OPCODE);
    ck_assert_uint_ge(count, 1);
    uint32_t before = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct packet *packet = find_packet(pair->network, 1, ROCE_NO_OPCODE, i);
        ck_assert_uint_eq(packet->roce.opcode, ACKNOWLEDGE);
        check_common(packet, pair->end[0].qpn, packet->roce.psn, 0, ROCE_AETH);
        ck_assert_uint_eq(packet->roce.syndrome, SYNDROME_ACK);
        expect(!packet->roce.ackreq && !packet->roce.solicited, "an acknowledgement asks for nothing");
        uint32_t done = roce_psn(packet->roce.psn - first_psn), all = roce_psn(last_psn - first_psn);
        expect(done <= all && done >= before, "acknowledgement %u goes back", i);
        before = done;
        ck_assert_uint_eq(packet->roce.msn, done == all ? msn : msn - 1);
    }
    ck_assert_uint_eq(before, roce_psn(last_psn - first_psn));
}

static const size_t *sizes_for(size_t mtu, unsigned *count)
{
    static size_t sizes[12];
    const size_t all[] = {0, 1, 2, 3, 4, mtu - 1, mtu, mtu + 1, 2 * mtu, 2 * mtu + 2, 10 * mtu + 1, 1 << 20};
    memcpy(sizes, all, sizeof all);
    *count = 12;
    return sizes;
}

static void one_request(struct pair *pair, const struct kind *kind, size_t length, uint32_t *psn, uint32_t *msn)
{
    struct end *a = &pair->end[0], *b = &pair->end[1];
    bool solicited = *msn & 1;
    network_forget(pair->network);
    if (kind->receive)
        post_receive(b, 1, 0, pair->setup.memory);
    post(a, b,
         &(struct work){.id = *msn,
                        .opcode = kind->operation,
                        .length = length,
                        .target = 64,
                        .imm = htobe32(IMM),
                        .flags = IBV_SEND_SIGNALED | (solicited ? IBV_SEND_SOLICITED : 0)});
    run(pair);
    expect_wc(a->send_cq, *msn, IBV_WC_SUCCESS);
    uint32_t count = roce_packets(length, mtu_bytes(pair->setup.mtu));
    *msn = roce_psn(*msn + 1);
    check_request(pair, kind, length, *psn, solicited && kind->receive);
    check_acknowledgements(pair, *psn, *psn + count - 1, *msn);
    *psn = roce_psn(*psn + count);
}

START_TEST(sends_and_writes)
{
    struct setup setup = setup_default();
    setup.mtu = (enum ibv_mtu)_i;
    setup.psn[0] = 0xffffff - 7; /* wraps around soon */
    setup.memory = (1 << 20) + 4096;
    struct pair *pair = pair_new(&setup);
    uint32_t psn = setup.psn[0], msn = 0;
    unsigned sizes;
    const size_t *size = sizes_for(mtu_bytes(setup.mtu), &sizes);
    fill(pair->end[0].memory, setup.memory, 9);
    for (unsigned i = 0; i < sizes; i++)
        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
            one_request(pair, &kinds[kind], size[i], &psn, &msn);
    pair_free(pair);
}
END_TEST

/* ---- READ: the responses have the PSNs from their request's on ---- */

/* Checks the responses to one request, which are the ones from number `from` on. Returns their number. */
static uint32_t check_responses(struct pair *pair, unsigned from, const struct roce *request, uint32_t msn)
{
    size_t mtu = mtu_bytes(pair->setup.mtu);
    uint32_t count = roce_packets(request->dma_length, mtu);
    for (uint32_t i = 0; i < count; i++) {
        const struct packet *packet = find_packet(pair->network, 1, ROCE_NO_OPCODE, from + i);
        expect(packet, "response %u of %u is missing", i, count);
        uint8_t opcode = opcode_at(i, count, READ_RESPONSE_FIRST, READ_RESPONSE_MIDDLE, READ_RESPONSE_LAST,
                                   READ_RESPONSE_ONLY);
        expect(packet->roce.opcode == opcode, "response %u of %u: opcode %02x", i, count, packet->roce.opcode);
        size_t payload = payload_at(i, count, request->dma_length, mtu);
        check_common(packet, pair->end[0].qpn, request->psn + i, payload, extension_of(opcode));
        const uint8_t *asked = (const uint8_t *)(uintptr_t)request->va + i * mtu;
        expect(!memcmp(packet->roce.payload, asked, payload), "response %u: data", i);
        expect(!packet->roce.ackreq && !packet->roce.solicited, "response %u asks for nothing", i);
        if (packet->roce.has_aeth)
            expect(packet->roce.syndrome == SYNDROME_ACK && packet->roce.msn == msn, "response %u: AETH", i);
    }
    return count;
}

/* A long READ may be split into several requests, each of which has as many PSNs as its responses. Returns the number
 * of requests. */
static uint32_t check_read(struct pair *pair, size_t length, uint32_t psn, uint32_t msn)
{
    struct end *b = &pair->end[1];
    size_t asked = 0;
    uint32_t requests = 0, responses = 0;
    do {
        const struct packet *request = find_packet(pair->network, 0, ROCE_NO_OPCODE, requests++);
        expect(request && request->roce.opcode == READ_REQUEST, "request %u is missing", requests);
        check_common(request, b->qpn, psn + responses, 0, ROCE_RETH);
        ck_assert(!request->roce.solicited);
        check_reth(&request->roce, b, 64 + asked, request->roce.dma_length);
        asked += request->roce.dma_length;
        responses += check_responses(pair, responses, &request->roce, msn + requests);
    } while (asked < length);
    ck_assert_uint_eq(asked, length);
    ck_assert_uint_eq(responses, roce_packets(length, mtu_bytes(pair->setup.mtu)));
    ck_assert_uint_eq(count_packets(pair->network, 0, ROCE_NO_OPCODE), requests);
    ck_assert_uint_eq(count_packets(pair->network, 1, ROCE_NO_OPCODE), responses);
    return requests;
}

START_TEST(reads)
{
    struct setup setup = setup_default();
    setup.mtu = (enum ibv_mtu)_i;
    setup.psn[0] = 0xffffff - 3;
    setup.memory = (1 << 20) + 4096;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    uint32_t psn = setup.psn[0], msn = 0;
    unsigned sizes;
    const size_t *size = sizes_for(mtu_bytes(setup.mtu), &sizes);
    fill(b->memory, setup.memory, 10);
    for (unsigned i = 0; i < sizes; i++) {
        network_forget(pair->network);
        post(a, b,
             &(struct work){.id = i,
                            .opcode = IBV_WR_RDMA_READ,
                            .target = 64,
                            .length = size[i],
                            .flags = IBV_SEND_SIGNALED});
        run(pair);
        expect_done(a->send_cq, i, IBV_WC_RDMA_READ);
        uint32_t requests = check_read(pair, size[i], psn, msn);
        if (size[i] <= 4 * mtu_bytes(setup.mtu))
            ck_assert_uint_eq(requests, 1);
        msn += requests;
        psn = roce_psn(psn + roce_packets(size[i], mtu_bytes(setup.mtu)));
    }
    pair_free(pair);
}
END_TEST

/* One packet's bytes, without roce_read(). */
START_TEST(write_only_imm_byte_by_byte)
{
    struct setup setup = setup_default();
    setup.psn[0] = 0xabcdef;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    memcpy(a->memory, "hello", 5);
    post_receive(b, 1, 0, 0);
    post(a, b,
         &(struct work){.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                        .length = 5,
                        .imm = htobe32(0x01020304),
                        .flags = IBV_SEND_SOLICITED});
    run(pair);
    uint64_t va = (uintptr_t)b->memory;
    uint32_t qpn = b->qpn, rkey = b->rkey;
    const uint8_t bytes[] = {0x0b,
                             0x80 | 0x40 | 0x30,
                             0xff,
                             0xff,
                             0,
                             (uint8_t)(qpn >> 16),
                             (uint8_t)(qpn >> 8),
                             (uint8_t)qpn,
                             0x80,
                             0xab,
                             0xcd,
                             0xef,
                             (uint8_t)(va >> 56),
                             (uint8_t)(va >> 48),
                             (uint8_t)(va >> 40),
                             (uint8_t)(va >> 32),
                             (uint8_t)(va >> 24),
                             (uint8_t)(va >> 16),
                             (uint8_t)(va >> 8),
                             (uint8_t)va,
                             (uint8_t)(rkey >> 24),
                             (uint8_t)(rkey >> 16),
                             (uint8_t)(rkey >> 8),
                             (uint8_t)rkey,
                             0,
                             0,
                             0,
                             5,
                             1,
                             2,
                             3,
                             4,
                             'h',
                             'e',
                             'l',
                             'l',
                             'o',
                             0,
                             0,
                             0};
    const struct packet *packet = network_packet(pair->network, 0);
    ck_assert_uint_eq(packet->length, sizeof bytes);
    ck_assert_mem_eq(packet->bytes, bytes, sizeof bytes);
    ck_assert_uint_eq(network_packets(pair->network), 2);
    qpn = a->qpn;
    const uint8_t answer[] = {
        0x11, 0x40, 0xff, 0xff, 0, (uint8_t)(qpn >> 16), (uint8_t)(qpn >> 8), (uint8_t)qpn, 0, 0xab, 0xcd,
        0xef, 0x1f, 0,    0,    1};
    packet = network_packet(pair->network, 1);
    ck_assert_uint_eq(packet->length, sizeof answer);
    ck_assert_mem_eq(packet->bytes, answer, sizeof answer);
    pair_free(pair);
}
END_TEST

/* A long message requests acknowledgements before its end; otherwise a full window would never open again. */
START_TEST(long_messages_ask_on_their_way)
{
    struct setup setup = setup_default();
    setup.memory = 1 << 20;
    struct pair *pair = pair_new(&setup);
    post(&pair->end[0], &pair->end[1], &(struct work){.opcode = IBV_WR_RDMA_WRITE, .length = 1 << 20});
    run(pair);
    unsigned silent = 0;
    for (unsigned i = 0; i < network_packets(pair->network); i++) {
        const struct packet *packet = network_packet(pair->network, i);
        if (packet->from == 0)
            silent = packet->roce.ackreq ? 0 : silent + 1;
        expect(silent <= 64, "packet %u: 64 packets without AckReq", i);
    }
    pair_free(pair);
}
END_TEST

/* The PSN of a request behind a READ follows those of its responses. */
START_TEST(psns_behind_a_read)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    post(a, b, &(struct work){.opcode = IBV_WR_RDMA_READ, .length = 5 * 1024 + 1});
    post(a, b, &(struct work){.opcode = IBV_WR_RDMA_WRITE, .length = 1});
    post(a, b, &(struct work){.opcode = IBV_WR_RDMA_READ, .length = 0});
    post(a, b, &(struct work){.opcode = IBV_WR_RDMA_WRITE, .length = 1});
    run(pair);
    ck_assert_uint_eq(find_packet(pair->network, 0, READ_REQUEST, 0)->roce.psn, a->psn);
    ck_assert_uint_eq(find_packet(pair->network, 0, WRITE_ONLY, 0)->roce.psn, a->psn + 6);
    ck_assert_uint_eq(find_packet(pair->network, 0, READ_REQUEST, 1)->roce.psn, a->psn + 7);
    ck_assert_uint_eq(find_packet(pair->network, 0, WRITE_ONLY, 1)->roce.psn, a->psn + 8);
    pair_free(pair);
}
END_TEST

/* No more READs are outstanding than the responder has resources for. */
START_TEST(reads_outstanding)
{
    struct setup setup = setup_default();
    setup.max_rd_atomic = (uint8_t)_i;
    setup.memory = 1 << 20;
    struct pair *pair = pair_new(&setup);
    fill(pair->end[1].memory, setup.memory, 1);
    for (uint64_t i = 0; i < 20; i++)
        post(&pair->end[0], &pair->end[1],
             &(struct work){.id = i,
                            .opcode = IBV_WR_RDMA_READ,
                            .at = 3000 * i,
                            .target = 3000 * i,
                            .length = 3000,
                            .flags = IBV_SEND_SIGNALED});
    run(pair);
    int outstanding = 0, most = 0;
    for (unsigned i = 0; i < network_packets(pair->network); i++) {
        uint8_t opcode = network_packet(pair->network, i)->roce.opcode;
        outstanding += opcode == READ_REQUEST;
        outstanding -= opcode == READ_RESPONSE_LAST;
        most = outstanding > most ? outstanding : most;
    }
    ck_assert_int_eq(most, _i);
    for (uint64_t i = 0; i < 20; i++)
        expect_done(pair->end[0].send_cq, i, IBV_WC_RDMA_READ);
    expect(filled(pair->end[0].memory, 60000, 1), "the data differ");
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: format");
    TCase *tcase = new_case(suite, "wire");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, sends_and_writes, IBV_MTU_256, IBV_MTU_4096 + 1);
    tcase_add_loop_test(tcase, reads, IBV_MTU_256, IBV_MTU_4096 + 1);
    tcase_add_test(tcase, write_only_imm_byte_by_byte);
    tcase_add_test(tcase, long_messages_ask_on_their_way);
    tcase_add_test(tcase, psns_behind_a_read);
    tcase_add_loop_test(tcase, reads_outstanding, 1, 9);
    return run_suite(suite);
}
