/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_linger.c - EXS_LINGER and SO_LINGER: what was sent arrives before the socket is closed, within its time,
 * and the close says if not. The time 0 cuts everything off.
 */
#include "check/support/files.h"
#include "check/support/processes.h"

#define LENGTH (300 * KIB) /* more than the peer's hidden buffer */
#define SENDS 3

static void set_linger(int socket, int on, int seconds)
{
    struct linger wanted = {.l_onoff = on, .l_linger = seconds}, held;
    socklen_t length = sizeof held;

    must(exs_setsockopt(socket, SOL_SOCKET, SO_LINGER, &wanted, sizeof wanted));
    must(exs_getsockopt(socket, SOL_SOCKET, SO_LINGER, &held, &length));
    ck_assert_uint_eq(length, sizeof held);
    ck_assert_int_eq(held.l_onoff, on != 0);
    ck_assert_int_eq(held.l_linger, seconds);
}

static void open_pair(struct pair *pair, int kind)
{
    pair_open(pair, kinds[kind].family, kinds[kind].type);
    pair->server_box->beside = pair->client_box;
    pair->client_box->beside = pair->server_box;
}

/* Long, short, long. The short one is copied when its turn comes. */
static size_t length_of(int send)
{
    return send == 1 ? 100 : LENGTH;
}

static uint8_t *send_all(struct pair *pair)
{
    uint8_t *out = new_buffer(SENDS * LENGTH);

    for (int i = 0; i < SENDS; i++) {
        pattern_fill(out + i * LENGTH, length_of(i), (uint64_t)i, 0);
        must(exs_send(pair->client, out + i * LENGTH, length_of(i), 0, pair->client_box->queue,
                      out + i * LENGTH, NULL));
    }
    return out;
}

/* The server gets what the client sent, and then the end. */
static void all_arrives(struct pair *pair)
{
    uint8_t *in = new_buffer(LENGTH);

    for (int i = 0; i < SENDS; i++) {
        must(exs_recv(pair->server, in, length_of(i), MSG_WAITALL, pair->server_box->queue, NULL, NULL));
        exs_event_t event = take_good(pair->server_box, EXS_EVT_RECV, pair->server);
        ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, length_of(i));
        pattern_check(in, length_of(i), (uint64_t)i, 0);
    }
    must(exs_recv(pair->server, in, 1, 0, pair->server_box->queue, NULL, NULL));
    exs_event_t event = take_good(pair->server_box, EXS_EVT_RECV, pair->server);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    ck_assert_int_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_flags & EXS_EOF, EXS_EOF);
    free(in);
}

static void ends(struct inbox *box, int type, const void *ahandle, int error)
{
    while (box->count == 0)
        inbox_pump(box, WAIT_MS);
    ck_assert_str_eq(exs_strevent(box->kept[0].exs_evt_type), exs_strevent(type));
    exs_event_t event = take_failed(box, type, -1, error);
    ck_assert_ptr_eq(event.exs_evt_ahandle, ahandle);
}

static void client_ends(struct pair *pair, const uint8_t *out, int send_error, int close_error)
{
    for (int i = 0; i < SENDS; i++)
        ends(pair->client_box, EXS_EVT_SEND, out + i * LENGTH, send_error);
    ends(pair->client_box, EXS_EVT_CLOSE, pair, close_error);
    inbox_quiet(pair->client_box, QUIET_MS);
}

static void close_client(struct pair *pair, int flags)
{
    must(exs_close(pair->client, flags, pair->client_box->queue, pair));
    must_fail(exs_send(pair->client, "x", 1, 0, pair->client_box->queue, NULL, NULL), EBADF);
}

static void close_server(struct pair *pair)
{
    close_socket(pair->server_box, pair->server);
    pair_close_rest(pair);
}

/* By the flag, by the option, and by both. */
START_TEST(arrives)
{
    struct pair pair;
    int way = _i / 4;

    open_pair(&pair, _i % 4);
    if (way > 0)
        set_linger(pair.client, 1, 60);
    uint8_t *out = send_all(&pair);
    close_client(&pair, way != 1 ? EXS_LINGER : 0);
    all_arrives(&pair);
    client_ends(&pair, out, 0, 0);
    free(out);
    close_server(&pair);
}
END_TEST

