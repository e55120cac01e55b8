/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_badneighbour.c - one connection's memory is inaccessible to the peers of all others. A peer that knows the exact
 * addresses and keys of another connection's ring buffer, receives and exports can neither write, read nor change that
 * memory. The software device and rdma-core behave alike.
 */
#include "check/support/scene.h"

#define LENGTH 20000 /* a receive that the test fills: too long to be copied, so its own buffer is advertised */
#define SHORT 1000   /* a receive for which a SEQPACKET advertises a slot of its ring buffer */
#define TOUCHED 8    /* bytes: also the operand of an atomic */

/* The memory that the peer tries to access. */
enum thing { RECV_RING, RECEIVE, SHORT_RECEIVE, REGION, EXPORT, THINGS };
static const char *const thing_names[] = {"ring buffer", "receive", "short receive", "registered receive",
                                          "export"};
static const enum ibv_wr_opcode ways[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
                                          IBV_WR_ATOMIC_FETCH_AND_ADD};
enum { WAYS = COUNT(ways), CASES = 2 * THINGS * WAYS };

/* The well-behaved connection: the server's receive, and the address and key of its memory. */
static struct victim {
    struct raw raw;
    int server;
    char *memory;
    exs_mhandle_t region;
    exs_token_t token;
    struct control advert;
    uint64_t addr;
    uint32_t rkey;
} victim;

static size_t receive_length(enum thing thing)
{
    return thing == SHORT_RECEIVE ? SHORT : LENGTH;
}

static void export_memory(void)
{
    struct token token;

    must(exs_mexport(victim.server, victim.region, victim.memory, LENGTH, EXS_REMOTE_READ | EXS_REMOTE_WRITE,
                     &victim.token));
    ck_assert(xs_token_unpack(&token, &victim.token));
    victim.addr = token.addr;
    victim.rkey = token.rkey;
}

/* Posts a receive on the server, which the victim may write to. */
static void advertise(enum thing thing)
{
    must(exs_recv(victim.server, victim.memory, receive_length(thing), 0, scene.box.queue, NULL,
                  thing == REGION ? victim.region : NULL));
    victim.advert = raw_hear_control(&victim.raw, CONTROL_ADVERT);
    victim.addr = victim.advert.addr;
    victim.rkey = victim.advert.rkey;
}

static void victim_open(enum thing thing)
{
    victim.server = scene_accept(&victim.raw, raw_hello(scene.socktype));
    victim.memory = new_buffer(LENGTH);
    victim.region = exs_mregister(victim.memory, LENGTH, 0);
    ck_assert_ptr_ne(victim.region, EXS_MHANDLE_INVALID);
    if (thing == RECV_RING) {
        victim.addr = victim.raw.there.recv_ring_addr;
        victim.rkey = victim.raw.there.recv_ring_rkey;
    } else if (thing == EXPORT) {
        export_memory();
    } else {
        advertise(thing);
    }
}

/* The victim's connection still works and delivers the bytes that it sends. */
static void victim_served(enum thing thing)
{
    size_t length = receive_length(thing);

    if (thing == RECV_RING || thing == EXPORT)
        advertise(RECEIVE);
    pattern_fill(victim.raw.room, length, 7, 0);
    raw_direct(&victim.raw, &victim.advert, (uint32_t)length, 0);
    ck_assert_int_eq(raw_status(&victim.raw), IBV_WC_SUCCESS);
    take_good(&scene.box, EXS_EVT_RECV, victim.server);
    pattern_check(victim.memory, length, 7, 0);
}

static void victim_close(void)
{
    close_socket(&scene.box, victim.server);
    must(exs_mderegister(victim.region, 0));
    raw_close(&victim.raw);
    free(victim.memory);
}

/* The server uses the same region on the attacker's connection, too. */
static void share_region(void)
{
    must(exs_recv(scene.server, victim.memory, LENGTH, 0, scene.box.queue, NULL, victim.region));
    raw_hear_control(&scene.raw, CONTROL_ADVERT);
}

