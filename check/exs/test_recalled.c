/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_recalled.c - a raw peer in plain verbs recalls its advertisement, or EXS recalls one, in the middle of a
 * transfer. Between two EXS endpoints this is rare, because they answer immediately.
 */
#include "check/support/scene.h"

#define HALF (BYTES / 2)
#define REST 100     /* bytes that end the transfer before the receive is full */
#define ELEMENT 9000 /* bytes; too long to be copied together with the next element */
#define ELEMENTS 4
#define FEW HELLO_CREDITS_MIN /* data and most control messages leave two of them unused */

/* EXS has processed everything that the peer sent. */
static void heard(void)
{
    ck_assert_int_eq(raw_status(&scene.raw), IBV_WC_SUCCESS);
    inbox_quiet(&scene.box, 0);
}

static void say(enum control_type type, uint16_t credits)
{
    raw_control(&scene.raw, (struct control){.type = (uint8_t)type, .credits = credits});
}

/* ---- EXS receives ----------------------------------------------------------------------------- */

static struct control receive(void *buffer)
{
    must(exs_recv(scene.server, buffer, BYTES, MSG_WAITALL, scene.box.queue, buffer, NULL));
    return raw_hear_control(&scene.raw, CONTROL_ADVERT);
}

/* The peer writes this number of bytes of the pattern behind the `at` bytes that the receive already has. */
static void fill(const struct control *advert, uint64_t at, uint32_t bytes, uint32_t flags)
{
    struct control behind = *advert;

    behind.addr += at;
    pattern_fill(scene.raw.room, bytes, 1, at);
    raw_direct(&scene.raw, &behind, bytes, flags);
}

static void take_received(const void *buffer, int error, size_t length)
{
    exs_event_t event = inbox_take(&scene.box, EXS_EVT_RECV, scene.server);

    ck_assert_ptr_eq(event.exs_evt_ahandle, buffer);
    ck_assert_int_eq(event.exs_evt_errno, error);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, length);
}

/* The buffer that is being filled belongs to the peer until the transfer ends, even if the peer has answered
 * the recall. */
START_TEST(what_is_being_filled_is_cancelled)
{
    scene_open_type(SOCK_STREAM);
    struct control advert = receive(scene.in);

    fill(&advert, 0, HALF, IMM_MORE);
    ck_assert_int_eq(raw_status(&scene.raw), IBV_WC_SUCCESS);
    ck_assert_int_eq(exs_cancel(scene.server, scene.in, 0), 1);
    raw_hear_control(&scene.raw, CONTROL_RECALL);
    say(CONTROL_RECALLED, 0);
    heard();
    fill(&advert, HALF, REST, 0);
    take_received(scene.in, ECANCELED, HALF + REST);
    pattern_check(scene.in, HALF + REST, 1, 0);
    scene_alive();
    scene_close();
}
END_TEST

/* The receive behind it is cancelled immediately. The rest of the buffer that is being filled is advertised
 * again when the transfer ends, and nothing is advertised before that. */
START_TEST(what_is_behind_is_cancelled)
{
    char *behind = new_buffer(BYTES);

    scene_open_type(SOCK_STREAM);
    struct control advert = receive(scene.in);

    receive(behind);
    fill(&advert, 0, HALF, IMM_MORE);
    ck_assert_int_eq(raw_status(&scene.raw), IBV_WC_SUCCESS);
    ck_assert_int_eq(exs_cancel(scene.server, behind, 0), 1);
    raw_hear_control(&scene.raw, CONTROL_RECALL);
    say(CONTROL_RECALLED, 0);
    take_received(behind, ECANCELED, 0);
    must(exs_recv(scene.server, behind, BYTES, MSG_WAITALL, scene.box.queue, behind, NULL));
    fill(&advert, HALF, REST, 0);
    struct control anew = raw_hear_control(&scene.raw, CONTROL_ADVERT);

    ck_assert_uint_eq(anew.addr, advert.addr + HALF + REST);
    ck_assert_uint_eq(anew.length, BYTES - HALF - REST);
    advert.rkey = anew.rkey;
    fill(&advert, HALF + REST, BYTES - HALF - REST, 0);
    take_received(scene.in, 0, BYTES);
    pattern_check(scene.in, BYTES, 1, 0);
    ck_assert_int_eq(exs_cancel(scene.server, behind, 0), 1);
    raw_hear_control(&scene.raw, CONTROL_ADVERT);
    raw_hear_control(&scene.raw, CONTROL_RECALL);
    say(CONTROL_RECALLED, 0);
    take_received(behind, ECANCELED, 0);
    free(behind);
    scene_close();
}
END_TEST

