/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_badpeer.c - peers that complete the handshake and then violate the protocol (protocol.h): EXS ends the
 * connection, every operation in progress ends with ECONNRESET, data that arrived before is delivered, and other
 * connections of the same queue are served as before. The software device and rdma-core behave alike.
 */
#include "check/support/scene.h"

/* ---- One invalid message ---------------------------------------------------------------- */

/* A control message, or data with this immediate value. If it is sent several times, the last one is invalid. */
static const struct lie {
    const char *what;
    int socktype;
    enum doing doing;
    bool data;
    uint32_t imm;
    struct control control;
    int times; /* 0: once */
} lies[] = {
    {"type 0", SOCK_STREAM, RECEIVING, .control = {.type = 0}},
    {"a type after the last", SOCK_STREAM, RECEIVING, .control = {.type = CONTROL_RING + 1}},
    {"a RING unasked", SOCK_STREAM, SENDING,
     .control = {.type = CONTROL_RING, .addr = 4096, .length = 1 << 20}},
    {"a RING_WANTED that was not agreed on", SOCK_STREAM, IDLE, .control = {.type = CONTROL_RING_WANTED}},
    {"a RING_WANTED on a SEQPACKET", SOCK_SEQPACKET, IDLE, .control = {.type = CONTROL_RING_WANTED}},
    {"type 255", SOCK_SEQPACKET, RECEIVING, .control = {.type = 255}},
    {"a credit too many", SOCK_STREAM, IDLE, .control = {.type = CONTROL_CREDIT, .credits = 1}},
    {"credits too many", SOCK_SEQPACKET, RECEIVING, .control = {.type = CONTROL_CREDIT, .credits = 65535}},
    {"a credit too many beside data", SOCK_STREAM, IDLE, .data = true,
     .imm = IMM_CREDITS | 1 << IMM_CREDITS_SHIFT | 5},
    {"credits too many beside data", SOCK_SEQPACKET, RECEIVING, .data = true,
     .imm = IMM_DIRECT | IMM_CREDITS | IMM_CREDITS_MASK | 5},
    {"an ACK of what was not sent", SOCK_STREAM, IDLE, .control = {.type = CONTROL_ACK, .position = 1}},
    {"an ACK ahead", SOCK_STREAM, SENDING, .control = {.type = CONTROL_ACK, .position = RAW_RECV_RING + 1}},
    {"an ACK far ahead", SOCK_STREAM, SENDING, .control = {.type = CONTROL_ACK, .position = UINT64_MAX}},
    {"an ACK on a SEQPACKET", SOCK_SEQPACKET, SENDING, .control = {.type = CONTROL_ACK, .position = 1}},
    {"RECALLED unasked", SOCK_STREAM, RECEIVING, .control = {.type = CONTROL_RECALLED}},
    {"an answer to no end", SOCK_STREAM, SENDING,
     .control = {.type = CONTROL_CREDIT, .flags = CONTROL_HAS_END}},
    {"DATA where immediates were agreed on", SOCK_STREAM, RECEIVING,
     .control = {.type = CONTROL_DATA, .phase = 5}},
    {"an ADVERT of nothing", SOCK_STREAM, IDLE, .control = {.type = CONTROL_ADVERT, .addr = 4096}},
    {"an ADVERT that wraps around", SOCK_SEQPACKET, IDLE,
     .control = {.type = CONTROL_ADVERT, .addr = UINT64_MAX - 5, .length = 10}},
    {"an ADVERT of an odd phase", SOCK_STREAM, IDLE,
     .control = {.type = CONTROL_ADVERT, .phase = 1, .addr = 4096, .length = 10}},
    {"an ADVERT from the future", SOCK_STREAM, IDLE,
     .control = {.type = CONTROL_ADVERT, .position = 1, .addr = 4096, .length = 10}},
    {"an ADVERT from the future of a SEQPACKET", SOCK_SEQPACKET, IDLE,
     .control = {.type = CONTROL_ADVERT, .position = 1, .addr = 4096, .length = 10}},
    {"too many ADVERTs", SOCK_STREAM, IDLE, .control = {.type = CONTROL_ADVERT, .addr = 4096, .length = 10},
     .times = 33},
    {"too many ADVERTs of a SEQPACKET", SOCK_SEQPACKET, IDLE,
     .control = {.type = CONTROL_ADVERT, .addr = 4096, .length = 10}, .times = 33},
    {"more data than the ring buffer has room for", SOCK_STREAM, IDLE, .data = true, .imm = 256 * KIB + 1},
    {"recv_ring data on a SEQPACKET", SOCK_SEQPACKET, RECEIVING, .data = true, .imm = 5},
    {"no bytes", SOCK_STREAM, RECEIVING, .data = true, .imm = 0},
    {"no bytes, direct", SOCK_STREAM, RECEIVING, .data = true, .imm = IMM_DIRECT},
    {"direct, unadvertised", SOCK_STREAM, IDLE, .data = true, .imm = IMM_DIRECT | 5},
    {"direct, unadvertised, on a SEQPACKET", SOCK_SEQPACKET, SENDING, .data = true, .imm = IMM_DIRECT | 5},
    {"more than was advertised", SOCK_STREAM, RECEIVING, .data = true, .imm = IMM_DIRECT | (BYTES + 1)},
    {"more in two", SOCK_SEQPACKET, RECEIVING, .data = true, .imm = IMM_DIRECT | IMM_MORE | (BYTES / 2 + 1),
     .times = 2},
    {"recv_ring, and more", SOCK_STREAM, RECEIVING, .data = true, .imm = IMM_MORE | 5},
    {"recv_ring, and truncated", SOCK_STREAM, RECEIVING, .data = true, .imm = IMM_TRUNC | 5},
    {"a STREAM, truncated", SOCK_STREAM, RECEIVING, .data = true, .imm = IMM_DIRECT | IMM_TRUNC | 5},
    {"more, and truncated", SOCK_SEQPACKET, RECEIVING, .data = true,
     .imm = IMM_DIRECT | IMM_MORE | IMM_TRUNC | 5},
    {"all bits", SOCK_STREAM, RECEIVING, .data = true, .imm = UINT32_MAX},
};

