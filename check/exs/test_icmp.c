/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_icmp.c - forged ICMP messages about the path MTU do not stop a connection.
 *
 * Any host on the network can send "fragmentation needed" or "packet too big" about a datagram of any UDP socket, and
 * the kernel remembers that MTU for the address. The device must continue to send packets of the size that both ends
 * have agreed on.
 *
 * The test runs in a network namespace, with a raw socket in place of the other host.
 */
#include "check/support/support.h"
#include "check/support/twonets.h"

#include <arpa/inet.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>

enum { BYTES = 1000000, NARROW = 600, NARROW6 = 1280, UDP_LENGTH = 4180 };

static uint16_t sum_of(const void *data, size_t length)
{
    const uint8_t *bytes = data;
    uint32_t sum = 0;

    for (size_t i = 0; i + 1 < length; i += 2)
        sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
    while (sum > 0xffff)
        sum = (sum & 0xffff) + (sum >> 16);
    return htons((uint16_t)~sum);
}

/* Opens a datagram socket without relation to the connection, and stores its port in network byte order. */
static int open_bystander(int family, in_port_t *port)
{
    struct sockaddr_storage at = {.ss_family = (sa_family_t)family};
    socklen_t length = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    int fd;

    must(fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    must(bind(fd, (struct sockaddr *)&at, length));
    must(getsockname(fd, (struct sockaddr *)&at, &length));
    *port = ((struct sockaddr_in *)&at)->sin_port; /* at the same offset in sockaddr_in6 */
    return fd;
}

static void send_raw(int protocol, const struct sockaddr *to, socklen_t length, const void *message,
                     size_t size)
{
    int fd;

    must(fd = socket(to->sa_family, SOCK_RAW | SOCK_CLOEXEC, protocol));
    ck_assert_int_eq(sendto(fd, message, size, 0, to, length), (ssize_t)size);
    close(fd);
}

static void send_narrow(in_port_t port)
{
    const struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct {
        struct icmphdr icmp;
        struct iphdr ip;
        struct udphdr udp;
    } message = {
        .icmp = {.type = ICMP_DEST_UNREACH, .code = ICMP_FRAG_NEEDED, .un.frag.mtu = htons(NARROW)},
        .ip = {.version = 4,
               .ihl = 5,
               .tot_len = htons(20 + UDP_LENGTH),
               .frag_off = htons(IP_DF),
               .ttl = 64,
               .protocol = IPPROTO_UDP,
               .saddr = htonl(INADDR_LOOPBACK),
               .daddr = htonl(INADDR_LOOPBACK)},
        .udp = {.source = port, .dest = htons(1), .len = htons(UDP_LENGTH)},
    };

    message.ip.check = sum_of(&message.ip, sizeof message.ip);
    message.icmp.checksum = sum_of(&message, sizeof message);
    send_raw(IPPROTO_ICMP, (const struct sockaddr *)&to, sizeof to, &message, sizeof message);
}

static void send_narrow6(in_port_t port)
{
    const struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct {
        struct icmp6_hdr icmp;
        struct ip6_hdr ip;
        struct udphdr udp;
    } message = {
        .icmp = {.icmp6_type = ICMP6_PACKET_TOO_BIG}, /* the kernel fills in the checksum */
        .ip = {.ip6_src = IN6ADDR_LOOPBACK_INIT, .ip6_dst = IN6ADDR_LOOPBACK_INIT},
        .udp = {.source = port, .dest = htons(1), .len = htons(UDP_LENGTH)},
    };

    message.icmp.icmp6_mtu = htonl(NARROW6);
    message.ip.ip6_flow = htonl(6u << 28);
    message.ip.ip6_plen = htons(UDP_LENGTH);
    message.ip.ip6_nxt = IPPROTO_UDP;
    message.ip.ip6_hlim = 64;
    send_raw(IPPROTO_ICMPV6, (const struct sockaddr *)&to, sizeof to, &message, sizeof message);
}

/* Returns the path MTU that the kernel has recorded for the address. */
static int known_mtu(int family, in_port_t port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr_in6 to6 = {
        .sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool ipv4 = family == AF_INET;
    int fd, mtu = 0;
    socklen_t length = sizeof mtu;

    must(fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    must(connect(fd, ipv4 ? (const struct sockaddr *)&to : (const struct sockaddr *)&to6,
                 ipv4 ? sizeof to : sizeof to6));
    must(getsockopt(fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_MTU : IPV6_MTU, &mtu, &length));
    close(fd);
    return mtu;
}

static void pass_both_ways(struct pair *pair)
{
    pass_bytes(pair->client_box, pair->client, pair->server_box, pair->server, BYTES, 1);
    pass_bytes(pair->server_box, pair->server, pair->client_box, pair->client, BYTES, 2);
}

START_TEST(a_lie_about_the_path)
{
    int family = _i == 0 ? AF_INET : AF_INET6, bystander;
    struct pair pair, later;
    in_port_t port;

    must(setenv("EXS_DEVICE", "soft", 1));
    must(setenv("EXS_LINK", "udp", 1));
    init_library();
    pair_open(&pair, family, SOCK_STREAM);
    pass_both_ways(&pair);
    bystander = open_bystander(family, &port);
    if (_i == 0)
        send_narrow(port);
    else
        send_narrow6(port);
    ck_assert_int_eq(known_mtu(family, port), _i == 0 ? NARROW : NARROW6);
    pass_both_ways(&pair);
    pair_open(&later, family, SOCK_STREAM);
    pass_both_ways(&later);
    close(bystander);
    pair_close(&later);
    pair_close(&pair);
}
END_TEST

static Suite *icmp_suite(void)
{
    Suite *suite = suite_create("icmp");
    TCase *tcase = add_bare_case(suite, "path MTU", 20);

    tcase_add_loop_test(tcase, a_lie_about_the_path, 0, 2);
    return suite;
}

int main(void)
{
    return twonets_main(twonets_alone, icmp_suite);
}
