/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_hello.c - what two libraries tell each other about themselves and their devices: which hellos and control
 * messages are valid, and what the two agree on.
 */
#include "core/api/core.h"
#include "core/queue/nic.h"
#include "core/conn/protocol.h"
#include "inside.h"

#define LONGEST (300 * KIB) /* bytes per transfer: more than the ring buffer holds */

/* ---- Messages -------------------------------------------------------------------------- */

START_TEST(hello_is_checked)
{
    const struct hello good = {.magic = HELLO_MAGIC,
                               .version = HELLO_VERSION,
                               .socktype = SOCK_STREAM,
                               .credits = RQ_DEPTH,
                               .adverts = ADVERTS_MAX,
                               .recv_ring_size = RECV_RING_SIZE,
                               .recv_ring_rkey = 0x12345678,
                               .recv_ring_addr = 0x123456789abcdef0};
    struct hello bad[8], read;
    uint8_t bytes[HELLO_SIZE];

    xs_hello_pack(&good, bytes);
    ck_assert_int_eq(xs_hello_unpack(&read, bytes, sizeof bytes, SOCK_STREAM), HELLO_OK);
    ck_assert_mem_eq(&read, &good, sizeof good);
    ck_assert_int_eq(xs_hello_unpack(&read, bytes, sizeof bytes, SOCK_SEQPACKET), HELLO_BAD_TYPE);
    for (size_t length = 0; length < sizeof bytes; length++)
        ck_assert_int_eq(xs_hello_unpack(&read, bytes, length, SOCK_STREAM), HELLO_NO_EXS);
    for (int i = 0; i < COUNT(bad); i++)
        bad[i] = good;
    bad[0].magic++;
    bad[1].version++;
    bad[2].credits = 0;
    bad[3].credits = UINT32_MAX;
    bad[4].adverts = 0;
    bad[5].recv_ring_size = 0;
    bad[6].recv_ring_size = UINT32_MAX;
    bad[7].recv_ring_addr = UINT64_MAX - 5;
    for (int i = 0; i < COUNT(bad); i++) {
        xs_hello_pack(&bad[i], bytes);
        ck_assert_int_eq(xs_hello_unpack(&read, bytes, sizeof bytes, SOCK_STREAM), i == 0   ? HELLO_NO_EXS
                                                                                   : i == 1 ? HELLO_BAD_VERSION
                                                                                            : HELLO_BAD_VALUE);
    }
}
END_TEST

START_TEST(noise_is_no_message)
{
    struct chance chance = chance_new();
    uint8_t bytes[64];
    struct control control;
    struct hello hello;

    for (int i = 0; i < 100000; i++) {
        size_t length = chance_below(&chance, sizeof bytes + 1);

        for (size_t j = 0; j < sizeof bytes; j++)
            bytes[j] = (uint8_t)chance_next(&chance);
        if (xs_control_unpack(&control, bytes, length)) {
            ck_assert_uint_eq(length, CONTROL_SIZE);
            ck_assert_uint_ge(control.type, CONTROL_ADVERT);
            ck_assert_uint_le(control.type, CONTROL_RING);
        }
        ck_assert_int_ne(xs_hello_unpack(&hello, bytes, length, SOCK_STREAM), HELLO_OK);
    }
}
END_TEST

/* ---- Devices --------------------------------------------------------------------------- */

/* A message that takes more work requests than the send queue holds arrives completely, and each byte once. */
START_TEST(long_messages_are_cut)
{
    struct pair pair;
    size_t length = 1000 * SQ_DEPTH * 3 + 1;

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    cut_requests(&pair, 1000);
    for (int i = 0; i < 3; i++) {
        uint32_t before = conn_of(pair.client)->sq.tail;

        pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, length, (uint64_t)i);
        ck_assert_uint_ge(conn_of(pair.client)->sq.tail - before, length / 1000);
    }
    pair_close(&pair);
}
END_TEST

/* If the device of one end has no immediate data, neither end uses it, in either direction. */
START_TEST(immediate_data_is_agreed_on)
{
    struct pair one, other;

    pair_open(&one, AF_INET, SOCK_STREAM);
    struct nic *client = conn_of(one.client)->nic, *server = conn_of(one.server)->nic;

    client->immediate = _i & 1;
    server->immediate = _i & 2;
    pair_open_on(&other, AF_INET, SOCK_SEQPACKET, one.client_box, one.server_box);
    ck_assert_ptr_eq(conn_of(other.client)->nic, client);
    ck_assert_ptr_eq(conn_of(other.server)->nic, server);
    ck_assert_int_eq(conn_of(other.client)->limits.immediate, _i == 3);
    ck_assert_int_eq(conn_of(other.server)->limits.immediate, _i == 3);
    pass_bytes(other.client_box, other.client, other.server_box, other.server, LONGEST, 1);
    pass_bytes(other.server_box, other.server, other.client_box, other.client, LONGEST, 2);
    pair_close(&other);
    pair_close(&one);
}
END_TEST

/* Connections work on a device with small queues. A device whose queues are too small is refused. */
START_TEST(queues_fit_the_device)
{
    static const struct {
        uint32_t max_wr;
        int max_cqe;
        uint32_t depth;
    } device[] = {{1000, 1000, 64}, {64, 127, 32}, {31, 1000, 16}, {16, 32, 16},
                  {16, 31, 0},      {15, 1000, 0}, {0, 0, 0}};
    struct pair one, other;

    pair_open(&one, AF_INET, SOCK_STREAM);
    struct nic *nic = conn_of(one.client)->nic;

    nic->max_wr = device[_i].max_wr;
    nic->max_cqe = device[_i].max_cqe;
    cut_requests(&one, 1000);
    if (device[_i].depth == 0) {
        int socket = exs_socket(AF_INET, SOCK_STREAM, 0);

        must(exs_connect(socket, SA(&one.address), one.address.length, 0, NULL, one.client_box->queue, NULL));
        take_failed(one.client_box, EXS_EVT_CONNECT, socket, ENODEV);
        close_socket(one.client_box, socket);
    } else {
        pair_open_on(&other, AF_INET, SOCK_STREAM, one.client_box, one.server_box);
        ck_assert_ptr_eq(conn_of(other.client)->nic, nic);
        ck_assert_uint_eq(conn_of(other.client)->limits.depth, device[_i].depth);
        ck_assert_uint_eq(conn_of(other.server)->peer.credits, device[_i].depth);
        for (int i = 0; i < 5; i++) {
            pass_bytes(other.client_box, other.client, other.server_box, other.server, LONGEST, 1);
            pass_bytes(other.server_box, other.server, other.client_box, other.client, LONGEST, 2);
        }
        pair_close(&other);
    }
    pair_close(&one);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hello");
    TCase *talk = add_case(suite, "talk", 60), *bare = add_bare_case(suite, "messages", 20);

    tcase_add_test(bare, hello_is_checked);
    tcase_add_test(bare, noise_is_no_message);
    tcase_add_test(talk, long_messages_are_cut);
    tcase_add_loop_test(talk, immediate_data_is_agreed_on, 0, 4);
    tcase_add_loop_test(talk, queues_fit_the_device, 0, 7);
    return run_suite(suite);
}
