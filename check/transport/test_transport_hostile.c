/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_hostile.c - malformed packets, and packets for other queue pairs: they are counted, and change nothing
 * else.
 */
#include <string.h>
#include "check/support/endpoints.h"

#define MTU 1024

/* An engine at node 0 that expects packets of node 1, which the test plays ("ghost"). */
static struct pair *with_a_ghost(void)
{
    struct setup setup = setup_default();
    setup.ghost = true;
    struct pair *pair = pair_new(&setup);
    for (uint64_t i = 0; i < 4; i++)
        post_receive(&pair->end[0], i, 4096, 4096);
    return pair;
}

/* A packet that the engine accepts if it is not changed: the next PSN, the right key, in range. */
static size_t good_packet(struct pair *pair, uint8_t *packet, uint8_t opcode)
{
    static uint8_t data[MTU];
    struct end *a = &pair->end[0];
    bool full = opcode == SEND_FIRST || opcode == SEND_MIDDLE || opcode == WRITE_FIRST ||
                opcode == WRITE_MIDDLE || opcode == READ_RESPONSE_FIRST || opcode == READ_RESPONSE_MIDDLE;
    struct roce roce = {.opcode = opcode,
                        .migreq = true,
                        .ackreq = true,
                        .pkey = 0xffff,
                        .qpn = a->qpn,
                        .psn = pair->setup.psn[1],
                        .va = (uintptr_t)a->memory + 20000,
                        .rkey = a->rkey,
                        .dma_length = full ? 2 * MTU : 100,
                        .syndrome = SYNDROME_ACK,
                        .payload = data,
                        .payload_length = full                                              ? MTU
                                          : opcode == READ_REQUEST || opcode == ACKNOWLEDGE ? 0
                                                                                            : 100};
    memset(data, 0xdd, sizeof data);
    return roce_write(packet, &roce);
}

/* Nothing was written, sent, or completed, and the next valid SEND is received with the PSN that was expected. */
static void expect_untouched(struct pair *pair)
{
    struct end *a = &pair->end[0];
    uint8_t packet[ROCE_MAX];
    run(pair);
    expect_byte(a->memory, a->size, 0);
    expect_quiet(pair);
    expect(network_packets(pair->network) == 0, "%u packets came back", network_packets(pair->network));
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_RTS);
    size_t length = good_packet(pair, packet, SEND_ONLY);
    network_inject(pair->network, 1, 0, packet, length);
    expect_wc(a->recv_cq, 0, IBV_WC_SUCCESS);
    const struct packet *answer = network_packet(pair->network, 0);
    ck_assert_ptr_nonnull(answer);
    ck_assert_uint_eq(answer->roce.syndrome, SYNDROME_ACK);
    ck_assert_uint_eq(answer->roce.msn, 1);
    pair_free(pair);
}

START_TEST(truncated_headers)
{
    struct pair *pair = with_a_ghost();
    uint8_t packet[ROCE_MAX];
    uint64_t count = 0;
    for (unsigned opcode = SEND_FIRST; opcode <= ACKNOWLEDGE; opcode++) {
        good_packet(pair, packet, (uint8_t)opcode);
        for (size_t length = 0; length < (size_t)(ROCE_BTH + roce_extension(opcode)); length++, count++)
            network_inject(pair->network, 1, 0, packet, length);
    }
    ck_assert_uint_eq(counters_of(&pair->end[0]).malformed, count);
    expect_untouched(pair);
}
END_TEST

/* Packets that end within the payload are refused or dropped. A SEND is not tested, since any shorter length is valid
 * for it: in reality the ICRC detects that. */
