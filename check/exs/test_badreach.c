/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_badreach.c - what memory a peer's device can access: it can write to the ring buffer and to advertised
 * receives, and to nothing else (exs(7), Security). If a peer makes EXS write to memory that the peer does not have,
 * EXS's operations end with ECONNRESET. The software device and rdma-core behave alike.
 */
#include "check/support/scene.h"

#include <stdlib.h>

/* ---- EXS's memory ----------------------------------------------------------------------- */

/* Addresses in EXS's memory that the peer knows. */
enum place { RECV_RING, RECV_RING_END, ADVERTISED, ADVERTISED_END };

static const struct reach {
    const char *what;
    enum ibv_wr_opcode opcode;
    enum place place;
    int64_t by; /* bytes, relative to the place */
    uint32_t bytes, other_key;
} reaches[] = {
    {"before the ring buffer", IBV_WR_RDMA_WRITE, RECV_RING, -8, 8, 0},
    {"into the ring buffer from before", IBV_WR_RDMA_WRITE, RECV_RING, -1, 8, 0},
    {"behind the ring buffer", IBV_WR_RDMA_WRITE, RECV_RING_END, 0, 1, 0},
    {"out of the ring buffer", IBV_WR_RDMA_WRITE, RECV_RING_END, -4096, 4097, 0},
    {"address 0", IBV_WR_RDMA_WRITE, RECV_RING, INT64_MIN, 8, 0},
    {"with a wrong key", IBV_WR_RDMA_WRITE, RECV_RING, 0, 8, 1},
    {"with no key", IBV_WR_RDMA_WRITE, RECV_RING, 0, 8, UINT32_MAX},
    {"before the receive", IBV_WR_RDMA_WRITE, ADVERTISED, -1, 1, 0},
    {"behind the receive", IBV_WR_RDMA_WRITE, ADVERTISED_END, 0, 1, 0},
    {"out of the receive", IBV_WR_RDMA_WRITE, ADVERTISED_END, -100, 101, 0},
    {"out of the receive, and say so", IBV_WR_RDMA_WRITE_WITH_IMM, ADVERTISED_END, -100, 101, 0},
    {"read the ring buffer", IBV_WR_RDMA_READ, RECV_RING, 0, 8, 0},
    {"read the receive", IBV_WR_RDMA_READ, ADVERTISED, 0, 8, 0},
    {"add to the ring buffer", IBV_WR_ATOMIC_FETCH_AND_ADD, RECV_RING, 0, 8, 0},
};

static uint64_t address_of(const struct control *advert, enum place place)
{
    const struct hello *there = &scene.raw.there;

    return place == RECV_RING       ? there->recv_ring_addr
           : place == RECV_RING_END ? there->recv_ring_addr + there->recv_ring_size
           : place == ADVERTISED    ? advert->addr
                                    : advert->addr + advert->length;
}

/* The device rejects the access. */
static void refused(void)
{
    enum ibv_wc_status status = raw_status(&scene.raw);

    ck_assert_msg(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
                      status == IBV_WC_REM_OP_ERR,
                  "status %d", status);
}

START_TEST(a_reach_is_refused)
{
    const struct reach *reach = &reaches[_i];

    fprintf(stderr, "# %d: %s\n", _i, reach->what);
    scene_open_type(SOCK_STREAM);
    struct control advert = scene_do(RECEIVING);
    uint32_t key = reach->place < ADVERTISED ? scene.raw.there.recv_ring_rkey : advert.rkey;
    uint64_t from = reach->by == INT64_MIN ? 0 : address_of(&advert, reach->place) + (uint64_t)reach->by;

    memset(scene.raw.room, 0x11, RAW_ROOM);
    raw_reach(&scene.raw, reach->opcode, from, key ^ reach->other_key, reach->bytes);
    refused();
    scene_undone(RECEIVING);
    scene_broken();
    same_bytes(scene.in, BYTES + 1, CANARY);
    same_bytes(scene.raw.room, RAW_ROOM, 0x11);
    scene_close();
}
END_TEST

