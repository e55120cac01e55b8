/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_roce_hosts.c - EXS connections between two hosts when EXS_ROCE enables RoCE's UDP port: what it costs
 * connections that do not need it, hosts with IPv6 only, a lost message of the handshake, detection of a host
 * that is gone, and a flood of requests. The hosts are network namespaces, each end is a process, and the test
 * captures the packets between them.
 */
#include "check/support/support.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <poll.h>
#include <stdatomic.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include "check/support/ibwords.h"
#include "check/support/rawpeer.h"
#include "check/support/roce.h"
#include "check/support/twonets.h"
#include "core/base/bytes.h"
#include "core/conn/protocol.h"
#include "soft/cm/cm_message.h"
#include "soft/cm/ib_address.h"
#include "soft/cm/ib_message.h"
#include "soft/engine/wire.h"
#include "soft/link/icrc.h"

#define PORT 7471
#define CONNECTIONS 20
#define PROBE_S 8 /* s; the longest time between keepalive probes of an idle peer, from exs(7) */
#define FLOOD 1000

static struct address at(const char *text)
{
    struct address address = {.length = sizeof(struct sockaddr_in)};
    struct sockaddr_in *in = (struct sockaddr_in *)&address.storage;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address.storage;

    in->sin_family = AF_INET;
    in->sin_port = htons(PORT); /* at the same offset in sockaddr_in and sockaddr_in6 */
    if (strchr(text, ':') == NULL) {
        ck_assert_int_eq(inet_pton(AF_INET, text, &in->sin_addr), 1);
        return address;
    }
    address.length = sizeof(*in6);
    in6->sin6_family = AF_INET6;
    ck_assert_int_eq(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
    return address;
}

/* ---- Captured packets ------------------------------------------------------------------------ */

/* packet socket in the far host's namespace */
static int cable;

static void hear_cable(void)
{
    struct sockaddr_ll here = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    int room = 8 << 20;

    twonets_enter(true);
    must(cable = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    here.sll_ifindex = (int)if_nametoindex("far0");
    (void)setsockopt(cable, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
    must(bind(cable, (struct sockaddr *)&here, sizeof(here)));
    twonets_enter(false);
}

struct packet {
    unsigned protocol;          /* IPPROTO_TCP or IPPROTO_UDP */
    const unsigned char *bytes; /* behind the IP header */
    size_t length;
    unsigned source, destination; /* ports */
};

/* Returns the next captured IPv4 packet. False: there is none. */
static bool next_packet(struct packet *packet)
{
    static unsigned char bytes[65536];
    const struct iphdr *ip = (const struct iphdr *)bytes;
    ssize_t got;

    while ((got = recv(cable, bytes, sizeof(bytes), 0)) >= 0) {
        size_t header = got >= (ssize_t)sizeof(*ip) ? (size_t)ip->ihl * 4 : 0;

        if (header < sizeof(*ip) || ip->version != 4 || (size_t)got < header + 8)
            continue;
        *packet =
            (struct packet){.protocol = ip->protocol, .bytes = bytes + header, .length = (size_t)got - header};
        packet->source = get16(packet->bytes);
        packet->destination = get16(packet->bytes + 2);
        return true;
    }
    return false;
}

/* ---- Hosts ----------------------------------------------------------------------------------- */

struct host {
    const char *roce; /* EXS_ROCE */
    bool far;
    int connections; /* number of connections that it opens */
    bool by_events;  /* accepts asynchronously */
    bool by_ipv6;
    bool speechless; /* sends no RTU */
};

static struct address address_of(const struct host *host, bool far)
{
    if (host->by_ipv6)
        return at(far ? TWONETS_FAR6 : TWONETS_NEAR6);
    return at(far ? TWONETS_FAR : TWONETS_NEAR);
}

static int new_socket(const struct address *address)
{
    return exs_socket(SA(address)->sa_family, SOCK_STREAM, 0);
}

static void go_to(const struct host *host)
{
    twonets_enter(host->far);
    must(setenv("EXS_DEVICE", "soft", 1));
    must(setenv("EXS_ROCE", host->roce, 1));
    must(exs_init(EXS_VERSION));
}

/* Accepts connections one after the other, each until its end, for ever. */
static void serve(int fd, void *arg)
{
    const struct host *host = arg;
    struct address here = at(host->far ? TWONETS_FAR : TWONETS_NEAR);
    int listener, sock;
    char byte;

    go_to(host);
    must(listener = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_bind(listener, SA(&here), here.length));
    must(exs_listen(listener, 128));
    tell(fd, "", 1);
    for (;;) {
        must(sock = exs_blocking_accept(listener, NULL, NULL));
        while (exs_read(sock, &byte, 1) == 1)
            ;
        must(exs_blocking_close(sock));
    }
}

/* Opens this number of connections, one after the other. Tells the parent the shortest time, in seconds. */
static void connect_again_and_again(int fd, void *arg)
{
    const struct host *host = arg;
    struct address there = at(host->far ? TWONETS_NEAR : TWONETS_FAR);
    double least = 1e9;

    go_to(host);
    for (int i = 0; i < host->connections; i++) {
        double start = seconds_now();
        int sock;

        must(sock = exs_socket(PF_INET, SOCK_STREAM, 0));
        must(exs_blocking_connect(sock, SA(&there), there.length));
        if (seconds_now() - start < least)
            least = seconds_now() - start;
        must(exs_blocking_close(sock));
    }
    tell(fd, &least, sizeof(least));
}

static void start_server(struct child *server, struct host *host)
{
    char ready;

    child_start(server, serve, host);
    hear(server->fd, &ready, 1);
}

/* ---- Costs ----------------------------------------------------------------------------------- */

struct cost {
    int begun;     /* SYN packets: two for each TCP connection */
    int words[16]; /* messages of the connection manager, by type (cm_message.h) */
    int roce;      /* packets from or to RoCE's port */
    double least;
};

/* Counts the messages in a TCP segment, except DREQ: how many of these end a connection depends on timing. */
static void count_words(struct cost *cost, const unsigned char *bytes, size_t length)
{
    int size;

    while (length >= CM_HEADER && (size = cm_message_size(bytes, length)) > 0 && (size_t)size <= length) {
        if (bytes[5] != CM_DREQ)
            cost->words[bytes[5] % COUNT(cost->words)]++;
        bytes += size;
        length -= (size_t)size;
    }
}

static void count(struct cost *cost, const struct packet *packet)
{
    const struct tcphdr *tcp = (const struct tcphdr *)packet->bytes;

    if (packet->protocol == IPPROTO_TCP) {
        cost->begun += tcp->syn;
        count_words(cost, packet->bytes + tcp->doff * 4, packet->length - (size_t)tcp->doff * 4);
    } else if (packet->protocol == IPPROTO_UDP) {
        cost->roce += packet->source == SOFT_UDP_PORT || packet->destination == SOFT_UDP_PORT;
    }
}

static struct cost cost_of(const char *roce)
{
    struct host near = {.roce = roce, .connections = CONNECTIONS}, far = {.roce = roce, .far = true};
    struct child server, client;
    struct cost cost = {.begun = 0};
    struct packet packet;

    while (next_packet(&packet))
        ;
    start_server(&server, &far);
    child_start(&client, connect_again_and_again, &near);
    hear(client.fd, &cost.least, sizeof(cost.least));
    child_join(&client);
    child_kill(&server);
    while (next_packet(&packet))
        count(&cost, &packet);
    printf(
        "EXS_ROCE=%s: %d beginnings, %d requests by TCP, %d packets by RoCE's port, a connection in %.0f us\n",
        roce, cost.begun, cost.words[CM_REQ], cost.roce, cost.least * 1e6);
    return cost;
}

/* Two EXS hosts connect through TCP with EXS_ROCE as they do without: the same packets, in the same time. */
START_TEST(costs_two_of_ours_nothing)
{
    struct cost off, automatic;

    hear_cable();
    off = cost_of("off");
    automatic = cost_of(_i == 0 ? "auto" : "on");
    ck_assert_int_eq(off.begun, 2 * CONNECTIONS);
    ck_assert_int_eq(automatic.begun, off.begun);
    ck_assert_int_eq(off.words[CM_REQ], CONNECTIONS);
    ck_assert_mem_eq(automatic.words, off.words, sizeof(off.words));
    ck_assert_int_eq(automatic.roce, 0);
    ck_assert_msg(automatic.least - off.least < LATE_S / 1e3, "%.0f us instead of %.0f", automatic.least * 1e6,
                  off.least * 1e6);
    close(cable);
}
END_TEST

/* ---- A lost final message -------------------------------------------------------------------- */

#define RTU_AT (ROCE_BTH + ROCE_DETH + 16) /* offset of a management datagram's attribute */

static bool speechless; /* this process sends no RTU */

/* Replaces the system's function for the library. */
__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    static ssize_t (*_Atomic real)(int, const struct msghdr *, int);
    const struct iovec *first = message->msg_iov;

    if (atomic_load(&real) == NULL) {
        ssize_t (*found)(int, const struct msghdr *, int);

        *(void **)&found = dlsym(RTLD_NEXT, "sendmsg");
        atomic_store(&real, found);
    }
    if (speechless && first->iov_len == ROCE_BTH + ROCE_DETH + IB_MAD_BYTES + ICRC_SIZE &&
        ((const unsigned char *)first->iov_base)[0] == ROCE_UD + SEND_ONLY &&
        get16((const unsigned char *)first->iov_base + RTU_AT) == IB_RTU)
        return (ssize_t)first->iov_len;
    return atomic_load(&real)(fd, message, flags);
}

/* Sends a byte immediately after the connect, and receives it back. */
static void speak(int fd, void *arg)
{
    const struct host *host = arg;
    struct address there = address_of(host, !host->far);
    char byte = 'x';
    int sock;

    speechless = host->speechless;
    go_to(host);
    must(sock = new_socket(&there));
    must(exs_blocking_connect(sock, SA(&there), there.length));
    ck_assert_int_eq(exs_write(sock, &byte, 1), 1);
    ck_assert_int_eq(exs_read(sock, &byte, 1), 1);
    must(exs_blocking_close(sock));
    tell(fd, &byte, 1);
}

static int accept_one(int listener, const struct host *host)
{
    exs_acceptaddr_t element = {.exs_addr = NULL};
    struct inbox box;

    if (!host->by_events)
        return exs_blocking_accept(listener, NULL, NULL);
    inbox_open(&box, 64);
    must(exs_accept(listener, &element, 1, 0, box.queue));
    return take_good(&box, EXS_EVT_ACCEPT, listener).exs_evt_union.exs_evt_accept.exs_evt_newsocket;
}

/* Accepts one connection, returns its byte, and waits for the end of stream. */
static void echo(int fd, void *arg)
{
    const struct host *host = arg;
    struct address here = address_of(host, host->far);
    int listener, sock;
    char byte;

    go_to(host);
    must(listener = new_socket(&here));
    must(exs_bind(listener, SA(&here), here.length));
    must(exs_listen(listener, 128));
    tell(fd, "", 1);
    must(sock = accept_one(listener, host));
    ck_assert_int_eq(exs_read(sock, &byte, 1), 1);
    ck_assert_int_eq(exs_write(sock, &byte, 1), 1);
    ck_assert_int_eq(exs_read(sock, &byte, 1), 0);
    must(exs_blocking_close(sock));
    tell(fd, &byte, 1);
}

static void speak_and_echo(struct host *near, struct host *far)
{
    struct child server, client;
    char byte;

    child_start(&server, echo, far);
    hear(server.fd, &byte, 1);
    child_start(&client, speak, near);
    hear(client.fd, &byte, 1);
    ck_assert_int_eq(byte, 'x');
    hear(server.fd, &byte, 1);
    child_join(&client);
    child_join(&server);
}

/* The listener never gets the RTU. The client's data establish the connection instead. */
START_TEST(data_is_as_good_as_the_last_word)
{
    struct host near = {.roce = "only", .speechless = true},
                far = {.roce = "only", .far = true, .by_events = _i == 1};

    speak_and_echo(&near, &far);
}
END_TEST

static void move_to_ipv6(void)
{
    if (!twonets_by_ipv6_alone())
        perror("IPv6 addresses");
}

/* Hosts without IPv4 addresses. */
START_TEST(by_ipv6_alone)
{
    struct host near = {.roce = _i == 0 ? "only" : "on", .by_ipv6 = true},
                far = {.roce = "on", .far = true, .by_ipv6 = true};

    speak_and_echo(&near, &far);
}
END_TEST

/* ---- A host that is gone --------------------------------------------------------------------- */

/* Connects and waits. */
static void connect_and_wait(int fd, void *arg)
{
    const struct host *host = arg;
    struct address there = at(host->far ? TWONETS_NEAR : TWONETS_FAR);
    char byte;
    int sock;

    go_to(host);
    must(sock = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_blocking_connect(sock, SA(&there), there.length));
    tell(fd, "", 1);
    (void)exs_read(sock, &byte, 1);
}

static bool is_probe(const struct packet *packet)
{
    struct roce roce;

    return packet->protocol == IPPROTO_UDP && packet->destination == SOFT_UDP_PORT &&
           packet->length > 8 + ICRC_SIZE &&
           roce_read(&roce, packet->bytes + 8, packet->length - 8 - ICRC_SIZE) && roce.opcode == WRITE_ONLY &&
           roce.dma_length == 0;
}

/* Without a TCP connection, on which the kernel would send keepalives, the library probes an idle peer. */
START_TEST(an_idle_peer_is_asked_for)
{
    struct host near = {.roce = "only"}, far = {.roce = "only", .far = true};
    struct child server, client;
    struct packet packet;
    bool probed = false;
    char ready;

    hear_cable();
    start_server(&server, &far);
    child_start(&client, connect_and_wait, &near);
    hear(client.fd, &ready, 1);
    double end = seconds_now() + PROBE_S + LATE_S;
    while (!probed && seconds_now() < end) {
        struct pollfd one = {.fd = cable, .events = POLLIN};

        (void)poll(&one, 1, 100);
        while (!probed && next_packet(&packet))
            probed = is_probe(&packet);
    }
    ck_assert_msg(probed, "nobody asked within %.1f s", PROBE_S + LATE_S);
    child_kill(&client);
    child_kill(&server);
    close(cable);
}
END_TEST

/* ---- Floods ---------------------------------------------------------------------------------- */

/* Sends `count` requests from the far host to queue pair 1 of the near one. Nothing receives the answers. */
static void flood(int count, const unsigned char *hello, size_t length)
{
    struct soft_path path = {.local.in = {.sin_family = AF_INET}, .remote.in = {.sin_family = AF_INET}};
    socklen_t size = sizeof(path.local.in);
    int fd, mode = IP_PMTUDISC_DO;

    twonets_enter(true);
    must(fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    twonets_enter(false);
    must(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &mode, sizeof(mode)));
    path.remote.in.sin_port = htons(SOFT_UDP_PORT);
    inet_pton(AF_INET, TWONETS_NEAR, &path.remote.in.sin_addr);
    must(connect(fd, &path.remote.sa, sizeof(path.remote.in)));
    must(getsockname(fd, &path.local.sa, &size));
    for (int i = 0; i < count; i++) {
        struct ib_message req = ib_request(TWONETS_FAR, TWONETS_NEAR, PORT, (uint32_t)i + 1);
        unsigned char packet[ROCE_MAX];

        req.req.qpn += (uint32_t)i;
        memcpy(req.private_data + IB_ADDRESS_BYTES, hello, length);
        must(send(fd, packet, ib_packet(packet, &path, &req, IBWORDS_QKEY), 0));
    }
    close(fd);
}

/* Accepts connections and closes each immediately. */
static void receive_visitors(int fd, void *arg)
{
    const struct host *host = arg;
    struct address here = at(TWONETS_NEAR);
    exs_acceptaddr_t element = {.exs_addr = NULL};
    struct inbox box;
    int listener;

    go_to(host);
    inbox_open(&box, 64);
    must(listener = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_bind(listener, SA(&here), here.length));
    must(exs_listen(listener, 128));
    must(exs_accept(listener, &element, 1, EXS_MULTISHOT, box.queue));
    tell(fd, "", 1);
    for (;;) {
        exs_event_t event = inbox_take(&box, -1, -1);

        if (event.exs_evt_type == EXS_EVT_ACCEPT && event.exs_evt_errno == 0)
            must(exs_close(event.exs_evt_union.exs_evt_accept.exs_evt_newsocket, 0, box.queue, NULL));
    }
}

/* A client connects after a thousand requests that nothing follows. */
START_TEST(a_flood_harms_nobody)
{
    struct host near = {.roce = "on"}, far = {.roce = "only", .far = true, .connections = 1};
    struct child server, client;
    unsigned char hello[HELLO_SIZE];
    struct hello plain = raw_hello(SOCK_STREAM);
    double took;
    char ready;

    xs_hello_pack(&plain, hello);
    child_start(&server, receive_visitors, &near);
    hear(server.fd, &ready, 1);
    flood(FLOOD, hello, sizeof(hello));
    child_start(&client, connect_again_and_again, &far);
    hear(client.fd, &took, sizeof(took));
    child_join(&client);
    printf("behind %d requests a connection took %.0f ms\n", FLOOD, took * 1e3);
    ck_assert_msg(took < 2 * LATE_S, "a good client was served after %.2f s", took);
    child_kill(&server);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("hosts that meet at RoCE's port");
    TCase *tcase = add_bare_case(suite, "hosts", 20);

    tcase_add_loop_test(tcase, costs_two_of_ours_nothing, 0, 2);
    tcase_add_loop_test(tcase, data_is_as_good_as_the_last_word, 0, 2);
    tcase_add_test(tcase, an_idle_peer_is_asked_for);
    tcase_add_test(tcase, a_flood_harms_nobody);
    tcase = add_bare_case(suite, "IPv6 alone", 20); /* the last case, because the hosts keep only IPv6 */
    tcase_add_unchecked_fixture(tcase, move_to_ipv6, NULL);
    tcase_add_loop_test(tcase, by_ipv6_alone, 0, 2);
    return suite;
}

int main(void)
{
    return twonets_main(twonets_make, suite);
}
