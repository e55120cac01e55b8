/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_buffers.c - SO_RCVBUF: how many bytes a connection takes in while no receive is pending. SO_SNDBUF and
 * EXS_SO_SENDLIMIT: how many bytes may be pending in sends, and how further sends fail.
 */
#include "check/support/asleep.h"
#include "check/support/files.h"
#include "check/support/processes.h"

#include <limits.h>
#include <signal.h>

static int get(int socket, int option)
{
    int value = -1;
    socklen_t length = sizeof value;

    must(exs_getsockopt(socket, SOL_SOCKET, option, &value, &length));
    ck_assert_uint_eq(length, sizeof value);
    return value;
}

static int set(int socket, int option, int value)
{
    return exs_setsockopt(socket, SOL_SOCKET, option, &value, sizeof value);
}

/* ---- SO_RCVBUF -------------------------------------------------------------------------- */

static const struct size {
    int wanted, held;
} sizes[] = {{1, 4 << 10},        {4096, 4 << 10},    {4097, 8 << 10},    {256 << 10, 256 << 10},
             {300000, 512 << 10}, {1 << 20, 1 << 20}, {INT_MAX, 64 << 20}};

struct sized { /* a pair whose ends have buffers of this size */
    struct pair pair;
    int client, server;
};

static void open_sized(struct sized *sized, int wanted)
{
    struct pair *pair = &sized->pair;
    exs_acceptaddr_t accepted = {0};

    pair_open(pair, AF_INET, SOCK_STREAM);
    must(set(pair->listener, SO_RCVBUF, wanted));
    sized->client = exs_socket(PF_INET, SOCK_STREAM, 0);
    must(set(sized->client, SO_RCVBUF, wanted));
    must(exs_accept(pair->listener, &accepted, 1, 0, pair->server_box->queue));
    must(exs_connect(sized->client, SA(&pair->address), pair->address.length, 0, NULL, pair->client_box->queue,
                     NULL));
    must_fail(set(sized->client, SO_RCVBUF, 4096), EISCONN);
    take_good(pair->client_box, EXS_EVT_CONNECT, sized->client);
    take_good(pair->server_box, EXS_EVT_ACCEPT, pair->listener);
    sized->server = accepted.exs_socket;
}

static void close_sized(struct sized *sized)
{
    close_socket(sized->pair.client_box, sized->client);
    close_socket(sized->pair.server_box, sized->server);
    pair_close(&sized->pair);
}

/* Exactly this number of bytes can be sent before the peer receives. */
static void comes(struct inbox *from_box, int from, struct inbox *to_box, int to, size_t size)
{
    uint8_t *out = new_buffer(size + 1), *in = new_buffer(size + 1);

    pattern_fill(out, size + 1, 3, 0);
    must(exs_send(from, out, size, 0, from_box->queue, NULL, NULL));
    take_good(from_box, EXS_EVT_SEND, from);
    must(exs_send(from, out + size, 1, 0, from_box->queue, NULL, NULL));
    inbox_quiet(from_box, QUIET_MS);
    for (size_t got = 0, some; got <= size; got += some) {
        must(exs_recv(to, in + got, size + 1 - got, 0, to_box->queue, NULL, NULL));
        some = take_good(to_box, EXS_EVT_RECV, to).exs_evt_union.exs_evt_xfer.exs_evt_length;
        ck_assert_uint_gt(some, 0);
    }
    pattern_check(in, size + 1, 3, 0);
    take_good(from_box, EXS_EVT_SEND, from);
    free(out);
    free(in);
}

START_TEST(receive_buffer)
{
    const struct size *size = &sizes[_i];
    struct sized sized;

    open_sized(&sized, size->wanted);
    struct pair *pair = &sized.pair;
    ck_assert_int_eq(get(sized.client, SO_RCVBUF), size->held);
    ck_assert_int_eq(get(sized.server, SO_RCVBUF), size->held);
    ck_assert_int_eq(get(pair->listener, SO_RCVBUF), size->held);
    ck_assert_int_eq(get(pair->server, SO_RCVBUF), 256 << 10); /* accepted before the option was set */
    must_fail(set(sized.server, SO_RCVBUF, 4096), EISCONN);
    if (size->held <= 1 << 20) {
        comes(pair->client_box, sized.client, pair->server_box, sized.server, (size_t)size->held);
        comes(pair->server_box, sized.server, pair->client_box, sized.client, (size_t)size->held);
    }
    close_sized(&sized);
}
END_TEST