static bool is_possible(int socktype, enum thing thing)
{
    return thing != SHORT_RECEIVE || socktype == SOCK_SEQPACKET;
}

static void expect_refused(void)
{
    enum ibv_wc_status status = raw_status(&scene.raw);

    ck_assert_msg(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR, "status %d", status);
}

START_TEST(anothers_memory)
{
    int socktype = _i % 2 ? SOCK_STREAM : SOCK_SEQPACKET;
    enum thing thing = (enum thing)(_i / 2 % THINGS);
    enum ibv_wr_opcode way = ways[_i / 2 / THINGS];

    if (!is_possible(socktype, thing))
        return;
    fprintf(stderr, "# %d: %s of a %s, opcode %d\n", _i, thing_names[thing],
            socktype == SOCK_STREAM ? "STREAM" : "SEQPACKET", way);
    scene_open_type(socktype);
    victim_open(thing);
    if (thing == REGION)
        share_region();
    memset(scene.raw.room, 0x11, RAW_ROOM);
    raw_reach(&scene.raw, way, victim.addr, victim.rkey, TOUCHED);
    expect_refused();
    same_bytes(scene.raw.room, RAW_ROOM, 0x11);
    same_bytes(victim.memory, LENGTH, CANARY);
    if (thing == REGION)
        scene_undone(RECEIVING);
    scene_broken();
    victim_served(thing);
    victim_close();
    scene_close();
}
END_TEST

/* Memory that was deregistered or whose connection is closed can't be accessed by its former peer, nor by other
 * peers. */
START_TEST(memory_of_one_that_has_left)
{
    scene_open_type(SOCK_STREAM);
    victim_open(_i ? REGION : EXPORT);
    raw_disconnect(&victim.raw);
    raw_ended(&victim.raw);
    if (_i)
        take_failed(&scene.box, EXS_EVT_RECV, victim.server, ECONNRESET);
    close_socket(&scene.box, victim.server);
    must(exs_mderegister(victim.region, 0));
    raw_reach(&scene.raw, IBV_WR_RDMA_WRITE, victim.addr, victim.rkey, TOUCHED);
    expect_refused();
    same_bytes(victim.memory, LENGTH, CANARY);
    scene_broken();
    raw_close(&victim.raw);
    free(victim.memory);
    scene_close();
}
END_TEST

/* Many connections use a region, which is then deregistered: no connection keeps a registration of it. */
START_TEST(region_of_many)
{
    enum { MANY = 5, ROUNDS = 3 };
    struct inbox box;
    struct pair pairs[MANY];
    char *memory = new_buffer(2 * LENGTH);

    init_library();
    inbox_open(&box, 64);
    for (int i = 0; i < MANY; i++)
        pair_open_on(&pairs[i], AF_INET, SOCK_STREAM, &box, &box);
    for (int round = 0; round < ROUNDS; round++) {
        exs_mhandle_t region = exs_mregister(memory, 2 * LENGTH, 0);

        for (int i = 0; i < MANY; i++) {
            pattern_fill(memory, LENGTH, (uint64_t)i, 0);
            must(exs_recv(pairs[i].server, memory + LENGTH, LENGTH, MSG_WAITALL, box.queue, NULL, region));
            must(exs_send(pairs[i].client, memory, LENGTH, 0, box.queue, NULL, region));
            must_fail(exs_mderegister(region, 0), EBUSY);
            take_good(&box, EXS_EVT_SEND, pairs[i].client);
            take_good(&box, EXS_EVT_RECV, pairs[i].server);
            pattern_check(memory + LENGTH, LENGTH, (uint64_t)i, 0);
        }
        must(exs_mderegister(region, 0));
    }
    for (int i = 0; i < MANY; i++)
        pair_close(&pairs[i]);
    inbox_close(&box);
    free(memory);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("badneighbour");
    TCase *tcase = add_bare_case(suite, "another's memory", 20);

    tcase_add_loop_test(tcase, anothers_memory, 0, CASES);
    tcase_add_loop_test(tcase, memory_of_one_that_has_left, 0, 2);
    tcase_add_test(tcase, region_of_many);
    return run_suite(suite);
}