/* Immediate data needs a valid key though no byte is written. InfiniBand's specification does not require this, so it
 * holds only for the software device. */
START_TEST(nothing_with_a_wrong_key)
{
    scene_open_type(SOCK_STREAM);
    scene_do(RECEIVING);
    raw_reach(&scene.raw, IBV_WR_RDMA_WRITE_WITH_IMM, scene.raw.there.recv_ring_addr,
              scene.raw.there.recv_ring_rkey ^ 1, 0);
    refused();
    scene_undone(RECEIVING);
    scene_broken();
    scene_close();
}
END_TEST

#define TIB (UINT64_C(1) << 40)

/* The hello must not contain a virtual address of the server's memory. */
START_TEST(no_address_is_told)
{
    uint64_t first, last;
    char line[256], *end;
    FILE *maps = fopen("/proc/self/maps", "re");

    ck_assert_ptr_nonnull(maps);
    scene_open_type(SOCK_STREAM);
    while (fgets(line, sizeof line, maps) != NULL) {
        first = strtoull(line, &end, 16);
        ck_assert_int_eq(*end, '-');
        last = strtoull(end + 1, NULL, 16);
        if (last - first > TIB) /* a sanitizer's reservation, which may be nearly the whole address space */
            continue;
        ck_assert_msg(scene.raw.there.recv_ring_addr < first || scene.raw.there.recv_ring_addr >= last,
                      "the hello tells an address in %s", line);
    }
    fclose(maps);
    scene_close();
}
END_TEST

/* After a receive into unregistered memory has completed, the peer can no longer write to its buffer. */
START_TEST(a_receive_that_is_done)
{
    scene_open_type(_i ? SOCK_STREAM : SOCK_SEQPACKET);
    struct control advert = scene_do(RECEIVING);

    pattern_fill(scene.raw.room, BYTES, 1, 0);
    raw_direct(&scene.raw, &advert, BYTES, 0);
    take_good(&scene.box, EXS_EVT_RECV, scene.server);
    memset(scene.raw.room, 0, BYTES);
    raw_reach(&scene.raw, IBV_WR_RDMA_WRITE, advert.addr, advert.rkey, BYTES);
    refused();
    scene_broken();
    pattern_check(scene.in, BYTES, 1, 0);
    scene_close();
}
END_TEST

/* The bytes of one peer's short message have arrived and are not announced yet. Another peer writes as far as
 * its own key lets it, and must not overwrite them. */
START_TEST(a_short_message_of_anothers)
{
    enum { LENGTH = 1000, STEP = 1 << 10, AROUND = 512 };
    struct raw first;
    char *in;

    scene_open_type(SOCK_SEQPACKET);
    int server = scene_accept(&first, raw_hello(SOCK_SEQPACKET));
    in = new_buffer(LENGTH);
    must(exs_recv(server, in, LENGTH, 0, scene.box.queue, NULL, NULL));
    struct control advert = raw_hear_control(&first, CONTROL_ADVERT);

    pattern_fill(first.room, LENGTH, 1, 0);
    raw_reach(&first, IBV_WR_RDMA_WRITE, advert.addr, advert.rkey, LENGTH);
    ck_assert_int_eq(raw_status(&first), IBV_WC_SUCCESS);
    must(exs_recv(scene.server, scene.in, LENGTH, 0, scene.box.queue, NULL, NULL));
    struct control own = raw_hear_control(&scene.raw, CONTROL_ADVERT);

    memset(scene.raw.room, 0, STEP);
    for (int64_t i = 0; i < AROUND && raw_status(&scene.raw) == IBV_WC_SUCCESS; i++)
        raw_reach(&scene.raw, IBV_WR_RDMA_WRITE, own.addr + (uint64_t)(i * STEP), own.rkey, STEP);
    refused();
    scene_undone(RECEIVING);
    raw_data(&first, IMM_DIRECT | LENGTH);
    take_good(&scene.box, EXS_EVT_RECV, server);
    pattern_check(in, LENGTH, 1, 0);
    free(in);
    close_socket(&scene.box, server);
    raw_close(&first);
    scene_close();
}
END_TEST