START_TEST(a_lie_ends_the_connection)
{
    const struct lie *lie = &lies[_i];

    fprintf(stderr, "# %d: %s\n", _i, lie->what);
    scene_open_type(lie->socktype);
    scene_do(lie->doing);
    for (int i = 0; i < (lie->times ? lie->times : 1); i++) {
        inbox_quiet(&scene.box, 0);
        if (lie->data)
            raw_data(&scene.raw, lie->imm);
        else
            raw_control(&scene.raw, lie->control);
    }
    scene_undone(lie->doing);
    scene_broken();
    same_bytes(scene.in, BYTES, CANARY);
    scene_close();
}
END_TEST

/* A control message of any other length is invalid. */
START_TEST(a_wrong_length_ends_the_connection)
{
    static const size_t lengths[] = {0, 1, CONTROL_SIZE - 1, CONTROL_SIZE + 1, 64, 65, 128};
    uint8_t bytes[128] = {CONTROL_CREDIT};

    scene_open_type(SOCK_STREAM);
    scene_do(RECEIVING);
    raw_send(&scene.raw, bytes, lengths[_i]);
    scene_undone(RECEIVING);
    scene_broken();
    scene_close();
}
END_TEST

/* ---- Several messages, the last of which is invalid ------------------------------------- */

static void say(enum control_type type)
{
    raw_control(&scene.raw, (struct control){.type = (uint8_t)type});
}

/* Bytes that were put into the ring buffer before the invalid message are received, and then the error. */
START_TEST(what_came_before_is_received)
{
    scene_open_type(SOCK_STREAM);
    pattern_fill(scene.raw.room, BYTES / 2, 1, 0);
    raw_indirect(&scene.raw, BYTES / 2);
    raw_data(&scene.raw, 256 * KIB - BYTES / 2 + 1); /* one byte more than is free */
    raw_ended(&scene.raw);
    must(exs_recv(scene.server, scene.in, BYTES, 0, scene.box.queue, NULL, NULL));
    exs_event_t event = take_good(&scene.box, EXS_EVT_RECV, scene.server);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, BYTES / 2);
    pattern_check(scene.in, BYTES / 2, 1, 0);
    must_fail(exs_recv(scene.server, scene.in, BYTES, 0, scene.box.queue, NULL, NULL), ECONNRESET);
    scene_close();
}
END_TEST