/* The ring buffer wraps around many times, with transfers of all sizes. */
START_TEST(around)
{
    struct chance chance = chance_new();
    struct sized sized;
    uint64_t sent = 0, received = 0;
    uint8_t out[20000], in[20000];

    open_sized(&sized, 4 << 10 << _i);
    struct inbox *from = sized.pair.client_box, *to = sized.pair.server_box;
    while (received < 40u * (4 << 10 << _i)) {
        size_t length = chance_size(&chance, 1, sizeof out), done = 0;
        pattern_fill(out, length, 7, sent);
        must(exs_send(sized.client, out, length, 0, from->queue, NULL, NULL));
        while (done < length) {
            size_t some = chance_size(&chance, 1, sizeof in);
            must(exs_recv(sized.server, in, some, 0, to->queue, NULL, NULL));
            some = take_good(to, EXS_EVT_RECV, sized.server).exs_evt_union.exs_evt_xfer.exs_evt_length;
            pattern_check(in, some, 7, sent + done);
            done += some;
        }
        take_good(from, EXS_EVT_SEND, sized.client);
        sent += length;
        received += done;
    }
    close_sized(&sized);
}
END_TEST

/* ---- SO_SNDBUF -------------------------------------------------------------------------- */

#define FIRST (300 * KIB) /* more than the peer's ring buffer, so it is pending until the peer receives */

static long send_bytes(struct pair *pair, const void *bytes, size_t length, int flags, exs_mhandle_t region)
{
    return exs_send(pair->client, bytes, length, flags, pair->client_box->queue, (void *)(uintptr_t)bytes,
                    region);
}

static void receive_all(struct pair *pair, uint8_t *in, size_t length, size_t sends)
{
    for (size_t got = 0; got < length;) {
        must(exs_recv(pair->server, in + got, length - got, 0, pair->server_box->queue, NULL, NULL));
        got +=
            take_good(pair->server_box, EXS_EVT_RECV, pair->server).exs_evt_union.exs_evt_xfer.exs_evt_length;
    }
    for (size_t i = 0; i < sends; i++)
        take_good(pair->client_box, EXS_EVT_SEND, pair->client);
}

static void open_bounded(struct pair *pair, int kind, int bytes)
{
    pair_open_kind(pair, kind);
    ck_assert_int_eq(get(pair->client, SO_SNDBUF), INT_MAX);
    ck_assert_int_eq(get(pair->client, EXS_SO_SENDLIMIT), 0);
    must(set(pair->client, SO_SNDBUF, bytes));
    must(set(pair->client, EXS_SO_SENDLIMIT, 2));
    ck_assert_int_eq(get(pair->client, SO_SNDBUF), bytes);
    ck_assert_int_eq(get(pair->client, EXS_SO_SENDLIMIT), 1);
}

/* The limit is exact to the byte, except that a send is always started if no other is pending. A limit that is set
 * later counts the sends that are already pending. */
START_TEST(send_limit)
{
    uint8_t *out = new_buffer(FIRST), *in = new_buffer(FIRST + 2000);
    bool is_late = _i & 4, is_stream = kinds[_i & 3].type == SOCK_STREAM;
    struct pair pair;

    open_bounded(&pair, _i & 3, is_late ? INT_MAX : (int)FIRST + 1000);
    must(send_bytes(&pair, out, FIRST, 0, NULL));
    must(send_bytes(&pair, out, 500, 0, NULL));
    if (is_late)
        must(set(pair.client, SO_SNDBUF, (int)FIRST + 1000));
    must_fail(send_bytes(&pair, out, 501, 0, NULL), EAGAIN);
    must_fail(send_bytes(&pair, out, 501, MSG_DONTWAIT, NULL), EAGAIN);
    must(send_bytes(&pair, out, 500, 0, NULL));
    must_fail(send_bytes(&pair, out, 1, 0, NULL), EAGAIN);
    must(set(pair.client, EXS_SO_SENDLIMIT, 0));
    must(send_bytes(&pair, out, 1000, 0, NULL));
    must(set(pair.client, EXS_SO_SENDLIMIT, 1));
    must_fail(send_bytes(&pair, out, 1, 0, NULL), EAGAIN);
    must(set(pair.client, SO_SNDBUF, INT_MAX));
    if (is_stream)
        receive_all(&pair, in, FIRST + 2000, 4);
    else
        for (int i = 0; i < 4; i++)
            receive_all(&pair, in, 1, 1);  /* each message is truncated */
    must(set(pair.client, SO_SNDBUF, 10)); /* nothing is pending, so a send of any length is started */
    must(send_bytes(&pair, out, 100, 0, NULL));
    receive_all(&pair, in, is_stream ? 100 : 1, 1);
    inbox_quiet(pair.client_box, QUIET_MS);
    free(out);
    free(in);
    pair_close(&pair);
}
END_TEST

