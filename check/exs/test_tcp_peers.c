/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_tcp_peers.c - peers of the tcp link that complete the handshake like an EXS peer and then write invalid
 * or incomplete frames, or read nothing. Such a peer breaks its own connection, with one error, and no other
 * one: the server serves a good client before and after each step, and keeps no descriptor.
 *
 * The peer is a plain TCP socket.
 */
#include "check/support/support.h"

#include <poll.h>
#include "check/support/rawpeer.h"
#include "core/base/bytes.h"
#include "soft/cm/cm.h"
#include "soft/cm/cm_message.h"
#include "soft/link/tcp_frame.h"

#define SOON_S (1.25 * LATE_S)

enum { SENDS = 32, PIECE = 65536, SILENT = 200, SILENT_KIB = 40, MORE_SOCKETS_BY_UDP = 1 };

static struct inbox box;
static struct address address;
static exs_acceptaddr_t wanted;
static int listener, fds;
static char *sent;

static void serve_good_client(void)
{
    int client, server;

    must(client = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    take_good(&box, EXS_EVT_CONNECT, client);
    server = take_good(&box, EXS_EVT_ACCEPT, listener).exs_evt_union.exs_evt_accept.exs_evt_newsocket;
    pass_bytes(&box, client, &box, server, 20000, 1);
    pass_bytes(&box, server, &box, client, 20000, 2);
    close_socket(&box, client);
    close_socket(&box, server);
}

static void begin(void)
{
    must(setenv("EXS_LINK", "tcp", 1));
    init_library();
    inbox_open(&box, SILENT + SENDS);
    listener = open_listener(AF_INET, SOCK_STREAM, SILENT, &address);
    sent = new_buffer(PIECE);
    serve_good_client();
    serve_good_client();
    fds = count_fds() + MORE_SOCKETS_BY_UDP;
}

static void end_of_it(void)
{
    double limit = seconds_now() + SOON_S;

    while (count_fds() > fds && seconds_now() < limit)
        inbox_pump(&box, 10);
    ck_assert_int_le(count_fds(), fds);
    serve_good_client();
    close_socket(&box, listener);
    inbox_close(&box);
    free(sent);
}

/* ---- The peer ---- */

static void say(int fd, const void *bytes, size_t length)
{
    ck_assert_int_eq(send(fd, bytes, length, MSG_NOSIGNAL), length);
}

static void say_message(int fd, const struct cm_message *message)
{
    uint8_t bytes[CM_SIZE_MAX];

    say(fd, bytes, cm_message_encode(message, bytes));
}

static void say_header(int fd, uint32_t type, uint32_t length, uint32_t ack)
{
    uint8_t header[TCP_FRAME_HEADER];

    put32(header, type << 24 | length);
    put32(header + 4, ack);
    say(fd, header, sizeof header);
}

static void await_input(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    double limit = seconds_now() + SOON_S;

    while (poll(&wait, 1, 0) == 0 && seconds_now() < limit)
        inbox_pump(&box, 1);
    ck_assert_int_eq(poll(&wait, 1, 0), 1);
}

/* Receives the next message, which has this type. */
static struct cm_message hear_message(int fd, enum cm_type type)
{
    uint8_t bytes[CM_SIZE_MAX];
    struct cm_message message;
    ssize_t got;

    await_input(fd);
    got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    ck_assert_int_ge(got, CM_HEADER);
    ck_assert_int_ge(got, cm_message_size(bytes, (size_t)got));
    ck_assert(cm_message_decode(&message, bytes));
    ck_assert_int_eq(message.type, type);
    return message;
}

static void put_hello(struct cm_message *message)
{
    struct hello hello = raw_hello(SOCK_STREAM);

    hello.recv_ring_addr = 0x10000;
    hello.recv_ring_rkey = 0x101;
    xs_hello_pack(&hello, message->private_data);
    message->private_length = HELLO_SIZE;
}

/* A message with the parameters of this end's queue pair. */
static struct cm_message message_of(enum cm_type type)
{
    return (struct cm_message){.type = type,
                               .qp_num = 0x1234,
                               .psn = 0x777,
                               .udp_port = 4791,
                               .mtu = 5,
                               .responder_resources = 16,
                               .initiator_depth = 16,
                               .retry_count = type == CM_REQ ? 7 : 0,
                               .rnr_retry_count = 7};
}

/* Connects as an EXS peer with or without the tcp link does. Returns the peer's socket, and the server's in
 * *server. */
static int connect_by(bool tcp, int *server)
{
    struct cm_message request = message_of(CM_REQ);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    request.tcp = tcp;
    put_hello(&request);
    must(fd);
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    must(connect(fd, SA(&address), address.length));
    say_message(fd, &request);
    ck_assert(hear_message(fd, CM_REP).tcp == tcp);
    say_message(fd, &(struct cm_message){.type = CM_RTU, .qp_num = request.qp_num});
    *server = take_good(&box, EXS_EVT_ACCEPT, listener).exs_evt_union.exs_evt_accept.exs_evt_newsocket;
    return fd;
}

static int connect_peer(int *server)
{
    return connect_by(true, server);
}

/* ---- Peers of earlier releases, which support the other links only ---------------------- */

static unsigned count_by_udp(void)
{
    struct soft_cm_counters counters;

    soft_query_cm_counters(&counters);
    return (unsigned)counters.by_udp;
}

START_TEST(older_client)
{
    unsigned before = count_by_udp();
    char byte;
    int server, fd = connect_by(false, &server);

    ck_assert_uint_eq(count_by_udp(), before + 1);
    must(exs_recv(server, &byte, 1, 0, box.queue, NULL, NULL));
    say_message(fd, &(struct cm_message){.type = CM_DREQ});
    take_failed(&box, EXS_EVT_RECV, server, ECONNRESET);
    close_socket(&box, server);
    close(fd);
}
END_TEST

START_TEST(older_server)
{
    struct cm_message reply = message_of(CM_REP);
    struct address where;
    unsigned before = count_by_udp();
    char byte;
    int waiting = tcp_listener(&where), client = exs_socket(PF_INET, SOCK_STREAM, 0), fd;

    put_hello(&reply);
    must(exs_connect(client, SA(&where), where.length, 0, NULL, box.queue, NULL));
    await_input(waiting);
    must(fd = accept(waiting, NULL, NULL));
    ck_assert(hear_message(fd, CM_REQ).tcp);
    say_message(fd, &reply);
    take_good(&box, EXS_EVT_CONNECT, client);
    hear_message(fd, CM_RTU);
    ck_assert_uint_eq(count_by_udp(), before + 1);
    must(exs_recv(client, &byte, 1, 0, box.queue, NULL, NULL));
    say_message(fd, &(struct cm_message){.type = CM_DREQ});
    take_failed(&box, EXS_EVT_RECV, client, ECONNRESET);
    close_socket(&box, client);
    close(fd);
    close(waiting);
}
END_TEST

/* ---- What the peer does ---- */

/* Writes an invalid frame. The server's connection breaks although the peer's socket stays open. */
static void say_garbage(int fd, int kind)
{
    static const char text[] = "GET / HTTP/1.1\r\n\r\n";

    switch (kind) {
    case 0:
        say(fd, text, sizeof text);
        break;
    case 1: /* the longest possible length */
        say_header(fd, TCP_FRAME_PACKET, 0xffffff, 0);
        break;
    case 2:
        say_header(fd, TCP_FRAME_PACKET, 0, 0);
        break;
    case 3: /* an acknowledgement without its flag */
        say_header(fd, TCP_FRAME_PACKET, TCP_PACKET_MIN, 1);
        break;
    case 4:
        say_header(fd, TCP_FRAME_DREQ, 0, 0);
        say_header(fd, TCP_FRAME_PACKET, TCP_PACKET_MAX, 0);
        say(fd, sent, PIECE);
        break;
    default:
        say_header(fd, 255, 0xffffff, UINT32_MAX);
    }
}

START_TEST(garbage)
{
    char byte;
    int server, fd = connect_peer(&server);
    double start = seconds_now();

    must(exs_recv(server, &byte, 1, 0, box.queue, NULL, NULL));
    say_garbage(fd, _i);
    take_failed(&box, EXS_EVT_RECV, server, ECONNRESET);
    ck_assert(seconds_now() - start < SOON_S);
    serve_good_client();
    close_socket(&box, server);
    close(fd);
}
END_TEST

/* A frame arrives byte by byte and never completely. No error is reported before the peer closes. */
START_TEST(part_of_a_frame)
{
    static const uint32_t lengths[] = {100, TCP_PACKET_MAX};
    uint8_t header[TCP_FRAME_HEADER];
    char byte;
    int server, fd = connect_peer(&server);

    must(exs_recv(server, &byte, 1, 0, box.queue, NULL, NULL));
    put32(header, TCP_FRAME_PACKET << 24 | lengths[_i % 2]);
    put32(header + 4, 0);
    for (size_t i = 0; i < (_i < 2 ? sizeof header - 1 : 99); i++) {
        say(fd, i < sizeof header ? (const char *)header + i : sent + i, 1);
        inbox_pump(&box, 1);
        if (i % 32 == 0)
            serve_good_client();
    }
    inbox_quiet(&box, QUIET_MS);
    close(fd);
    take_failed(&box, EXS_EVT_RECV, server, ECONNRESET);
    close_socket(&box, server);
}
END_TEST

/* The peer reads nothing. Its data wait in the application's buffers, as far as the socket does not take them. */
START_TEST(reads_nothing)
{
    int server, fd = connect_peer(&server);

    for (int i = 0; i < SENDS; i++)
        must(exs_send(server, sent, PIECE, 0, box.queue, NULL, NULL));
    for (int i = 0; i < 3; i++)
        serve_good_client();
    close(fd);
    for (int i = 0; i < SENDS; i++)
        take_failed(&box, EXS_EVT_SEND, server, ECONNRESET);
    serve_good_client();
    close_socket(&box, server);
}
END_TEST

/* Many peers send no complete frame, only a part of a header. */
START_TEST(many_say_nothing)
{
    static int peers[SILENT], servers[SILENT];
    long before = resident_kib(), each;

    for (int i = 0; i < SILENT; i++) {
        peers[i] = connect_peer(&servers[i]);
        say(peers[i], "\1", 1);
    }
    serve_good_client();
    each = (resident_kib() - before) / SILENT;
    if (sees_bytes())
        ck_assert_int_le(each, SILENT_KIB);
    for (int i = 0; i < SILENT; i++) {
        close(peers[i]);
        close_socket(&box, servers[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tcp_peers");
    TCase *tcase = add_bare_case(suite, "peers", 30);

    if (on_rdma())
        return 77; /* only the software device has this link */
    tcase_add_checked_fixture(tcase, begin, end_of_it);
    tcase_add_test(tcase, older_client);
    tcase_add_test(tcase, older_server);
    tcase_add_loop_test(tcase, garbage, 0, 6);
    tcase_add_loop_test(tcase, part_of_a_frame, 0, 4);
    tcase_add_test(tcase, reads_nothing);
    tcase_add_test(tcase, many_say_nothing);
    return run_suite(suite);
}
