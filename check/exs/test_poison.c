/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_poison.c - EXS_CHECK: the library fills receive buffers with poison until the event, so that a program
 * that reads too early does not find plausible data. Bytes that were not received have their old values after
 * the event.
 */
#include "check/support/support.h"

/* bytes; HELD: the part at the beginning of a buffer that is poisoned */
enum { LARGE = 4 << 20, HELD = 4096, SMALL = 64 };

static FILE *said; /* replaces standard error */
static struct pair pair;
static uint8_t *memory; /* LARGE bytes */

static void begin(const char *setting)
{
    must(setenv("EXS_CHECK", setting, 1));
    said = tmpfile();
    ck_assert_ptr_nonnull(said);
    init_library();
    pair_open(&pair, AF_INET, SOCK_STREAM);
    memory = new_buffer(LARGE);
    must(dup2(fileno(said), STDERR_FILENO));
}

static void checked(void)
{
    begin("1");
}

static void unchecked(void)
{
    begin("0");
}

static void said_nothing(void)
{
    char line[512];

    rewind(said);
    ck_assert_msg(fgets(line, sizeof line, said) == NULL, "this was said: %s", line);
}

static void send_bytes(const void *from, size_t length)
{
    must(exs_send(pair.client, from, length, 0, pair.client_box->queue, NULL, NULL));
}

static void receive(int socket, void *into, size_t length)
{
    exs_qhandle_t queue = socket == pair.client ? pair.client_box->queue : pair.server_box->queue;

    must(exs_recv(socket, into, length, 0, queue, NULL, NULL));
}

/* All these bytes have this value, or, if `byte` is -1, the values of memory_fill(). */
static void expect_bytes(size_t from, size_t until, int byte)
{
    for (size_t i = from; i < until; i++)
        ck_assert_msg(memory[i] == (byte >= 0 ? byte : (int)(i % 251)), "byte %zu is 0x%x", i, memory[i]);
}

static void memory_fill(void)
{
    for (size_t i = 0; i < LARGE; i++)
        memory[i] = (uint8_t)(i % 251);
}

/* The old bytes are hidden until the event. Those behind the received data come back then. */
START_TEST(read_before_its_event)
{
    memory_fill();
    receive(pair.server, memory, 2 * HELD);
    expect_bytes(0, HELD, 0xa5);
    expect_bytes(HELD, 2 * HELD, -1);
    send_bytes("seven..", 7);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_mem_eq(memory, "seven..", 7);
    expect_bytes(7, 2 * HELD, -1);
    said_nothing();
}
END_TEST

START_TEST(read_before_a_cancel)
{
    memory_fill();
    receive(pair.server, memory, SMALL);
    expect_bytes(0, SMALL, 0xa5);
    expect_bytes(SMALL, 2 * SMALL, -1);
    ck_assert_int_eq(exs_cancel(pair.server, NULL, 0), 1);
    take_failed(pair.server_box, EXS_EVT_RECV, pair.server, ECANCELED);
    expect_bytes(0, SMALL, -1);
    said_nothing();
}
END_TEST

START_TEST(read_in_pieces)
{
    exs_iovec_t pieces[] = {{.exs_base = memory, .exs_length = SMALL},
                            {.exs_base = memory + 2 * SMALL, .exs_length = SMALL}};
    exs_msghdr_t message = {.exs_iov = pieces, .exs_iovlen = 2};
    uint8_t out[SMALL + 1];

    memory_fill();
    memset(out, 7, sizeof(out));
    must(exs_recvmsg(pair.server, &message, 0, pair.server_box->queue, NULL));
    expect_bytes(0, SMALL, 0xa5);
    expect_bytes(SMALL, 2 * SMALL, -1); /* between the segments */
    expect_bytes(2 * SMALL, 3 * SMALL, 0xa5);
    send_bytes(out, sizeof(out));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.server_box, EXS_EVT_RECVMSG, pair.server);
    expect_bytes(0, SMALL, 7);
    expect_bytes(SMALL, 2 * SMALL, -1);
    expect_bytes(2 * SMALL, 2 * SMALL + 1, 7);
    expect_bytes(2 * SMALL + 1, 3 * SMALL, -1);
    said_nothing();
}
END_TEST

/* The library does not poison memory that another operation sends. */
START_TEST(sent_as_well)
{
    memory_fill();
    send_bytes(memory, LARGE);
    receive(pair.client, memory, SMALL);
    expect_bytes(0, SMALL, -1);
}
END_TEST

/* exs_rread() reads all bytes or none. */
START_TEST(one_sided)
{
    exs_qhandle_t queue = pair.client_box->queue;
    uint8_t *there = new_buffer(HELD);
    exs_mhandle_t region = exs_mregister(there, HELD, EXS_MRF_SHARED);
    exs_token_t token;

    memory_fill();
    must(exs_mexport(pair.server, region, there, HELD, EXS_REMOTE_READ, &token));
    must(exs_rread(pair.client, memory, HELD, &token, 0, 0, queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_RREAD, pair.client);
    ck_assert_mem_eq(memory, there, HELD);
    said_nothing();
}
END_TEST

START_TEST(off)
{
    memory_fill();
    receive(pair.server, memory, SMALL);
    expect_bytes(0, SMALL, -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("poison");
    TCase *on = add_bare_case(suite, "EXS_CHECK", 20), *unset = add_bare_case(suite, "off", 20);

    tcase_add_checked_fixture(on, checked, NULL);
    tcase_add_test(on, read_before_its_event);
    tcase_add_test(on, read_before_a_cancel);
    tcase_add_test(on, read_in_pieces);
    tcase_add_test(on, sent_as_well);
    tcase_add_test(on, one_sided);
    tcase_add_checked_fixture(unset, unchecked, NULL);
    tcase_add_test(unset, off);
    return run_suite(suite);
}