/* A cancelled send no longer counts. */
START_TEST(cancelled)
{
    uint8_t *out = new_buffer(FIRST), *in = new_buffer(2 * FIRST);
    struct pair pair;

    open_bounded(&pair, 0, (int)FIRST + 1000);
    must(send_bytes(&pair, out, FIRST, 0, NULL));
    must(send_bytes(&pair, out + 1, 400, 0, NULL));
    must(send_bytes(&pair, out + 2, 600, 0, NULL));
    must_fail(send_bytes(&pair, out, 1, 0, NULL), EAGAIN);
    ck_assert_int_eq(exs_cancel(pair.client, out + 1, 0), 1);
    take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ECANCELED);
    must_fail(send_bytes(&pair, out, 401, 0, NULL), EAGAIN);
    must(send_bytes(&pair, out, 400, 0, NULL));
    receive_all(&pair, in, FIRST + 1000, 3);
    must(send_bytes(&pair, out, FIRST, 0, NULL)); /* the limit is as before */
    must(send_bytes(&pair, out, 1000, 0, NULL));
    must_fail(send_bytes(&pair, out, 1, 0, NULL), EAGAIN);
    receive_all(&pair, in, FIRST + 1000, 2);
    free(out);
    free(in);
    pair_close(&pair);
}
END_TEST

/* A refused send has no effect: no event, no region in use, no open file, no end of the stream. */
START_TEST(refused)
{
    uint8_t *out = new_buffer(FIRST), *in = new_buffer(FIRST);
    exs_iovec_t pieces[2] = {{.exs_base = out, .exs_length = 5000},
                             {.exs_base = out + 5000, .exs_length = 5000}};
    exs_msghdr_t message = {.exs_iov = pieces, .exs_iovlen = 2};
    struct folder folder;
    struct pair pair;

    folder_make(&folder);
    open_bounded(&pair, _i, (int)FIRST);
    exs_mhandle_t region = exs_mregister(out, FIRST, 0);
    int fd = folder_file(&folder, "file", 1000);
    exs_xferfile_t file = by_fd(fd, 0, 0);
    file.exs_xfv.exs_fdv.exs_flags = EXS_SHUT_WR;
    must(send_bytes(&pair, out, FIRST, 0, NULL));
    int before = count_fds();
    must_fail(send_bytes(&pair, out, 1, 0, region), EAGAIN);
    must_fail(send_bytes(&pair, out, 100 * KIB, 0, NULL), EAGAIN);
    must_fail(send_bytes(&pair, out, 100, EXS_UNSIGNALED, NULL), EAGAIN);
    must_fail(exs_sendmsg(pair.client, &message, 0, pair.client_box->queue, NULL), EAGAIN);
    pieces[0].exs_mhandle = region;
    must_fail(exs_sendmsg(pair.client, &message, 0, pair.client_box->queue, NULL), EAGAIN);
    must_fail(exs_sendfile(pair.client, &file, 1, 0, pair.client_box->queue, NULL), EAGAIN);
    must(exs_mderegister(region, 0));
    ck_assert_int_eq(count_fds(), before);
    must(set(pair.client, EXS_SO_SENDLIMIT, 0));
    must(send_bytes(&pair, out, 1, 0, NULL)); /* writing has not been shut down */
    if (kinds[_i].type == SOCK_STREAM)
        receive_all(&pair, in, FIRST, 0);
    else
        receive_all(&pair, in, 1, 0);
    receive_all(&pair, in, 1, 2);
    inbox_quiet(pair.client_box, QUIET_MS);
    close(fd);
    folder_clear(&folder);
    free(out);
    free(in);
    pair_close(&pair);
}
END_TEST

