/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_badhello.c - peers whose hello, or whose reply to EXS's hello, violates protocol.h: EXS rejects them with the
 * reason, the application gets what exs_connect(3) and exs_accept(3) promise, and the next peer is served. The software
 * device and rdma-core behave alike.
 */
#include "check/support/rawpeer.h"

#define BYTES 20000

static struct inbox box;
static struct raw raw;
static struct address address;

static void set_up(void)
{
    init_library();
    inbox_open(&box, 64);
    raw_open(&raw, &box);
}

static void tear_down(void)
{
    raw_close(&raw);
    inbox_close(&box);
}

/* ---- Hellos ---------------------------------------------------------------------------- */

enum {
    NOTHING,
    ONE_BYTE,
    MAGIC,
    VERSION_NEXT,
    VERSION_0,
    OTHER_TYPE,
    NO_TYPE,
    NO_CREDITS,
    FEW_CREDITS,
    MANY_CREDITS,
    NO_ADVERTS,
    NO_RECV_RING,
    SMALL_RECV_RING,
    LARGE_RECV_RING,
    RECV_RING_WRAPS,
    LIES
};

/* reason: what EXS tells a client that sends this hello. error: of exs_connect to a server that replies with it. */
static const struct {
    int reason, error;
} answers[LIES] = {
    [NOTHING] = {HELLO_NO_EXS, EPROTO},
    [ONE_BYTE] = {HELLO_NO_EXS, EPROTO},
    [MAGIC] = {HELLO_NO_EXS, EPROTO},
    [VERSION_NEXT] = {HELLO_BAD_VERSION, EPROTONOSUPPORT},
    [VERSION_0] = {HELLO_BAD_VERSION, EPROTONOSUPPORT},
    [OTHER_TYPE] = {HELLO_BAD_TYPE, EPROTOTYPE},
    [NO_TYPE] = {HELLO_BAD_TYPE, EPROTOTYPE},
    [NO_CREDITS] = {HELLO_BAD_VALUE, EPROTO},
    [FEW_CREDITS] = {HELLO_BAD_VALUE, EPROTO},
    [MANY_CREDITS] = {HELLO_BAD_VALUE, EPROTO},
    [NO_ADVERTS] = {HELLO_BAD_VALUE, EPROTO},
    [NO_RECV_RING] = {HELLO_BAD_VALUE, EPROTO},
    [SMALL_RECV_RING] = {HELLO_BAD_VALUE, EPROTO},
    [LARGE_RECV_RING] = {HELLO_BAD_VALUE, EPROTO},
    [RECV_RING_WRAPS] = {HELLO_BAD_VALUE, EPROTO},
};

/* InfiniBand pads private data with zeros, so a wrong length alone proves nothing there. */
static size_t length_of(int lie)
{
    return lie == NOTHING ? 0 : lie == ONE_BYTE ? 1 : HELLO_SIZE;
}

static struct hello lying(int lie)
{
    struct hello hello = raw_hello(SOCK_STREAM);

    switch (lie) {
    case MAGIC:
        hello.magic++;
        break;
    case VERSION_NEXT:
        hello.version++;
        break;
    case VERSION_0:
        hello.version = 0;
        break;
    case OTHER_TYPE:
        hello.socktype = SOCK_SEQPACKET;
        break;
    case NO_TYPE:
        hello.socktype = 0;
        break;
    case NO_CREDITS:
        hello.credits = 0;
        break;
    case FEW_CREDITS:
        hello.credits = HELLO_CREDITS_MIN - 1;
        break;
    case MANY_CREDITS:
        hello.credits = HELLO_CREDITS_MAX + 1;
        break;
    case NO_ADVERTS:
        hello.adverts = 0;
        break;
    case NO_RECV_RING:
        hello.recv_ring_size = 0;
        break;
    case SMALL_RECV_RING:
        hello.recv_ring_size = HELLO_RECV_RING_MIN - 1;
        break;
    case LARGE_RECV_RING:
        hello.recv_ring_size = HELLO_RECV_RING_MAX + 1;
        break;
    case RECV_RING_WRAPS:
        hello.recv_ring_addr = UINT64_MAX - 5;
        break;
    default:
        break;
    }
    return hello;
}

/* ---- Peers that connect ---------------------------------------------------------------- */

/* The pending accept returns the next client that sends a valid hello. */
static void next_is_accepted(int listener, const exs_acceptaddr_t *wanted)
{
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    take_good(&box, EXS_EVT_CONNECT, client);
    take_good(&box, EXS_EVT_ACCEPT, listener);
    pass_bytes(&box, client, &box, wanted->exs_socket, BYTES, 1);
    pass_bytes(&box, wanted->exs_socket, &box, client, BYTES, 2);
    close_socket(&box, client);
    close_socket(&box, wanted->exs_socket);
}

START_TEST(a_client_is_refused)
{
    exs_acceptaddr_t wanted = {.exs_addr = NULL};

    set_up();
    int listener = open_listener(AF_INET, SOCK_STREAM, 4, &address);
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    raw_request(&raw, &address, lying(_i), length_of(_i));
    struct raw_event event = raw_expect(&raw, RDMA_CM_EVENT_REJECTED);
    ck_assert_uint_ge(event.length, HELLO_SIZE);
    ck_assert_uint_eq(raw.there.magic, HELLO_MAGIC);
    ck_assert_uint_eq(raw.there.version, HELLO_VERSION);
    ck_assert_int_eq(raw.there.reason, answers[_i].reason);
    inbox_quiet(&box, QUIET_MS); /* the accept is still pending */
    next_is_accepted(listener, &wanted);
    close_socket(&box, listener);
    tear_down();
}
END_TEST