/* A receive that was filled before the invalid message succeeds, and the next one fails. */
START_TEST(a_receive_that_was_filled_is_good)
{
    scene_open_type(_i ? SOCK_STREAM : SOCK_SEQPACKET);
    char *second = new_buffer(BYTES);
    struct control advert = scene_do(RECEIVING);

    must(exs_recv(scene.server, second, BYTES, 0, scene.box.queue, NULL, NULL));
    raw_hear_control(&scene.raw, CONTROL_ADVERT);
    pattern_fill(scene.raw.room, BYTES, 2, 0);
    raw_direct(&scene.raw, &advert, BYTES, 0);
    say(CONTROL_RECALLED);
    take_good(&scene.box, EXS_EVT_RECV, scene.server);
    pattern_check(scene.in, BYTES, 2, 0);
    scene_undone(RECEIVING);
    scene_broken();
    same_bytes(second, BYTES, CANARY);
    free(second);
    scene_close();
}
END_TEST

/* The pending receive is too short to be advertised. */
START_TEST(a_receive_that_was_not_advertised)
{
    scene_open_type(SOCK_STREAM);
    must(exs_recv(scene.server, scene.in, 100, 0, scene.box.queue, NULL, NULL));
    raw_data(&scene.raw, IMM_DIRECT | 5);
    scene_undone(RECEIVING);
    scene_broken();
    scene_close();
}
END_TEST

/* A receive is not advertised if there was no credit for the advertisement: then a message without bytes is invalid for
 * it, too. */
START_TEST(an_empty_message_that_was_not_advertised)
{
    enum { RECEIVES = 8, CREDITS = 4, ADVERTISED = CREDITS - CREDITS_KEPT };
    struct hello hello = raw_hello(SOCK_SEQPACKET);
    struct control advert[ADVERTISED];

    hello.credits = CREDITS;
    scene_open(hello);
    for (int i = 0; i < RECEIVES; i++)
        must(exs_recv(scene.server, scene.in, BYTES, 0, scene.box.queue, NULL, NULL));
    for (int i = 0; i < ADVERTISED; i++)
        advert[i] = raw_hear_control(&scene.raw, CONTROL_ADVERT);
    for (int i = 0; i < ADVERTISED; i++) {
        raw_direct(&scene.raw, &advert[i], BYTES, 0);
        take_good(&scene.box, EXS_EVT_RECV, scene.server);
    }
    raw_data(&scene.raw, IMM_DIRECT);
    for (int i = ADVERTISED; i < RECEIVES; i++)
        scene_undone(RECEIVING);
    scene_broken();
    scene_close();
}
END_TEST

START_TEST(an_ack_goes_back)
{
    scene_open_type(SOCK_STREAM);
    scene_do(SENDING);
    raw_control(&scene.raw, (struct control){.type = CONTROL_ACK, .position = 1000});
    raw_control(&scene.raw, (struct control){.type = CONTROL_ACK, .position = 999});
    scene_undone(SENDING);
    scene_broken();
    scene_close();
}
END_TEST

/* No data may follow the end of the stream. */
START_TEST(data_behind_the_end)
{
    scene_open_type(SOCK_STREAM);
    scene_do(SENDING);
    scene_do(RECEIVING);
    say(CONTROL_FIN);
    exs_event_t event = take_good(&scene.box, EXS_EVT_RECV, scene.server);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    raw_data(&scene.raw, 5);
    scene_undone(SENDING);
    raw_ended(&scene.raw);
    scene_close();
}
END_TEST