/* Nobody asked for it; nor does a time that is not on. */
START_TEST(off)
{
    struct pair pair;

    open_pair(&pair, _i);
    set_linger(pair.client, 0, 60);
    uint8_t *out = send_all(&pair);
    close_client(&pair, 0);
    client_ends(&pair, out, ECANCELED, 0);
    free(out);
    close_server(&pair);
}
END_TEST

/* Without a time it waits for as long as the peer is there: longer than for the end alone. */
START_TEST(no_time)
{
    struct pair pair;

    open_pair(&pair, _i);
    uint8_t *out = send_all(&pair);
    close_client(&pair, EXS_LINGER);
    inbox_quiet(pair.client_box, 6000);
    all_arrives(&pair);
    client_ends(&pair, out, 0, 0);
    free(out);
    close_server(&pair);
}
END_TEST

/* How many bytes come before the connection is seen to be cut. */
static size_t received_until_cut(struct pair *pair)
{
    uint8_t *in = new_buffer(LENGTH);
    size_t bytes = 0, got;

    while (exs_recv(pair->server, in, LENGTH, 0, pair->server_box->queue, NULL, NULL) == 0) {
        exs_event_t event = inbox_take(pair->server_box, EXS_EVT_RECV, pair->server);
        errno = event.exs_evt_errno;
        if (errno != 0)
            break;
        got = event.exs_evt_union.exs_evt_xfer.exs_evt_length;
        ck_assert_uint_gt(got, 0); /* that would be an orderly end */
        pattern_check(in, got, 0, bytes);
        bytes += got;
    }
    ck_assert_int_eq(errno, ECONNRESET);
    free(in);
    return bytes;
}

/* Not before; what was under way is told of. An alarm that rings earlier changes nothing. */
START_TEST(time_is_over)
{
    const struct timeval limit = {.tv_usec = 500000};
    struct pair pair;
    size_t moved = 0;

    open_pair(&pair, _i);
    must(exs_setsockopt(pair.client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    uint8_t *out = send_all(&pair);
    set_linger(pair.client, 1, 1);
    double start = seconds_now();
    close_client(&pair, 0);
    for (int i = 0; i < SENDS; i++) {
        exs_event_t event = take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ECANCELED);
        moved += event.exs_evt_union.exs_evt_xfer.exs_evt_length;
    }
    ends(pair.client_box, EXS_EVT_CLOSE, &pair, ETIMEDOUT);
    double took = seconds_now() - start;
    ck_assert_msg(took >= 1 && took < 1 + 5 * LATE_S, "it took %g s", took);
    ck_assert_uint_eq(received_until_cut(&pair), moved);
    ck_assert_int_eq(moved > 0, kinds[_i].type == SOCK_STREAM);
    free(out);
    close_server(&pair);
}
END_TEST

/* The end of the stream stands behind what is sent, asked for or not. */
START_TEST(behind_a_shutdown)
{
    struct pair pair;

    open_pair(&pair, _i);
    uint8_t *out = send_all(&pair);
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, out));
    close_client(&pair, EXS_LINGER);
    all_arrives(&pair);
    for (int i = 0; i < SENDS; i++)
        ends(pair.client_box, EXS_EVT_SEND, out + i * LENGTH, 0);
    ends(pair.client_box, EXS_EVT_SHUTDOWN, out, 0);
    ends(pair.client_box, EXS_EVT_CLOSE, &pair, 0);
    free(out);
    close_server(&pair);
}
END_TEST

/* Then it will never arrive. */
START_TEST(peer_leaves)
{
    struct pair pair;

    open_pair(&pair, _i);
    uint8_t *out = send_all(&pair);
    close_client(&pair, EXS_LINGER);
    close_socket(pair.server_box, pair.server);
    client_ends(&pair, out, ECANCELED, ECONNRESET);
    free(out);
    pair_close_rest(&pair);
}
END_TEST