struct sending { /* a thread */
    int socket;
    _Atomic pid_t tid;
};

static void *send_one(void *argument)
{
    struct sending *sending = argument;

    sending->tid = gettid();
    ck_assert_int_eq(exs_blocking_send(sending->socket, "x", 1, 0, NULL), 1);
    return NULL;
}

/* A blocking send is not refused: it waits until no other send is pending. */
START_TEST(calls_that_wait)
{
    uint8_t *out = new_buffer(FIRST), *in = new_buffer(FIRST + 1);
    struct pair pair;

    open_bounded(&pair, 0, 10);
    must(send_bytes(&pair, out, FIRST, 0, NULL));
    must_fail(exs_blocking_send(pair.client, "x", 1, MSG_DONTWAIT, NULL), EAGAIN);
    struct sending sending = {.socket = pair.client};
    pthread_t thread = thread_start(send_one, &sending);

    await_sleep(&sending.tid);
    receive_all(&pair, in, FIRST + 1, 1);
    thread_join(thread);
    ck_assert_int_eq(in[FIRST], 'x');
    free(out);
    free(in);
    pair_close(&pair);
}
END_TEST

/* The limit in bytes together with a timeout. */
START_TEST(with_a_time)
{
    const struct timeval limit = {.tv_usec = 50000}, none = {0}, minute = {.tv_sec = 60};
    uint8_t *out = new_buffer(FIRST), *in = new_buffer(FIRST + 2);
    struct pair pair;

    open_bounded(&pair, 0, (int)FIRST);
    must(exs_setsockopt(pair.client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    must(send_bytes(&pair, out, FIRST, 0, NULL));
    must_fail(send_bytes(&pair, out, 1, 0, NULL), EAGAIN);
    must(set(pair.client, SO_SNDBUF, INT_MAX));
    must(exs_setsockopt(pair.client, SOL_SOCKET, SO_SNDTIMEO, &minute, sizeof minute));
    must(send_bytes(&pair, out, 1, 0, NULL)); /* only time is limited */
    must(exs_setsockopt(pair.client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    exs_event_t event = take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ETIMEDOUT);
    /* Cancelled, because it would follow an incomplete send. */
    take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ECANCELED);
    must(set(pair.client, SO_SNDBUF, (int)FIRST));
    must(exs_setsockopt(pair.client, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none));
    must(send_bytes(&pair, out, 1, 0, NULL)); /* no other send is pending */
    receive_all(&pair, in, event.exs_evt_union.exs_evt_xfer.exs_evt_length + 1, 1);
    free(out);
    free(in);
    pair_close(&pair);
}
END_TEST

static bool is_writable(int socket)
{
    const struct timeval at_once = {0};
    exs_pollfd_t fd = {.exs_fd = socket, .exs_events = EXS_POLLOUT};
    int ready = exs_poll(&fd, 1, EXS_BLOCK, &at_once, NULL, NULL);

    must(ready);
    return ready == 1;
}

/* Bytes that the device has sent and the peer has not acknowledged still count. The peer process is stopped. */
START_TEST(not_acknowledged)
{
    char out[600] = {0}, ready;
    struct address address;
    struct child child;
    struct inbox box;

    if (on_rdma())
        return; /* the peer's kernel acknowledges */
    child_start(&child, child_accepts, NULL);
    init_library();
    inbox_open(&box, 4);
    hear(child.fd, &address, sizeof address);
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);
    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    take_good(&box, EXS_EVT_CONNECT, client);
    hear(child.fd, &ready, 1);
    process_stop(child.pid);
    must(set(client, SO_SNDBUF, 1000));
    ck_assert(is_writable(client));
    must(exs_send(client, out, 600, MSG_DONTWAIT, box.queue, NULL, NULL));
    ck_assert(!is_writable(client));
    must_fail(exs_send(client, out, 401, MSG_DONTWAIT, box.queue, NULL, NULL), EAGAIN);
    must(exs_send(client, out, 400, MSG_DONTWAIT, box.queue, NULL, NULL));
    must_fail(exs_send(client, out, 1, MSG_DONTWAIT, box.queue, NULL, NULL), EAGAIN);
    must(exs_send(client, out, 1, 0, box.queue, NULL, NULL)); /* without MSG_DONTWAIT a send may be queued */
    must(kill(child.pid, SIGCONT));
    for (int i = 0; i < 3; i++)
        take_good(&box, EXS_EVT_SEND, client);
    ck_assert(is_writable(client));
    must(exs_send(client, out, 600, MSG_DONTWAIT, box.queue, NULL, NULL));
    take_good(&box, EXS_EVT_SEND, client);
    close_socket(&box, client);
    inbox_close(&box);
    child_kill(&child);
}
END_TEST

/* With the limit on, a send is started whenever no other is pending, whatever space the peer has, and exs_poll reports
 * the socket as writable. */
START_TEST(writable_without_room)
{
    uint8_t *out = new_buffer(FIRST), *in = new_buffer(FIRST + 100);
    struct pair pair;

    open_bounded(&pair, _i, 1000);
    ck_assert(is_writable(pair.client)); /* also on a SEQPACKET, where the message then waits for a receive */
    must(send_bytes(&pair, out, FIRST, 0, NULL));
    ck_assert(!is_writable(pair.client));
    must_fail(send_bytes(&pair, out, 1, 0, NULL), EAGAIN);
    must(set(pair.client, EXS_SO_SENDLIMIT, 0));
    ck_assert(!is_writable(pair.client));
    must(set(pair.client, EXS_SO_SENDLIMIT, 1));
    receive_all(&pair, in, kinds[_i].type == SOCK_STREAM ? FIRST : 1, 1);
    ck_assert(is_writable(pair.client));
    /* Without the limit, a send with MSG_DONTWAIT needs space at the peer. */
    must(set(pair.client, EXS_SO_SENDLIMIT, 0));
    ck_assert_int_eq(is_writable(pair.client), kinds[_i].type == SOCK_STREAM);
    free(out);
    free(in);
    pair_close(&pair);
}
END_TEST

/* Accepted connections inherit the listener's options. */
START_TEST(listeners)
{
    uint8_t *out = new_buffer(FIRST);
    struct pair pair;
    int client, server;

    pair_open_kind(&pair, 0);
    must(set(pair.listener, SO_SNDBUF, 1234));
    must(set(pair.listener, EXS_SO_SENDLIMIT, 1));
    connect_ends(pair.listener, SOCK_STREAM, &pair.address, pair.client_box, pair.server_box, &client, &server);
    ck_assert_int_eq(get(server, SO_SNDBUF), 1234);
    ck_assert_int_eq(get(server, EXS_SO_SENDLIMIT), 1);
    ck_assert_int_eq(get(client, SO_SNDBUF), INT_MAX);
    must(exs_send(server, out, FIRST, 0, pair.server_box->queue, NULL, NULL));
    must_fail(exs_send(server, out, 1, 0, pair.server_box->queue, NULL, NULL), EAGAIN);
    must(exs_close(server, 0, pair.server_box->queue, NULL));
    take_failed(pair.server_box, EXS_EVT_SEND, server, ECANCELED);
    take_good(pair.server_box, EXS_EVT_CLOSE, server);
    close_socket(pair.client_box, client);
    free(out);
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("buffers");
    TCase *receives = add_case(suite, "SO_RCVBUF", 30), *sends = add_case(suite, "SO_SNDBUF", 20),
          *bare = add_bare_case(suite, "SO_SNDBUF, two processes", 20);

    tcase_add_loop_test(receives, receive_buffer, 0, COUNT(sizes));
    tcase_add_loop_test(receives, around, 0, 4);
    tcase_add_loop_test(sends, send_limit, 0, 8);
    tcase_add_test(sends, cancelled);
    tcase_add_loop_test(sends, writable_without_room, 0, 4);
    tcase_add_loop_test(sends, refused, 0, 4);
    tcase_add_test(sends, calls_that_wait);
    tcase_add_test(sends, with_a_time);
    tcase_add_test(bare, not_acknowledged);
    tcase_add_test(sends, listeners);
    return run_suite(suite);
}