/* The smallest and the largest value of each field are valid. */
START_TEST(limits_are_good)
{
    static const struct hello limits[] = {
        {.credits = HELLO_CREDITS_MIN, .adverts = 1, .recv_ring_size = HELLO_RECV_RING_MIN},
        {.credits = HELLO_CREDITS_MAX, .adverts = UINT16_MAX, .recv_ring_size = HELLO_RECV_RING_MAX}};
    struct hello hello = raw_hello(SOCK_STREAM);
    exs_acceptaddr_t wanted = {.exs_addr = NULL};

    hello.credits = limits[_i].credits;
    hello.adverts = limits[_i].adverts;
    hello.recv_ring_size = limits[_i].recv_ring_size;
    set_up();
    int listener = open_listener(AF_INET, SOCK_STREAM, 4, &address);
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    raw_connect(&raw, &address, hello);
    take_good(&box, EXS_EVT_ACCEPT, listener);
    close_socket(&box, wanted.exs_socket);
    close_socket(&box, listener);
    tear_down();
}
END_TEST

/* ---- Peers that EXS connects to -------------------------------------------------------- */

static int connecting(void)
{
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    raw_listen(&raw, &address);
    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    raw_expect(&raw, RDMA_CM_EVENT_CONNECT_REQUEST);
    ck_assert_uint_eq(raw.there.magic, HELLO_MAGIC);
    ck_assert_uint_eq(raw.there.version, HELLO_VERSION);
    ck_assert_int_eq(raw.there.socktype, SOCK_STREAM);
    return client;
}

/* After the failure the socket can connect to another peer. */
static void connects_elsewhere(int client)
{
    exs_acceptaddr_t wanted = {.exs_addr = NULL};
    int listener = open_listener(AF_INET, SOCK_STREAM, 4, &address);

    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    take_good(&box, EXS_EVT_CONNECT, client);
    take_good(&box, EXS_EVT_ACCEPT, listener);
    pass_bytes(&box, client, &box, wanted.exs_socket, BYTES, 1);
    close_socket(&box, client);
    close_socket(&box, wanted.exs_socket);
    close_socket(&box, listener);
}

START_TEST(a_server_is_left)
{
    set_up();
    int client = connecting();
    raw_accept(&raw, lying(_i), length_of(_i));
    take_failed(&box, EXS_EVT_CONNECT, client, answers[_i].error);
    inbox_quiet(&box, QUIET_MS);
    connects_elsewhere(client);
    tear_down();
}
END_TEST

static const struct {
    int reason; /* -1: rejected without private data; -2: private data is no hello */
    int error;
} refusals[] = {
    {-1, ECONNREFUSED},
    {-2, ECONNREFUSED},
    {HELLO_OK, ECONNREFUSED},
    {HELLO_BAD_VERSION, EPROTONOSUPPORT},
    {HELLO_BAD_TYPE, EPROTOTYPE},
    {HELLO_BAD_VALUE, EPROTO},
    {HELLO_NO_RESOURCES, ECONNREFUSED},
    {HELLO_NO_EXS, EPROTO},
    {255, ECONNREFUSED},
};

START_TEST(a_server_refuses)
{
    struct hello hello = {
        .magic = HELLO_MAGIC, .version = HELLO_VERSION, .reason = (uint8_t)refusals[_i].reason};
    uint8_t bytes[HELLO_SIZE];

    set_up();
    int client = connecting();
    xs_hello_pack(&hello, bytes);
    if (refusals[_i].reason == -2)
        memset(bytes, 0xFF, sizeof bytes);
    raw_reject(&raw, bytes, refusals[_i].reason == -1 ? 0 : sizeof bytes);
    take_failed(&box, EXS_EVT_CONNECT, client, refusals[_i].error);
    connects_elsewhere(client);
    tear_down();
}
END_TEST

/* The server receives the request and does not reply: the connect fails after the application's timeout, not before. */
START_TEST(a_server_is_silent)
{
    struct timeval limit = {.tv_sec = 2};

    set_up();
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);
    raw_listen(&raw, &address);
    must(exs_connect(client, SA(&address), address.length, 0, &limit, box.queue, NULL));
    raw_expect(&raw, RDMA_CM_EVENT_CONNECT_REQUEST);
    take_failed(&box, EXS_EVT_CONNECT, client, ETIMEDOUT);
    connects_elsewhere(client);
    tear_down();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("badhello");
    TCase *clients = add_bare_case(suite, "clients", 20), *servers = add_bare_case(suite, "servers", 20);

    tcase_add_loop_test(clients, a_client_is_refused, 0, LIES);
    tcase_add_loop_test(clients, limits_are_good, 0, 2);
    tcase_add_loop_test(servers, a_server_is_left, 0, LIES);
    tcase_add_loop_test(servers, a_server_refuses, 0, COUNT(refusals));
    tcase_add_test(servers, a_server_is_silent);
    return run_suite(suite);
}