/* It had left before: what had been sent then is cut, and where nothing had there is nothing to tell of. */
START_TEST(peer_has_left)
{
    struct pair pair;

    open_pair(&pair, 0);
    set_linger(pair.client, 1, 60);
    set_linger(pair.server, 1, 0);
    if (_i == 1)
        must(exs_recv(pair.client, &pair, 1, 0, pair.client_box->queue, &pair, NULL));
    close_socket(pair.server_box, pair.server);
    if (_i == 1)
        ends(pair.client_box, EXS_EVT_RECV, &pair, ECONNRESET);
    close_client(&pair, 0);
    ends(pair.client_box, EXS_EVT_CLOSE, &pair, 0);
    pair_close_rest(&pair);
}
END_TEST

/* The time 0: the peer sees no end, even where nothing is pending. The flag does not help. */
START_TEST(cuts)
{
    struct pair pair;
    bool sends = _i & 1;
    uint8_t *out = NULL;

    open_pair(&pair, 0);
    set_linger(pair.client, 1, 0);
    if (sends)
        out = send_all(&pair);
    close_client(&pair, _i & 2 ? EXS_LINGER : 0);
    if (sends)
        client_ends(&pair, out, ECANCELED, 0);
    else
        ends(pair.client_box, EXS_EVT_CLOSE, &pair, 0);
    ck_assert(received_until_cut(&pair) == 0 || sends);
    free(out);
    close_server(&pair);
}
END_TEST