START_TEST(truncated_payload)
{
    static const uint8_t opcodes[] = {SEND_FIRST, WRITE_FIRST, WRITE_ONLY, WRITE_ONLY_IMM};
    uint8_t opcode = opcodes[_i];
    struct setup setup = setup_default();
    setup.ghost = true;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0];
    uint8_t packet[ROCE_MAX];
    size_t full = good_packet(pair, packet, opcode);
    size_t headers = ROCE_BTH + (size_t)roce_extension(opcode);
    for (size_t length = headers; length < full; length++) {
        pair_renew(pair);
        post_receive(a, 1, 4096, 4096);
        good_packet(pair, packet, opcode);
        network_inject(pair->network, 1, 0, packet, length);
        struct ibv_wc wc;
        if (ibv_poll_cq(a->recv_cq, 1, &wc))
            expect(wc.status != IBV_WC_SUCCESS, "a packet cut to %zu bytes was taken", length);
        expect_none(a->recv_cq);
        expect_byte(a->memory, a->size, 0);
        const struct packet *answer = network_packet(pair->network, 0);
        expect(!answer || answer->roce.syndrome != SYNDROME_ACK, "cut to %zu bytes, and acknowledged", length);
    }
    struct soft_counters counters = counters_of(a);
    ck_assert_uint_eq(counters.malformed + counters.naks_sent, full - headers);
    pair_free(pair);
}
END_TEST

START_TEST(wrong_version)
{
    struct pair *pair = with_a_ghost();
    uint8_t packet[ROCE_MAX];
    for (uint8_t version = 1; version < 16; version++) {
        size_t length = good_packet(pair, packet, SEND_ONLY);
        packet[1] |= version;
        network_inject(pair->network, 1, 0, packet, length);
    }
    ck_assert_uint_eq(counters_of(&pair->end[0]).malformed, 15);
    expect_untouched(pair);
}
END_TEST

/* Opcodes that no reliable connection has, because they belong to other transports. (Reserved opcodes are refused,
 * which the transport tester checks.) */
static bool foreign(unsigned opcode)
{
    if (opcode == 0x81) /* a congestion notification is accepted and ignored */
        return false;
    return opcode >= 0x20;
}

START_TEST(unknown_opcodes)
{
    struct pair *pair = with_a_ghost();
    uint8_t packet[ROCE_MAX];
    uint64_t count = 0;
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        if (!foreign(opcode))
            continue;
        size_t length = good_packet(pair, packet, WRITE_ONLY_IMM);
        packet[0] = (uint8_t)opcode;
        network_inject(pair->network, 1, 0, packet, length);
        count++;
    }
    ck_assert_uint_eq(counters_of(&pair->end[0]).malformed, count);
    expect_untouched(pair);
}
END_TEST

START_TEST(unknown_queue_pairs)
{
    struct pair *pair = with_a_ghost();
    uint8_t packet[ROCE_MAX];
    for (unsigned bit = 0; bit < 24; bit++) {
        size_t length = good_packet(pair, packet, SEND_ONLY);
        packet[5 + bit / 8] ^= (uint8_t)(1 << bit % 8);
        network_inject(pair->network, 1, 0, packet, length);
    }
    ck_assert_uint_eq(counters_of(&pair->end[0]).malformed, 24);
    expect_untouched(pair);
}
END_TEST

/* From an address that is not the peer's, or to one that is not this context's. */
START_TEST(wrong_addresses)
{
    struct pair *pair = with_a_ghost();
    unsigned stranger = network_add_ghost(pair->network);
    uint8_t packet[ROCE_MAX];
    struct soft_path path, strange;
    size_t length = good_packet(pair, packet, SEND_ONLY);
    network_path(pair->network, 0, stranger, &path);
    network_inject_on(pair->network, 0, &path, packet, length);
    network_path(pair->network, 0, 1, &path);
    network_path(pair->network, stranger, 1, &strange);
    path.local = strange.local;
    network_inject_on(pair->network, 0, &path, packet, length);
    network_path(pair->network, 0, 1, &path); /* the other address family */
    path.remote.in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    network_inject_on(pair->network, 0, &path, packet, length);
    struct soft_counters counters = counters_of(&pair->end[0]);
    ck_assert_uint_eq(counters.refused + counters.malformed, 3);
    expect_untouched(pair);
}
END_TEST

/* Is the next valid packet received if it comes from this UDP port of the peer's host? */
static bool taken_from_port(struct pair *pair, uint16_t port)
{
    struct end *a = &pair->end[0];
    uint64_t refused = counters_of(a).refused;
    uint8_t packet[ROCE_MAX];
    struct soft_path path;
    struct ibv_wc wc;
    size_t length = good_packet(pair, packet, SEND_ONLY);
    network_path(pair->network, 0, 1, &path);
    path.remote.in.sin_port = htons(port); /* at the same offset in sockaddr_in6 */
    network_inject_on(pair->network, 0, &path, packet, length);
    bool taken = ibv_poll_cq(a->recv_cq, 1, &wc) == 1;
    ck_assert_uint_eq(counters_of(a).refused, refused + !taken);
    return taken;
}

