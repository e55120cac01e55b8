/* SPDX-License-Identifier: BSD-2-Clause */
/* test_pending.c - short sends that wait because the peer does not receive: they use little memory, and none is
 * lost. */
#include <sys/mman.h>
#include "check/support/support.h"

#define BEFORE ((size_t)300000) /* bytes; more than a peer buffers that does not receive */
#define SHORT (8 * KIB)         /* bytes; the longest send that is copied */
#define SENDS 400
#define PAGE 4096

static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};

/* A pair whose client has a pending send that delays those after it. */
struct stuck {
    struct pair pair;
    uint8_t *before;
};

static void stuck_open(struct stuck *stuck, int type)
{
    struct pair *pair = &stuck->pair;

    pair_open(pair, AF_INET, type);
    stuck->before = new_buffer(BEFORE);
    pattern_fill(stuck->before, BEFORE, 1, 0);
    must(exs_send(pair->client, stuck->before, BEFORE, 0, pair->client_box->queue, NULL, NULL));
}

static void stuck_close(struct stuck *stuck)
{
    pair_close(&stuck->pair);
    free(stuck->before);
}

/* The server receives one message, or this part of the stream: `length` bytes, which are the pattern's from
 * `at` on. */
static void receives(struct pair *pair, size_t length, uint64_t at)
{
    uint8_t *buffer = new_buffer(length + 1);

    must(exs_recv(pair->server, buffer, length, MSG_WAITALL, pair->server_box->queue, NULL, NULL));
    exs_event_t event = take_good(pair->server_box, EXS_EVT_RECV, pair->server);

    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, length);
    pattern_check(buffer, length, 1, at);
    same_bytes(buffer + length, 1, CANARY);
    free(buffer);
}

/* ---- Everything that was sent arrives ------------------------------------------------------------------- */

/* Sends the bytes in three segments, of which the second is registered. */
static void send_in_pieces(const struct pair *pair, uint8_t *bytes, size_t length, exs_mhandle_t region)
{
    exs_iovec_t pieces[] = {
        {.exs_base = bytes, .exs_length = length / 3},
        {.exs_base = bytes + length / 3, .exs_length = length / 3, .exs_mhandle = region},
        {.exs_base = bytes + 2 * (length / 3), .exs_length = length - 2 * (length / 3)},
    };
    exs_msghdr_t message = {.exs_iov = pieces, .exs_iovlen = COUNT(pieces)};

    must(exs_sendmsg(pair->client, &message, 0, pair->client_box->queue, bytes));
    memset(pieces, 0xff, sizeof(pieces)); /* the call has returned: the arrays are the caller's again */
}

START_TEST(bytes_in_order)
{
    size_t length[SENDS], all = 0;
    uint8_t *bytes = new_buffer(SENDS * SHORT);
    exs_mhandle_t region = exs_mregister(bytes, SENDS * SHORT, 0);
    struct chance chance = chance_new();
    struct stuck stuck;
    struct pair *pair = &stuck.pair;

    stuck_open(&stuck, types[_i]);
    pattern_fill(bytes, SENDS * SHORT, 1, BEFORE);
    for (int i = 0; i < SENDS; i++) {
        length[i] = i == 0 ? SHORT : chance_size(&chance, 1, SHORT);
        if (i % 2)
            send_in_pieces(pair, bytes + all, length[i], region);
        else
            must(exs_send(pair->client, bytes + all, length[i], 0, pair->client_box->queue, bytes + all, NULL));
        all += length[i];
    }
    inbox_quiet(pair->client_box, QUIET_MS);
    receives(pair, BEFORE, 0);
    take_good(pair->client_box, EXS_EVT_SEND, pair->client);
    if (types[_i] == SOCK_STREAM)
        receives(pair, all, BEFORE);
    all = 0;
    for (int i = 0; i < SENDS; i++) {
        if (types[_i] == SOCK_SEQPACKET)
            receives(pair, length[i], BEFORE + all);
        exs_event_t event = take_good(pair->client_box, i % 2 ? EXS_EVT_SENDMSG : EXS_EVT_SEND, pair->client);

        ck_assert_ptr_eq(event.exs_evt_ahandle, bytes + all);
        all += length[i];
    }
    must(exs_mderegister(region, 0));
    stuck_close(&stuck);
    free(bytes);
}
END_TEST

