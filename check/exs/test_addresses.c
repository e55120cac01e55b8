/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_addresses.c - the software device can be reached at the addresses of its listeners and connections, and at no
 * other address. It receives packets on UDP sockets of this process.
 */
#include "check/support/support.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include "core/base/settings.h"

#define MANY 20 /* addresses: more than get a UDP socket each */

/* Returns false if the descriptor is not a UDP socket; otherwise stores the address that it is bound to. */
static bool is_udp(int fd, struct address *bound)
{
    int type = 0, protocol = 0;
    socklen_t length = sizeof type;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == -1 || type != SOCK_DGRAM ||
        getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == -1 || protocol != IPPROTO_UDP)
        return false;
    memset(bound, 0, sizeof *bound);
    bound->length = sizeof bound->storage;
    return getsockname(fd, SA(bound), &bound->length) == 0;
}

static bool same_ip(const struct address *a, const struct address *b)
{
    const struct sockaddr_in *in[] = {(const void *)&a->storage, (const void *)&b->storage};
    const struct sockaddr_in6 *in6[] = {(const void *)&a->storage, (const void *)&b->storage};

    if (a->storage.ss_family != b->storage.ss_family)
        return false;
    return a->storage.ss_family == AF_INET ? in[0]->sin_addr.s_addr == in[1]->sin_addr.s_addr
                                           : IN6_ARE_ADDR_EQUAL(&in6[0]->sin6_addr, &in6[1]->sin6_addr);
}

/* Checks that there is a UDP socket and that all are bound to this IP address. Returns the address of one of them. */
static struct address expect_udp_at(const struct address *only)
{
    struct address bound, found = {.length = 0};
    long most = sysconf(_SC_OPEN_MAX);

    for (int fd = 0; fd < most && fd < 1024; fd++) {
        if (!is_udp(fd, &bound))
            continue;
        ck_assert_msg(same_ip(&bound, only), "descriptor %d is bound to another address", fd);
        found = bound;
    }
    ck_assert_msg(found.length > 0, "there is no UDP socket");
    return found;
}

/* Returns whether no socket receives datagrams at this address: the kernel reports ECONNREFUSED. On a loopback
 * interface it does so at once, unless it is still busy with earlier packets. */
static bool refuses(const struct address *to, int within_ms)
{
    struct pollfd wait = {.fd = socket(to->storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    char byte = 0;

    must(wait.fd);
    must(connect(wait.fd, SA(to), to->length));
    must(send(wait.fd, &byte, 1, 0));
    bool refused =
        poll(&wait, 1, within_ms) == 1 && recv(wait.fd, &byte, 1, MSG_DONTWAIT) == -1 && errno == ECONNREFUSED;
    close(wait.fd);
    return refused;
}

static struct address loopback_number(int number, int port)
{
    struct address address = loopback(AF_INET, port);

    ((struct sockaddr_in *)(void *)&address.storage)->sin_addr.s_addr =
        htonl(INADDR_LOOPBACK + (uint32_t)number);
    return address;
}

/* Both ends are in this process, so this checks the UDP sockets of both. With shared memory there would be none. */
START_TEST(connected)
{
    int family = _i ? AF_INET6 : AF_INET;
    struct address here = loopback(family, 0);
    struct pair pair;

    must(setenv("EXS_LINK", "udp", 1));
    settings_read(NULL);
    pair_open(&pair, family, SOCK_STREAM);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 20000, 1);
    struct address bound = expect_udp_at(&here);
    ck_assert(!refuses(&bound, QUIET_MS));
    if (family == AF_INET) {
        struct address other = loopback_number(1, port_of(&bound));

        ck_assert_msg(refuses(&other, WAIT_MS), "it is reached at another address, too");
    }
    pair_close(&pair);
}
END_TEST

/* A listener has no UDP socket before a client connects to it. */
START_TEST(listening)
{
    struct address address, bound;
    int listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);

    for (int fd = 0; fd < 1024; fd++)
        ck_assert_msg(!is_udp(fd, &bound), "descriptor %d is a UDP socket", fd);
    must(exs_blocking_close(listener));
}
END_TEST

/* A listener on the wildcard address serves concurrent clients that connect to different addresses of the host. */
START_TEST(every_address)
{
    static struct {
        int client, server;
    } ends[MANY];
    struct address any = _i ? (struct address){.length = sizeof(struct sockaddr_in6)} : loopback_number(0, 0),
                   bound;
    int listener = exs_socket(_i ? PF_INET6 : PF_INET, SOCK_STREAM, 0);
    struct inbox box;

    any.storage.ss_family = _i ? AF_INET6 : AF_INET;
    if (!_i)
        ((struct sockaddr_in *)(void *)&any.storage)->sin_addr.s_addr = htonl(INADDR_ANY);
    inbox_open(&box, 4 * MANY);
    must(exs_bind(listener, SA(&any), any.length));
    must(exs_listen(listener, MANY));
    bound = any;
    must(exs_getsockname(listener, SA(&bound), &bound.length));
    for (int i = 0; i < MANY; i++) {
        struct address to =
            i == 0 && _i ? loopback(AF_INET6, port_of(&bound)) : loopback_number(i, port_of(&bound));

        connect_ends(listener, SOCK_STREAM, &to, &box, &box, &ends[i].client, &ends[i].server);
    }
    for (int i = 0; i < MANY; i++) {
        pass_bytes(&box, ends[i].client, &box, ends[i].server, 20000, 1);
        pass_bytes(&box, ends[i].server, &box, ends[i].client, 20000, 2);
    }
    for (int i = 0; i < MANY; i++) {
        close_socket(&box, ends[i].client);
        close_socket(&box, ends[i].server);
    }
    close_socket(&box, listener);
    inbox_close(&box);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("addresses");
    TCase *reach = add_case(suite, "reach", 30);

    if (on_rdma())
        return 77; /* The addresses are the software device's. */
    tcase_add_loop_test(reach, connected, 0, 2);
    tcase_add_test(reach, listening);
    tcase_add_loop_test(reach, every_address, 0, 2);
    return run_suite(suite);
}