/* Half a message is never delivered as a whole one, whether the peer then sends an end of the stream or disconnects. */
START_TEST(half_a_message)
{
    scene_open_type(SOCK_SEQPACKET);
    struct control advert = scene_do(RECEIVING);

    raw_direct(&scene.raw, &advert, BYTES / 2, IMM_MORE);
    if (_i) {
        say(CONTROL_FIN);
        scene_undone(RECEIVING);
        scene_broken();
    } else {
        raw_disconnect(&scene.raw);
        scene_undone(RECEIVING);
    }
    scene_close();
}
END_TEST

START_TEST(indirect_amid_direct)
{
    scene_open_type(SOCK_STREAM);
    struct control advert = scene_do(RECEIVING);

    raw_direct(&scene.raw, &advert, BYTES / 2, IMM_MORE);
    raw_indirect(&scene.raw, 5);
    scene_undone(RECEIVING);
    scene_broken();
    scene_close();
}
END_TEST

/* Valid: a sender whose file became shorter ends the stream in the middle of a transfer, and then replies to a
 * recall. */
START_TEST(the_end_amid_a_recalled_transfer)
{
    scene_open_type(SOCK_STREAM);
    struct control advert = scene_do(RECEIVING);

    must(exs_shutdown(scene.server, SHUT_RD, 0, scene.box.queue, NULL));
    take_good(&scene.box, EXS_EVT_SHUTDOWN, scene.server);
    raw_hear_control(&scene.raw, CONTROL_RECALL);
    raw_direct(&scene.raw, &advert, BYTES / 2, IMM_MORE);
    say(CONTROL_FIN);
    exs_event_t event = take_good(&scene.box, EXS_EVT_RECV, scene.server);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, BYTES / 2);
    say(CONTROL_RECALLED);
    must(exs_send(scene.server, "a", 1, 0, scene.box.queue, NULL, NULL));
    take_good(&scene.box, EXS_EVT_SEND, scene.server);
    scene_close();
}
END_TEST

START_TEST(a_message_with_immediate_data)
{
    uint8_t bytes[CONTROL_SIZE];

    xs_control_pack(&(struct control){.type = CONTROL_CREDIT}, bytes);
    scene_open_type(SOCK_STREAM);
    scene_do(RECEIVING);
    raw_send_imm(&scene.raw, bytes, sizeof bytes, 5);
    scene_undone(RECEIVING);
    scene_broken();
    scene_close();
}
END_TEST

/* The peer gives so few credits that EXS can't return any; the peer sends although it has none left. */
START_TEST(messages_without_credit)
{
    struct hello hello = raw_hello(SOCK_STREAM);

    hello.credits = HELLO_CREDITS_MIN;
    scene_open(hello);
    scene_do(RECEIVING);
    while (scene.raw.sent < 1000 && raw_status(&scene.raw) == IBV_WC_SUCCESS)
        say(CONTROL_CREDIT);
    scene_undone(RECEIVING);
    scene_broken();
    scene_close();
}
END_TEST

/* If one end has no immediate data, data is announced by control messages, which are checked in the same way. */
START_TEST(data_without_immediate)
{
    static const uint32_t said[] = {256 * KIB + 1,  0, IMM_DIRECT, IMM_DIRECT | (BYTES + 1), IMM_TRUNC | 5,
                                    IMM_CREDITS | 5};
    struct hello hello = raw_hello(SOCK_STREAM);

    hello.flags = HELLO_NO_IMMEDIATE;
    scene_open(hello);
    scene_do(RECEIVING);
    raw_control(&scene.raw, (struct control){.type = CONTROL_DATA, .phase = said[_i]});
    scene_undone(RECEIVING);
    scene_broken();
    scene_close();
}
END_TEST

/* ---- Unusual, but valid ----------------------------------------------------------------- */

/* An advertisement that is outdated, because data was sent before it arrived, is dropped, and its memory is never
 * written to. */