/* The end of stream waits behind pending sends, also behind those without an event. */
START_TEST(end_behind_them)
{
    uint8_t bytes[100], byte;
    struct stuck stuck;
    struct pair *pair = &stuck.pair;

    stuck_open(&stuck, types[_i]);
    pattern_fill(bytes, sizeof(bytes), 1, BEFORE);
    must(exs_send(pair->client, bytes, 60, EXS_UNSIGNALED, NULL, NULL, NULL));
    must(exs_send(pair->client, bytes + 60, 40, 0, pair->client_box->queue, NULL, NULL));
    if (types[_i] == SOCK_SEQPACKET)
        must(exs_send(pair->client, bytes, 0, 0, pair->client_box->queue, NULL, NULL));
    must(exs_shutdown(pair->client, SHUT_WR, 0, pair->client_box->queue, NULL));
    receives(pair, BEFORE, 0);
    receives(pair, 60, BEFORE);
    receives(pair, 40, BEFORE + 60);
    if (types[_i] == SOCK_SEQPACKET) {
        must(exs_recv(pair->server, &byte, 1, 0, pair->server_box->queue, NULL, NULL));
        take_good(pair->server_box, EXS_EVT_RECV, pair->server);
        take_good(pair->client_box, EXS_EVT_SEND, pair->client);
    }
    must(exs_recv(pair->server, &byte, 1, 0, pair->server_box->queue, NULL, NULL));
    exs_event_t event = take_good(pair->server_box, EXS_EVT_RECV, pair->server);

    ck_assert_int_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_flags, EXS_EOF);
    take_good(pair->client_box, EXS_EVT_SEND, pair->client);
    take_good(pair->client_box, EXS_EVT_SEND, pair->client);
    take_good(pair->client_box, EXS_EVT_SHUTDOWN, pair->client);
    stuck_close(&stuck);
}
END_TEST

/* ---- Sends that never leave ----------------------------------------------------------------------------- */

/* A close cancels all pending sends and releases their memory. */
START_TEST(closed)
{
    uint8_t *bytes = new_buffer(SHORT);
    exs_mhandle_t region = exs_mregister(bytes, SHORT, 0);
    struct stuck stuck;
    struct pair *pair = &stuck.pair;

    stuck_open(&stuck, types[_i]);
    for (int i = 0; i < SENDS; i++) {
        send_in_pieces(pair, bytes, 100, region);
        must(exs_send(pair->client, bytes, 100, 0, pair->client_box->queue, NULL, NULL));
    }
    must_fail(exs_mderegister(region, 0), EBUSY);
    must(exs_close(pair->client, 0, pair->client_box->queue, NULL));
    take_failed(pair->client_box, EXS_EVT_SEND, pair->client, ECANCELED);
    for (int i = 0; i < SENDS; i++) {
        take_failed(pair->client_box, EXS_EVT_SENDMSG, pair->client, ECANCELED);
        take_failed(pair->client_box, EXS_EVT_SEND, pair->client, ECANCELED);
    }
    take_good(pair->client_box, EXS_EVT_CLOSE, pair->client);
    must(exs_mderegister(region, 0));
    close_socket(pair->server_box, pair->server);
    pair_close_rest(pair);
    free(stuck.before);
    free(bytes);
}
END_TEST