/* A peer that is reached at RoCE's port may send from any port, as adapters do to spread the load. */
START_TEST(any_udp_port)
{
    struct pair *pair = with_a_ghost();
    ck_assert(taken_from_port(pair, 12345));
    pair_free(pair);
}
END_TEST

/* A peer with a port of its own sends from there; packets from another port of its host are not from the peer. */
START_TEST(only_the_peers_udp_port)
{
    static const uint16_t others[] = {0, 1, 4791, 39999, 40001, 65535};
    struct setup setup = setup_default();
    setup.ghost = true;
    setup.family = _i ? AF_INET6 : AF_INET;
    struct pair *pair = pair_new(&setup);
    struct soft_path path;
    post_receive(&pair->end[0], 0, 4096, 4096);
    network_path(pair->network, 0, 1, &path);
    path.remote.in.sin_port = htons(40000);
    soft_set_path(pair->end[0].qp, &path);
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        expect(!taken_from_port(pair, others[i]), "from port %u", others[i]);
    ck_assert(taken_from_port(pair, 40000));
    pair_free(pair);
}
END_TEST

START_TEST(wrong_partition)
{
    struct pair *pair = with_a_ghost();
    uint8_t packet[ROCE_MAX];
    for (unsigned bit = 0; bit < 15; bit++) { /* the low 15 bits are the partition */
        size_t length = good_packet(pair, packet, SEND_ONLY);
        packet[bit < 8 ? 3 : 2] ^= (uint8_t)(1 << bit % 8);
        network_inject(pair->network, 1, 0, packet, length);
    }
    struct soft_counters counters = counters_of(&pair->end[0]);
    ck_assert_uint_eq(counters.refused + counters.malformed, 15);
    expect_untouched(pair);
}
END_TEST

/* A pad count that is larger than the payload. */
START_TEST(impossible_pad)
{
    struct pair *pair = with_a_ghost();
    uint8_t packet[ROCE_MAX];
    good_packet(pair, packet, SEND_ONLY);
    for (uint8_t pad = 1; pad < 4; pad++)
        for (size_t payload = 0; payload < pad; payload++) {
            packet[1] = (uint8_t)(0x40 | pad << 4);
            network_inject(pair->network, 1, 0, packet, ROCE_BTH + payload);
        }
    ck_assert_uint_eq(counters_of(&pair->end[0]).malformed, 6);
    expect_untouched(pair);
}
END_TEST

/* Bits that a receiver ignores: MigReq, FECN, BECN, reserved. */
START_TEST(reserved_bits_are_ignored)
{
    struct pair *pair = with_a_ghost();
    struct end *a = &pair->end[0];
    uint8_t packet[ROCE_MAX];
    for (unsigned i = 0; i < 3; i++) {
        size_t length = good_packet(pair, packet, SEND_ONLY);
        packet[1] &= (uint8_t)(i == 0 ? ~0x40 : 0xff);
        packet[4] = i == 1 ? 0xff : 0;
        packet[8] |= i == 2 ? 0x7f : 0;
        packet[11] = (uint8_t)(packet[11] + i);
        network_inject(pair->network, 1, 0, packet, length);
        expect_wc(a->recv_cq, i, IBV_WC_SUCCESS);
    }
    pair_free(pair);
}
END_TEST

/* A context without a queue pair, and a queue pair in states that receive nothing. */
START_TEST(nobody_listens)
{
    struct pair *pair = with_a_ghost();
    unsigned empty = network_add(pair->network);
    struct end spare = pair->end[0];
    uint8_t packet[ROCE_MAX];
    size_t length = good_packet(pair, packet, SEND_ONLY);
    network_inject(pair->network, 1, empty, packet, length);
    spare.qp = qp_new(&spare, &pair->setup);
    packet[5] = (uint8_t)(spare.qp->qp_num >> 16);
    packet[6] = (uint8_t)(spare.qp->qp_num >> 8);
    packet[7] = (uint8_t)spare.qp->qp_num;
    network_inject(pair->network, 1, 0, packet, length);
    ck_assert_int_eq(qp_init(spare.qp, ACCESS_ALL), 0);
    network_inject(pair->network, 1, 0, packet, length);
    qp_fail(spare.qp);
    network_inject(pair->network, 1, 0, packet, length);
    ck_assert_int_eq(soft_destroy_qp(spare.qp), 0);
    network_inject(pair->network, 1, 0, packet, length);
    expect_untouched(pair);
}
END_TEST

