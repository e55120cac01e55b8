/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_withdrawn.c - exs_munexport while the peer reads and writes the exported memory: the call returns,
 * nothing is written afterwards, and each operation of the peer ends.
 */
#include <poll.h>
#include <time.h>
#include "check/support/support.h"

enum { SIZE = 4 << 20, ROUNDS = 60, AT_ONCE = 8 };

static const char *const links[] = {"shm", "tcp", "udp"};

/* The peer's operations, several at once, until one of them fails. */
struct peer {
    struct pair *pair;
    exs_token_t token;
    struct chance chance;
    char *memory;
    exs_mhandle_t region;
};

static bool begin(struct peer *peer, size_t place)
{
    size_t length = chance_size(&peer->chance, 1, SIZE / AT_ONCE),
           at = chance_below(&peer->chance, SIZE - length);
    char *here = peer->memory + place * (SIZE / AT_ONCE);
    exs_qhandle_t queue = peer->pair->client_box->queue;
    ssize_t result =
        chance_below(&peer->chance, 3) == 0
            ? exs_rwrite(peer->pair->client, here, length, &peer->token, at, 0, queue, here, peer->region)
            : exs_rread(peer->pair->client, here, length, &peer->token, at, 0, queue, here, peer->region);

    return result == 0;
}

static void *use_memory(void *argument)
{
    struct peer *peer = argument;
    size_t under_way = 0;
    bool well = true;

    while (well && under_way < AT_ONCE && (well = begin(peer, under_way)))
        under_way++;
    while (under_way > 0) {
        exs_event_t event;

        ck_assert_int_eq(
            exs_qdequeue(peer->pair->client_box->queue, &event, 1, &(struct timeval){.tv_sec = 20}), 1);
        under_way--;
        well = well && event.exs_evt_errno == 0;
        if (well && (well = begin(peer, ((char *)event.exs_evt_ahandle - peer->memory) / (SIZE / AT_ONCE))))
            under_way++;
    }
    return NULL;
}

static void expect_unchanged(const char *memory, char *copy)
{
    memcpy(copy, memory, SIZE);
    (void)poll(NULL, 0, 2); /* enough time for late writes */
    ck_assert_msg(memcmp(copy, memory, SIZE) == 0, "the peer wrote after exs_munexport");
}

static void withdraw_once(struct chance *chance, char *memory, char *copy, exs_mhandle_t region,
                          struct peer *peer)
{
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    peer->pair = &pair;
    must(exs_mexport(pair.server, region, memory, SIZE, EXS_REMOTE_READ | EXS_REMOTE_WRITE, &peer->token));
    pthread_t thread = thread_start(use_memory, peer);

    (void)ppoll(NULL, 0, &(struct timespec){.tv_nsec = (long)chance_below(chance, 5000000)}, NULL);
    must(exs_munexport(pair.server, &peer->token));
    expect_unchanged(memory, copy);
    thread_join(thread);
    pair_close(&pair);
}

START_TEST(under_way)
{
    struct chance chance;
    struct peer peer;
    char *memory = new_buffer(SIZE), *copy = new_buffer(SIZE);

    must(setenv("EXS_LINK", links[_i], 1));
    init_library();
    chance = peer.chance = chance_new();
    peer.memory = new_buffer(SIZE);
    peer.region = exs_mregister(peer.memory, SIZE, 0);
    exs_mhandle_t region = exs_mregister(memory, SIZE, 0);

    for (int i = 0; i < ROUNDS; i++)
        withdraw_once(&chance, memory, copy, region, &peer);
    must(exs_mderegister(region, 0));
    must(exs_mderegister(peer.region, 0));
    must(exs_fini());
    free(peer.memory);
    free(memory);
    free(copy);
}
END_TEST

/* Returns whether the operation was refused, or ended with the connection because another one was. */
static bool is_refused(const exs_event_t *event)
{
    return event->exs_evt_errno == EACCES || event->exs_evt_errno == ECONNRESET;
}

/* The response to the first read fills the link, because the peer does not receive. When it continues, the
 * owner has refused the write behind the read, and the read may fail, too. */
static void refuse_in_both(char *memory, exs_mhandle_t region, char *there)
{
    struct pair pair;
    exs_token_t token;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    exs_qhandle_t queue = pair.client_box->queue;

    pair.server_box->beside = NULL; /* polling one end must not drive the other */
    must(exs_mexport(pair.server, region, memory, SIZE, EXS_REMOTE_READ | EXS_REMOTE_WRITE, &token));
    must(exs_rread(pair.client, there, SIZE, &token, 0, 0, queue, there, NULL));
    inbox_pump(pair.server_box, 0);
    inbox_pump(pair.server_box, 0);
    must(exs_munexport(pair.server, &token));
    must(exs_rwrite(pair.client, there, 8, &token, 0, 0, queue, there, NULL));
    inbox_pump(pair.server_box, 0);
    exs_event_t read = inbox_take(pair.client_box, EXS_EVT_RREAD, pair.client);
    exs_event_t written = inbox_take(pair.client_box, EXS_EVT_RWRITE, pair.client);

    ck_assert(read.exs_evt_errno == 0 || is_refused(&read));
    ck_assert(is_refused(&written));
    pair_close(&pair);
}

START_TEST(in_both)
{
    char *memory = new_buffer(SIZE), *there = new_buffer(SIZE);

    must(setenv("EXS_LINK", links[_i], 1));
    init_library();
    exs_mhandle_t region = exs_mregister(memory, SIZE, 0);

    for (int i = 0; i < ROUNDS; i++)
        refuse_in_both(memory, region, there);
    must(exs_mderegister(region, 0));
    must(exs_fini());
    free(memory);
    free(there);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("withdrawn");
    TCase *tcase = add_bare_case(suite, "withdrawn", 30);

    tcase_add_loop_test(tcase, in_both, 0, COUNT(links));
    tcase_add_loop_test(tcase, under_way, 0, COUNT(links));
    return run_suite(suite);
}