static uint8_t *map_pages(size_t pages, int protection)
{
    uint8_t *map = mmap(NULL, pages * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(map, MAP_FAILED);
    return map;
}

/* A send from unreadable memory fails as it does when it need not wait: nothing of it is sent, and the
 * connection continues. `end` is the end of a readable page. The unreadable memory is in the last, the middle
 * or the first page of the buffer. */
START_TEST(unreadable)
{
    uint8_t bytes[100], *map = map_pages(5, PROT_READ | PROT_WRITE), *end = map + PAGE + 10;
    size_t length[] = {11, PAGE, 2 * PAGE};
    exs_mhandle_t not_to_send = exs_mregister(bytes, sizeof(bytes), EXS_MRF_SEND_DISABLE);
    struct stuck stuck;
    struct pair *pair = &stuck.pair;

    must(mprotect(map, PAGE, PROT_NONE));
    must(mprotect(map + 2 * PAGE, PAGE, PROT_NONE));
    must(mprotect(map + 4 * PAGE, PAGE, PROT_NONE));
    stuck_open(&stuck, types[_i]);
    pattern_fill(bytes, sizeof(bytes), 1, BEFORE);
    for (int i = 0; i < COUNT(length); i++) {
        exs_iovec_t pieces[] = {{.exs_base = bytes, .exs_length = 1},
                                {.exs_base = end, .exs_length = length[i]},
                                {.exs_base = bytes, .exs_length = 1}};
        exs_msghdr_t message = {.exs_iov = pieces, .exs_iovlen = COUNT(pieces)};

        if (length[i] + 2 <= SHORT && length[i] >= PAGE)
            must_fail(exs_sendmsg(pair->client, &message, 0, pair->client_box->queue, NULL), EACCES);
        if (length[i] >= PAGE)
            must_fail(exs_send(pair->client, end, length[i], 0, pair->client_box->queue, NULL, NULL), EACCES);
        must_fail(exs_send(pair->client, end - length[i], length[i], 0, pair->client_box->queue, NULL, NULL),
                  EACCES);
    }
    must_fail(exs_send(pair->client, bytes, 1, 0, pair->client_box->queue, NULL, not_to_send), EACCES);
    must(exs_mderegister(not_to_send, 0));
    must_fail(exs_send(pair->client, (uint8_t *)UINTPTR_MAX - 9, 100, 0, pair->client_box->queue, NULL, NULL),
              EACCES);
    must(exs_send(pair->client, bytes, sizeof(bytes), 0, pair->client_box->queue, NULL, NULL));
    receives(pair, BEFORE, 0);
    receives(pair, sizeof(bytes), BEFORE);
    take_good(pair->client_box, EXS_EVT_SEND, pair->client);
    take_good(pair->client_box, EXS_EVT_SEND, pair->client);
    inbox_quiet(pair->client_box, 0);
    stuck_close(&stuck);
    munmap(map, 5 * PAGE);
}
END_TEST

/* A pending send's memory is unmapped. Later sends must not be taken for it: they fail with the connection. */
START_TEST(vanishes)
{
    uint8_t bytes[100], *map = map_pages(1, PROT_READ | PROT_WRITE);
    exs_iovec_t pieces[] = {{.exs_base = bytes, .exs_length = 10}, {.exs_base = map, .exs_length = 90}};
    exs_msghdr_t message = {.exs_iov = pieces, .exs_iovlen = COUNT(pieces)};
    bool in_pieces = _i / 2;
    struct stuck stuck;
    struct pair *pair = &stuck.pair;

    stuck_open(&stuck, types[_i % 2]);
    if (in_pieces)
        must(exs_sendmsg(pair->client, &message, 0, pair->client_box->queue, NULL));
    else
        must(exs_send(pair->client, map, 100, 0, pair->client_box->queue, NULL, NULL));
    must(exs_sendmsg(pair->client, &(exs_msghdr_t){.exs_iov = pieces, .exs_iovlen = 1}, 0,
                     pair->client_box->queue, NULL));
    munmap(map, PAGE);
    receives(pair, BEFORE, 0);
    take_good(pair->client_box, EXS_EVT_SEND, pair->client);
    must(exs_recv(pair->server, bytes, 1, 0, pair->server_box->queue, NULL, NULL));
    take_failed(pair->client_box, in_pieces ? EXS_EVT_SENDMSG : EXS_EVT_SEND, pair->client, EFAULT);
    take_failed(pair->client_box, EXS_EVT_SENDMSG, pair->client, ECONNRESET);
    take_failed(pair->server_box, EXS_EVT_RECV, pair->server, ECONNRESET);
    stuck_close(&stuck);
}
END_TEST

/* ---- Cost ----------------------------------------------------------------------------------------------- */

#define MANY 200000
#define MANY_KIB (60L << 10)

/* Dequeues the events of this number of cancelled sends, and then that of the close. */
static void take_all_cancelled(exs_qhandle_t queue, int sends)
{
    exs_event_t events[64];

    for (int taken = 0; taken < sends + 1;) {
        int count = exs_qdequeue(queue, events, COUNT(events), NULL);

        must(count);
        for (int i = 0; i < count; i++, taken++) {
            ck_assert_int_eq(events[i].exs_evt_type, taken < sends ? EXS_EVT_SEND : EXS_EVT_CLOSE);
            ck_assert_int_eq(events[i].exs_evt_errno, taken < sends ? ECANCELED : 0);
        }
    }
}

START_TEST(costs_little)
{
    uint8_t bytes[100];
    struct stuck stuck;
    struct pair *pair = &stuck.pair;

    stuck_open(&stuck, types[_i]);
    pattern_fill(bytes, sizeof(bytes), 1, BEFORE);
    long before = resident_kib();

    for (int i = 0; i < MANY; i++)
        must(exs_send(pair->client, bytes, sizeof(bytes), 0, pair->client_box->queue, NULL, NULL));
    long used = resident_kib() - before;

    printf("a waiting send of 100 bytes costs %ld bytes\n", used * 1024 / MANY);
    if (sees_bytes())
        ck_assert_int_lt(used, MANY_KIB);
    must(exs_close(pair->client, 0, pair->client_box->queue, NULL));
    take_all_cancelled(pair->client_box->queue, MANY + 1);
    close_socket(pair->server_box, pair->server);
    pair_close_rest(pair);
    free(stuck.before);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pending");
    TCase *tcase = add_case(suite, "pending", 20);

    tcase_add_loop_test(tcase, bytes_in_order, 0, 2);
    tcase_add_loop_test(tcase, end_behind_them, 0, 2);
    tcase_add_loop_test(tcase, closed, 0, 2);
    tcase_add_loop_test(tcase, unreadable, 0, 2);
    tcase_add_loop_test(tcase, vanishes, 0, 4);
    tcase_add_loop_test(tcase, costs_little, 0, 2);
    return run_suite(suite);
}