/* The limits of single sends end none any more. */
START_TEST(limits)
{
    const struct timeval limit = {.tv_usec = 50000};
    struct pair pair;

    open_pair(&pair, _i % 4);
    must(exs_setsockopt(pair.client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    if (_i >= 4)
        set_linger(pair.client, 1, 60);
    uint8_t *out = send_all(&pair);
    close_client(&pair, EXS_LINGER);
    inbox_quiet(pair.client_box, 200);
    all_arrives(&pair);
    client_ends(&pair, out, 0, 0);
    free(out);
    close_server(&pair);
}
END_TEST

/* Nobody waits for the event; the loop of others brings it to its end. */
START_TEST(without_event)
{
    struct pair pair;

    open_pair(&pair, _i);
    uint8_t *out = send_all(&pair);
    must(exs_close(pair.client, EXS_LINGER, NULL, NULL));
    all_arrives(&pair);
    for (int i = 0; i < SENDS; i++)
        ends(pair.client_box, EXS_EVT_SEND, out + i * LENGTH, 0);
    inbox_quiet(pair.client_box, QUIET_MS);
    free(out);
    close_server(&pair);
}
END_TEST

#define READS 60
#define READ (64 * KIB)

/* More of the peer's memory is read than can be at once. */
static uint8_t *read_all(struct pair *pair, uint8_t *there)
{
    uint8_t *here = new_buffer(READS * READ);
    exs_mhandle_t region = exs_mregister(there, READ, 0);
    exs_token_t token;

    ck_assert_ptr_ne(region, EXS_MHANDLE_INVALID);
    must(exs_mexport(pair->server, region, there, READ, EXS_REMOTE_READ, &token));
    pattern_fill(there, READ, 5, 0);
    for (size_t i = 0; i < READS; i++)
        must(exs_rread(pair->client, here + i * READ, READ, &token, 0, 0, pair->client_box->queue,
                       here + i * READ, NULL));
    return here;
}

/* What reads the peer's memory is something that was sent, too, and the end is behind it: who has seen that may
 * leave. */
START_TEST(one_sided)
{
    uint8_t *there = new_buffer(READ), *here;
    struct pair pair;
    char byte;

    open_pair(&pair, _i);
    here = read_all(&pair, there);
    close_client(&pair, EXS_LINGER);
    must(exs_recv(pair.server, &byte, 1, 0, pair.server_box->queue, NULL, NULL));
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    must(exs_close(pair.server, 0, pair.server_box->queue, NULL));
    for (size_t i = 0; i < READS; i++) {
        ends(pair.client_box, EXS_EVT_RREAD, here + i * READ, 0);
        pattern_check(here + i * READ, READ, 5, 0);
    }
    ends(pair.client_box, EXS_EVT_CLOSE, &pair, 0);
    take_good(pair.server_box, EXS_EVT_CLOSE, pair.server);
    pair_close_rest(&pair);
    free(here);
    free(there);
}
END_TEST

/* Without lingering the rest of it is cut; with, where the peer leaves, and then the close says so. */
START_TEST(one_sided_cut)
{
    uint8_t *there = new_buffer(READ), *here;
    bool lingers = _i & 2;
    struct pair pair;

    open_pair(&pair, _i & 1);
    here = read_all(&pair, there);
    close_client(&pair, lingers ? EXS_LINGER : 0);
    if (lingers) {
        set_linger(pair.server, 1, 0);
        close_socket(pair.server_box, pair.server);
    }
    for (size_t i = 0; i < READS; i++) {
        exs_event_t event = inbox_take(pair.client_box, EXS_EVT_RREAD, pair.client);
        ck_assert(event.exs_evt_errno == ECANCELED || (event.exs_evt_errno == 0 && i < READS - 1));
    }
    ends(pair.client_box, EXS_EVT_CLOSE, &pair, lingers ? ECONNRESET : 0);
    if (!lingers)
        close_socket(pair.server_box, pair.server);
    pair_close_rest(&pair);
    free(here);
    free(there);
}
END_TEST

static void accept_only(int fd, void *arg)
{
    struct address address;

    (void)arg;
    init_library();
    int listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);
    tell(fd, &address, sizeof address);
    must(exs_blocking_accept(listener, NULL, NULL));
    tell(fd, "", 1);
    hear(fd, &address, 1);
}

/* Nothing is pending but the end, which nobody takes. */
START_TEST(end_is_late)
{
    struct address address;
    struct child child;
    struct inbox box;
    char ready;

    child_start(&child, accept_only, NULL);
    init_library();
    inbox_open(&box, 4);
    hear(child.fd, &address, sizeof address);
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);
    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    take_good(&box, EXS_EVT_CONNECT, client);
    hear(child.fd, &ready, 1);
    set_linger(client, 1, 1);
    process_stop(child.pid);
    must(exs_close(client, 0, box.queue, NULL));
    take_failed(&box, EXS_EVT_CLOSE, client, on_rdma() ? 0 : ETIMEDOUT); /* the kernel takes it there */
    inbox_close(&box);
    child_kill(&child);
}
END_TEST

/* A file that becomes shorter meanwhile is no whole one, and nobody else could tell the peer. */
START_TEST(file_is_cut)
{
    struct folder folder;
    struct pair pair;

    folder_make(&folder);
    open_pair(&pair, 0);
    int fd = folder_file(&folder, "long", (off_t)(64 * MIB));
    exs_xferfile_t file = by_fd(fd, 0, 64 * MIB);
    must(exs_sendfile(pair.client, &file, 1, 0, pair.client_box->queue, &file));
    must(ftruncate(fd, 0));
    close_client(&pair, EXS_LINGER);
    uint8_t *in = new_buffer(LENGTH);
    while (exs_recv(pair.server, in, LENGTH, 0, pair.server_box->queue, NULL, NULL) == 0) {
        exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECV, pair.server);
        if (event.exs_evt_errno == ECONNRESET)
            break;
        ck_assert_int_eq(event.exs_evt_errno, 0);
        ck_assert_uint_gt(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    }
    ends(pair.client_box, EXS_EVT_SENDFILE, &file, EIO);
    ends(pair.client_box, EXS_EVT_CLOSE, &pair, ECONNRESET);
    free(in);
    close(fd);
    close_server(&pair);
    folder_clear(&folder);
}
END_TEST

static void *close_it(void *socket)
{
    must(exs_blocking_close(*(int *)socket));
    return NULL;
}