START_TEST(stale_advertisements_are_dropped)
{
    scene_open_type(SOCK_STREAM);
    struct control advert = raw_advert(&scene.raw);

    scene_alive(); /* one byte went through the ring buffer: phase 1 */
    raw_control(&scene.raw, advert);
    advert.phase = 2; /* this one was made before the byte arrived */
    raw_control(&scene.raw, advert);
    memset(scene.raw.room, CANARY, RAW_ROOM);
    ck_assert_int_eq(raw_status(&scene.raw), IBV_WC_SUCCESS);
    inbox_quiet(&scene.box, 0); /* EXS has received both */
    must(exs_send(scene.server, scene.out, 100, 0, scene.box.queue, NULL, NULL));
    take_good(&scene.box, EXS_EVT_SEND, scene.server);
    struct raw_message message = raw_hear(&scene.raw);

    ck_assert(message.data);
    ck_assert_uint_eq(message.imm, 100); /* through the ring buffer */
    same_bytes(scene.raw.room, RAW_ROOM, CANARY);
    scene_close();
}
END_TEST

/* Each recall gets one reply, as long as there is credit for the replies. */
START_TEST(many_recalls)
{
    scene_open_type(SOCK_STREAM);
    for (int i = 0; i < 50; i++) {
        say(CONTROL_RECALL);
        raw_hear_control(&scene.raw, CONTROL_RECALLED);
        raw_control(&scene.raw, (struct control){.type = CONTROL_CREDIT, .credits = 1});
    }
    scene_alive();
    scene_close();
}
END_TEST

/* EXS sends no more advertisements than the peer has announced to store. */
START_TEST(few_advertisements)
{
    enum { RECEIVES = 5, KEPT = 2 };
    struct hello hello = raw_hello(_i ? SOCK_STREAM : SOCK_SEQPACKET);
    struct control advert[RECEIVES];

    hello.adverts = KEPT;
    scene_open(hello);
    for (int i = 0; i < RECEIVES; i++)
        must(exs_recv(scene.server, scene.in, BYTES, 0, scene.box.queue, NULL, NULL));
    for (int i = 0; i < KEPT; i++)
        advert[i] = raw_hear_control(&scene.raw, CONTROL_ADVERT);
    for (int i = KEPT; i < RECEIVES; i++) {
        inbox_quiet(&scene.box, QUIET_MS);
        raw_look(&scene.raw);
        ck_assert_int_eq(scene.raw.message_count, 0);
        raw_direct(&scene.raw, &advert[i - KEPT], BYTES, 0);
        take_good(&scene.box, EXS_EVT_RECV, scene.server);
        advert[i] = raw_hear_control(&scene.raw, CONTROL_ADVERT);
    }
    raw_disconnect(&scene.raw);
    for (int i = 0; i < KEPT; i++)
        scene_undone(RECEIVING);
    scene_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("badpeer");
    TCase *one = add_bare_case(suite, "one lie", 20), *steps = add_bare_case(suite, "several steps", 20),
          *odd = add_bare_case(suite, "no lie", 20);

    tcase_add_loop_test(one, a_lie_ends_the_connection, 0, COUNT(lies));
    tcase_add_loop_test(one, a_wrong_length_ends_the_connection, 0, 7);
    tcase_add_loop_test(one, data_without_immediate, 0, 6);
    tcase_add_test(one, a_message_with_immediate_data);
    tcase_add_test(steps, what_came_before_is_received);
    tcase_add_loop_test(steps, a_receive_that_was_filled_is_good, 0, 2);
    tcase_add_test(steps, a_receive_that_was_not_advertised);
    tcase_add_test(steps, an_empty_message_that_was_not_advertised);
    tcase_add_test(steps, an_ack_goes_back);
    tcase_add_test(steps, data_behind_the_end);
    tcase_add_loop_test(steps, half_a_message, 0, 2);
    tcase_add_test(steps, indirect_amid_direct);
    tcase_add_test(steps, messages_without_credit);
    tcase_add_test(odd, the_end_amid_a_recalled_transfer);
    tcase_add_test(odd, stale_advertisements_are_dropped);
    tcase_add_test(odd, many_recalls);
    tcase_add_loop_test(odd, few_advertisements, 0, 2);
    return run_suite(suite);
}