/* ---- The peer's memory ------------------------------------------------------------------ */

/* Memory that a peer offers to EXS and that does not exist. */
enum lie { NO_KEY, OTHER_KEY, BEYOND, TOO_LONG, ENDLESS, RECV_RING_KEY, RECV_RING_BEYOND, LIES };

static void lie_in_hello(struct hello *hello, enum lie lie)
{
    if (lie == RECV_RING_KEY) /* the key is 0 */
        hello->recv_ring_addr = 4096;
    else if (lie == RECV_RING_BEYOND)
        hello->recv_ring_size = HELLO_RECV_RING_MAX;
}

static void lie_in_advert(struct control *advert, enum lie lie)
{
    if (lie == NO_KEY)
        advert->rkey = 0;
    else if (lie == OTHER_KEY)
        advert->rkey ^= 1;
    else if (lie == BEYOND)
        advert->addr += 64 * MIB;
    else if (lie == TOO_LONG)
        advert->length = 64 * MIB;
    else if (lie == ENDLESS)
        advert->length = UINT64_MAX - advert->addr;
}

START_TEST(a_place_that_is_not_there)
{
    struct hello hello = raw_hello(_i < RECV_RING_KEY ? SOCK_SEQPACKET : SOCK_STREAM);

    lie_in_hello(&hello, (enum lie)_i);
    scene_open(hello);
    struct control advert = raw_advert(&scene.raw);

    scene_do(RECEIVING);
    lie_in_advert(&advert, (enum lie)_i);
    if (_i < RECV_RING_KEY)
        raw_control(&scene.raw, advert);
    must(exs_send(scene.server, scene.out, SENT, 0, scene.box.queue, NULL, NULL));
    scene_undone(SENDING);
    scene_undone(RECEIVING);
    scene_broken();
    scene_close();
}
END_TEST

/* EXS writes only to the advertised bytes. */
START_TEST(no_more_than_was_advertised)
{
    enum { FROM = 1000, LENGTH = 12345 };

    scene_open_type(SOCK_SEQPACKET);
    struct control advert = raw_advert(&scene.raw);
    uint8_t *room = scene.raw.room;

    advert.addr += FROM;
    advert.length = LENGTH;
    memset(room, 0x11, RAW_ROOM);
    pattern_fill(scene.out, SENT, 1, 0);
    raw_control(&scene.raw, advert);
    must(exs_send(scene.server, scene.out, SENT, 0, scene.box.queue, NULL, NULL));
    take_good(&scene.box, EXS_EVT_SEND, scene.server);
    struct raw_message message = raw_hear(&scene.raw);

    ck_assert_uint_eq(message.imm, IMM_DIRECT | IMM_TRUNC | LENGTH);
    pattern_check(room + FROM, LENGTH, 1, 0);
    same_bytes(room, FROM, 0x11);
    same_bytes(room + FROM + LENGTH, RAW_ROOM - FROM - LENGTH, 0x11);
    scene_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("badreach");
    TCase *ours = add_bare_case(suite, "EXS's memory", 20), *theirs = add_bare_case(suite, "the peer's", 20);

    tcase_add_loop_test(ours, a_reach_is_refused, 0, COUNT(reaches));
    if (!on_rdma())
        tcase_add_test(ours, nothing_with_a_wrong_key);
    tcase_add_test(ours, no_address_is_told);
    tcase_add_loop_test(ours, a_receive_that_is_done, 0, 2);
    tcase_add_test(ours, a_short_message_of_anothers);
    tcase_add_loop_test(theirs, a_place_that_is_not_there, 0, LIES);
    tcase_add_test(theirs, no_more_than_was_advertised);
    return run_suite(suite);
}