/* ---- Random packets ---- */

/* Half of the packets are random from the first byte, half begin like a packet to the queue pair, with any opcode and
 * PSN. */
static size_t noise(struct pair *pair, uint8_t *packet, uint64_t *seed)
{
    uint64_t r = random_next(seed);
    size_t length = r & 1 ? (r >> 1) % 80 : (r >> 1) % 4200;
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = random_next(seed);
        memcpy(packet + i, &word, length - i < 8 ? length - i : 8);
    }
    if (r >> 40 & 1 && length >= ROCE_BTH) {
        uint8_t header[ROCE_MAX];
        good_packet(pair, header, SEND_ONLY);
        packet[0] &= 0x1f;
        memcpy(packet + 1, header + 1, 7);
        if (r >> 41 & 1) /* close to the expected PSN, but never equal */
            memcpy(packet + 9, header + 9, 2);
        if (!memcmp(packet + 9, header + 9, 3))
            packet[11] ^= 1;
    }
    return length;
}

START_TEST(noise_changes_nothing)
{
    struct pair *pair = with_a_ghost();
    struct end *a = &pair->end[0];
    uint8_t packet[8192];
    uint64_t seed = 42;
    network_keep_bytes(pair->network, false);
    for (int i = 0; i < 100000; i++) {
        size_t length = noise(pair, packet, &seed);
        network_inject(pair->network, 1, 0, packet, length);
        expect(qp_state(a->qp) == IBV_QPS_RTS, "packet %d of the noise broke the connection", i);
    }
    run(pair);
    ck_assert_uint_gt(counters_of(a).malformed, 40000);
    for (unsigned i = 0; i < network_packets(pair->network); i++)
        ck_assert_uint_eq(network_packet(pair->network, i)->roce.opcode, ACKNOWLEDGE);
    network_forget(pair->network);
    expect_untouched(pair);
}
END_TEST

/* The same while requests are outstanding: random packets must not complete them. */
START_TEST(noise_completes_nothing)
{
    struct setup setup = setup_default();
    setup.ghost = true;
    setup.timeout = 0;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0];
    uint8_t packet[8192];
    uint64_t seed = 4711;
    network_keep_bytes(pair->network, false);
    post(a, &pair->end[1], &(struct work){.id = 1, .opcode = IBV_WR_RDMA_READ, .length = 5000});
    post(a, &pair->end[1], &(struct work){.id = 2, .opcode = IBV_WR_SEND, .length = 5000});
    for (int i = 0; i < 100000; i++) {
        size_t length = noise(pair, packet, &seed);
        /* Otherwise it could be an acknowledgement by chance. */
        if (length >= ROCE_BTH && packet[9] == a->psn >> 16)
            packet[9] ^= 0x55;
        network_inject(pair->network, 1, 0, packet, length);
    }
    expect_quiet(pair);
    expect_byte(a->memory, a->size, 0);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_RTS);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: hostile");
    TCase *tcase = new_case(suite, "packets");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, truncated_headers);
    tcase_add_loop_test(tcase, truncated_payload, 0, 4);
    tcase_add_test(tcase, wrong_version);
    tcase_add_test(tcase, unknown_opcodes);
    tcase_add_test(tcase, unknown_queue_pairs);
    tcase_add_test(tcase, wrong_addresses);
    tcase_add_test(tcase, any_udp_port);
    tcase_add_loop_test(tcase, only_the_peers_udp_port, 0, 2);
    tcase_add_test(tcase, wrong_partition);
    tcase_add_test(tcase, impossible_pad);
    tcase_add_test(tcase, reserved_bits_are_ignored);
    tcase_add_test(tcase, nobody_listens);
    tcase_add_test(tcase, noise_changes_nothing);
    tcase_add_test(tcase, noise_completes_nothing);
    return run_suite(suite);
}