/* By calls that wait: the close returns when all has arrived. */
START_TEST(calls_that_wait)
{
    uint8_t *out = new_buffer(LENGTH), *in = new_buffer(LENGTH);
    struct pair pair;
    struct inbox box;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    inbox_open(&box, 4);
    pattern_fill(out, LENGTH, 1, 0);
    set_linger(pair.client, 1, 60);
    must(exs_send(pair.client, out, LENGTH, 0, box.queue, out, NULL));
    pthread_t thread = thread_start(close_it, &pair.client);
    ck_assert_int_eq(exs_blocking_recv(pair.server, in, LENGTH, MSG_WAITALL, NULL), (long)LENGTH);
    pattern_check(in, LENGTH, 1, 0);
    ck_assert_int_eq(exs_blocking_recv(pair.server, in, 1, 0, NULL), 0);
    thread_join(thread);
    take_good(&box, EXS_EVT_SEND, pair.client);
    must(exs_blocking_close(pair.server));
    must(exs_blocking_close(pair.listener));
    inbox_close(&box);
    free(out);
    free(in);
}
END_TEST

/* And says if not; the socket is closed all the same. */
START_TEST(call_that_gives_up)
{
    uint8_t *out = new_buffer(LENGTH);
    struct pair pair;
    struct inbox box;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    inbox_open(&box, 4);
    set_linger(pair.client, 1, 1);
    must(exs_send(pair.client, out, LENGTH, 0, box.queue, out, NULL));
    must_fail(exs_blocking_close(pair.client), ETIMEDOUT);
    must_fail(exs_blocking_close(pair.client), EBADF);
    take_failed(&box, EXS_EVT_SEND, pair.client, ECANCELED);
    must(exs_blocking_close(pair.server));
    must(exs_blocking_close(pair.listener));
    inbox_close(&box);
    free(out);
}
END_TEST

/* What the listener has the connections have that it accepts from then on. */
START_TEST(listeners)
{
    struct linger held;
    socklen_t length = sizeof held;
    struct pair pair;
    int client, server;

    open_pair(&pair, _i);
    set_linger(pair.listener, 1, 7);
    connect_ends(pair.listener, kinds[_i].type, &pair.address, pair.client_box, pair.server_box, &client,
                 &server);
    for (int i = 0; i < 3; i++) {
        must(exs_getsockopt(i == 0   ? server
                            : i == 1 ? client
                                     : pair.server,
                            SOL_SOCKET, SO_LINGER, &held, &length));
        ck_assert_int_eq(held.l_onoff, i == 0);
        ck_assert_int_eq(held.l_linger, i == 0 ? 7 : 0);
    }
    close_socket(pair.client_box, client);
    close_socket(pair.server_box, server);
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("linger");
    TCase *tcase = add_case(suite, "linger", 30), *bare = add_bare_case(suite, "the end", 30);

    tcase_add_loop_test(tcase, arrives, 0, 12);
    tcase_add_loop_test(tcase, off, 0, 4);
    tcase_add_loop_test(tcase, no_time, 0, 2);
    tcase_add_loop_test(tcase, time_is_over, 0, 2);
    tcase_add_loop_test(tcase, behind_a_shutdown, 0, 4);
    tcase_add_loop_test(tcase, peer_leaves, 0, 4);
    tcase_add_loop_test(tcase, peer_has_left, 0, 2);
    tcase_add_loop_test(tcase, cuts, 0, 4);
    tcase_add_loop_test(tcase, limits, 0, 8);
    tcase_add_loop_test(tcase, without_event, 0, 4);
    tcase_add_loop_test(tcase, one_sided, 0, 2);
    tcase_add_loop_test(tcase, one_sided_cut, 0, 4);
    tcase_add_test(bare, end_is_late);
    tcase_add_loop_test(tcase, file_is_cut, 0, 1);
    tcase_add_test(tcase, calls_that_wait);
    tcase_add_test(tcase, call_that_gives_up);
    tcase_add_loop_test(tcase, listeners, 0, 2);
    return run_suite(suite);
}
