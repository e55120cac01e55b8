/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_stray.c - packets ahead of the expected PSN, and the NAKs for them: a loss reduces the sender's window
 * once, however many NAKs report it; a stray packet has a limited effect; and a packet of another host has none.
 */
#include <string.h>
#include "check/support/endpoints.h"

#define MTU 1024
#define PACKETS 2000 /* packets of the transfer */
#define LENGTH ((size_t)PACKETS * MTU)

/* ---- The sender ---- */

/* Returns how many packets the requester sends at once when its n-th request is answered like this. */
static unsigned burst(struct pair *pair, uint32_t n, uint8_t syndrome)
{
    struct end *a = &pair->end[0];
    uint8_t packet[ROCE_MAX];
    struct roce roce = {.opcode = ACKNOWLEDGE,
                        .migreq = true,
                        .pkey = 0xffff,
                        .qpn = a->qpn,
                        .psn = roce_psn(a->psn + n),
                        .syndrome = syndrome,
                        .msn = n};
    size_t length = roce_write(packet, &roce);

    network_forget(pair->network);
    network_inject(pair->network, 1, 0, packet, length);
    return network_packets(pair->network);
}

/* Each NAK may cause retransmissions, but they all concern the same flight: the window is halved once. */
START_TEST(told_often)
{
    struct setup setup = setup_default();
    setup.ghost = true;
    setup.memory = LENGTH;
    struct pair *pair = pair_new(&setup);
    unsigned first, second, window;

    post(&pair->end[0], &pair->end[1], &(struct work){.opcode = IBV_WR_RDMA_WRITE, .length = LENGTH});
    window = network_packets(pair->network);
    first = burst(pair, 0, SYNDROME_SEQUENCE);
    ck_assert_uint_ge(first, window / 2);
    ck_assert_uint_lt(first, window);
    for (int i = 0; i < 3; i++) {
        unsigned again = burst(pair, 0, SYNDROME_SEQUENCE);

        expect(again == 0 || again == first, "%u packets, %u after the first", again, first);
    }
    /* In the same flight, but further on: that was lost at the same time. */
    second = burst(pair, first / 2, SYNDROME_SEQUENCE);
    expect(second == 0 || second >= first / 2, "%u packets, %u before", second, first);
    qp_fail(pair->end[0].qp);
    pair_free(pair);
}
END_TEST

/* A loss in a later flight counts again. */
START_TEST(lost_again)
{
    struct setup setup = setup_default();
    setup.ghost = true;
    setup.memory = LENGTH;
    struct pair *pair = pair_new(&setup);
    unsigned flight, sent, acknowledged = 0, again;

    post(&pair->end[0], &pair->end[1], &(struct work){.opcode = IBV_WR_RDMA_WRITE, .length = LENGTH});
    flight = network_packets(pair->network);
    sent = burst(pair, 0, SYNDROME_SEQUENCE);
    while (acknowledged < flight) { /* the retransmissions, and then the next packets */
        acknowledged = sent;
        sent += burst(pair, acknowledged - 1, SYNDROME_ACK);
    }
    flight = sent - acknowledged;
    again = burst(pair, acknowledged, SYNDROME_SEQUENCE);
    expect(again > 0 && again <= (flight + 1) / 2, "%u packets of %u", again, flight);
    qp_fail(pair->end[0].qp);
    pair_free(pair);
}
END_TEST

/* ---- During a transfer ---- */

enum disturbance { NONE, STRANGER, STRAY };

/* A packet for the receiver of the transfer that is `ahead` PSNs after its first. */
static void inject_ahead(struct pair *pair, enum disturbance disturbance, uint32_t ahead)
{
    uint8_t packet[ROCE_MAX], payload[MTU] = {0xee};
    struct roce roce = {.opcode = SEND_ONLY,
                        .migreq = true,
                        .ackreq = true,
                        .pkey = 0xffff,
                        .qpn = pair->end[1].qpn,
                        .psn = roce_psn(pair->end[0].psn + ahead),
                        .payload = payload,
                        .payload_length = MTU};
    size_t length = roce_write(packet, &roce);
    struct soft_path path;

    network_path(pair->network, 1, 0, &path);
    if (disturbance == STRANGER)
        path.remote.in.sin_addr.s_addr ^= htonl(0x01000000);
    network_inject_on(pair->network, 1, &path, packet, length);
}

/* A transfer with one injected packet for every `every` packets of the network. Returns its duration in ns, and in
 * *packets the number of packets that both ends sent. */
static uint64_t transfer(enum disturbance disturbance, unsigned every, unsigned *packets)
{
    struct setup setup = setup_default();
    setup.memory = LENGTH;
    setup.trailer = 4;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    uint64_t took;
    unsigned steps = 0;

    network_keep_bytes(pair->network, false);
    fill(a->memory, LENGTH, 7);
    post(a, b,
         &(struct work){.id = 5, .opcode = IBV_WR_RDMA_WRITE, .length = LENGTH, .flags = IBV_SEND_SIGNALED});
    while (network_step(pair->network)) {
        if (disturbance != NONE && ++steps % every == 0)
            inject_ahead(pair, disturbance, PACKETS + steps % 100000);
        expect(steps < 100 * PACKETS, "it takes for ever");
        if (network_packets(pair->network) > 100 * PACKETS)
            break;
    }
    expect_done(a->send_cq, 5, IBV_WC_RDMA_WRITE);
    ck_assert(filled(b->memory, LENGTH, 7));
    took = network_now(pair->network);
    *packets = network_packets(pair->network);
    pair_free(pair);
    return took;
}

/* Packets from another address have no effect. */
START_TEST(strangers)
{
    unsigned packets, disturbed;
    uint64_t took = transfer(NONE, 1, &packets);

    ck_assert_uint_eq(transfer(STRANGER, 1, &disturbed), took);
    ck_assert_uint_eq(disturbed, packets);
}
END_TEST

/* Stray packets that look like the peer's cause a NAK and some retransmissions; the connection survives, and is not
 * slow for long. */
START_TEST(strays)
{
    unsigned packets, disturbed;
    uint64_t took = transfer(NONE, 1, &packets), longer = transfer(STRAY, 200, &disturbed);

    expect(longer < 4 * took, "%llu ns, and %llu without", (unsigned long long)longer,
           (unsigned long long)took);
    expect(disturbed < 3 * packets, "%u packets, and %u without", disturbed, packets);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: strays");
    TCase *tcase = new_case(suite, "strays");

    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, told_often);
    tcase_add_test(tcase, lost_again);
    tcase_add_test(tcase, strangers);
    tcase_add_test(tcase, strays);
    return run_suite(suite);
}