/* Two receives are cancelled before the peer answers: EXS sends one recall. */
START_TEST(asked_once)
{
    char *behind = new_buffer(BYTES);

    scene_open_type(SOCK_STREAM);
    receive(scene.in);
    receive(behind);
    ck_assert_int_eq(exs_cancel(scene.server, scene.in, 0), 1);
    raw_hear_control(&scene.raw, CONTROL_RECALL);
    ck_assert_int_eq(exs_cancel(scene.server, behind, 0), 1);
    say(CONTROL_RECALLED, 0);
    take_received(scene.in, ECANCELED, 0);
    take_received(behind, ECANCELED, 0);
    struct control advert = receive(scene.in); /* the next message to the peer */

    fill(&advert, 0, BYTES, 0);
    take_received(scene.in, 0, BYTES);
    free(behind);
    scene_close();
}
END_TEST

/* ---- EXS sends -------------------------------------------------------------------------------- */

static exs_xferfile_t elements[ELEMENTS];

/* EXS sends two elements into an advertised receive with MSG_WAITALL, and then has no credits left. */
static void begin_transfer(void)
{
    struct hello hello = raw_hello(SOCK_STREAM);
    struct control advert;

    hello.credits = FEW;
    hello.flags = HELLO_EMPTY_END;
    scene_open(hello);
    advert = raw_advert(&scene.raw);
    advert.flags = CONTROL_WAITALL;
    raw_control(&scene.raw, advert);
    heard();
    for (int i = 0; i < ELEMENTS; i++)
        elements[i] = (exs_xferfile_t){
            .exs_xfv_type = EXS_IOVEC,
            .exs_xfv.exs_iov = {.exs_base = scene.out + (size_t)i * ELEMENT, .exs_length = ELEMENT}};
    must(exs_sendfile(scene.server, elements, ELEMENTS, 0, scene.box.queue, elements));
}

static void hear_data(uint32_t imm)
{
    struct raw_message message = raw_hear(&scene.raw);

    ck_assert(message.data);
    ck_assert_uint_eq(message.imm, imm);
}

static void hear_two_elements(bool last)
{
    hear_data(IMM_DIRECT | IMM_MORE | ELEMENT);
    hear_data(IMM_DIRECT | (last ? 0 : IMM_MORE) | ELEMENT);
}

/* A transfer that has begun continues into the recalled buffer to its end. Later sends do not use that buffer,
 * although it has space left. */
START_TEST(what_is_being_sent)
{
    begin_transfer();
    hear_two_elements(false);
    say(CONTROL_RECALL, 1);
    raw_hear_control(&scene.raw, CONTROL_RECALLED);
    say(CONTROL_CREDIT, 2);
    hear_two_elements(true);
    take_good(&scene.box, EXS_EVT_SENDFILE, scene.server);
    say(CONTROL_CREDIT, 2);
    must(exs_send(scene.server, scene.out, REST, 0, scene.box.queue, NULL, NULL));
    take_good(&scene.box, EXS_EVT_SEND, scene.server);
    hear_data(REST);
    scene_close();
}
END_TEST

/* The transfer is cancelled in the middle. The peer gets neither its end nor the end of stream, but sees that
 * the connection breaks. */
START_TEST(what_was_cut_off_has_no_end)
{
    begin_transfer();
    hear_two_elements(false);
    ck_assert_int_eq(exs_cancel(scene.server, elements, 0), 1);
    take_failed(&scene.box, EXS_EVT_SENDFILE, scene.server, ECANCELED);
    must(exs_shutdown(scene.server, SHUT_WR, 0, scene.box.queue, NULL));
    take_failed(&scene.box, EXS_EVT_SHUTDOWN, scene.server, ECONNRESET);
    raw_ended(&scene.raw);
    ck_assert_int_eq(scene.raw.message_count, 0);
    scene_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recalled");
    TCase *receives = add_bare_case(suite, "EXS receives", 20), *sends = add_bare_case(suite, "EXS sends", 20);

    tcase_add_test(receives, what_is_being_filled_is_cancelled);
    tcase_add_test(receives, what_is_behind_is_cancelled);
    tcase_add_test(receives, asked_once);
    tcase_add_test(sends, what_is_being_sent);
    tcase_add_test(sends, what_was_cut_off_has_no_end);
    return run_suite(suite);
}
