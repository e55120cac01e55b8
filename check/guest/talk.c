/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * talk ROLE ADDRESS PORT [BYTES] - one end of a connection that something is done to from outside.
 *
 * Roles: serve (accept one connection, receive until it ends), send (connect, send BYTES or for ever), later
 * (the same, but it begins to send when there is something to read for it), wait (connect, receive until it
 * ends). Says in one line each what happened: which device, how many bytes, how it ended, and after how many
 * seconds without any. Ends with 0 where the end was an orderly one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <exs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCK 262144 /* bytes of one send or receive */

static union {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
} address;
static socklen_t address_length;
static unsigned char block[BLOCK];

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static _Noreturn void fail(const char *what)
{
    printf("%s: %s\n", what, strerrorname_np(errno));
    exit(1);
}

static unsigned long long number(const char *text, unsigned long long most)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (end == text || *end != 0 || value > most) {
        fprintf(stderr, "talk: %s is no number up to %llu\n", text, most);
        exit(2);
    }
    return value;
}

static void read_address(const char *text, in_port_t port)
{
    if (inet_pton(AF_INET, text, &address.in.sin_addr) == 1) {
        address.in.sin_family = AF_INET;
        address.in.sin_port = port;
        address_length = sizeof(address.in);
    } else if (inet_pton(AF_INET6, text, &address.in6.sin6_addr) == 1) {
        address.in6.sin6_family = AF_INET6;
        address.in6.sin6_port = port;
        address_length = sizeof(address.in6);
    } else {
        fprintf(stderr, "talk: %s is no numeric address\n", text);
        exit(2);
    }
}

static void tell_device(const char *how, int sock)
{
    char name[64];

    if (exs_getdevice(sock, name, sizeof(name)) == -1)
        fail("exs_getdevice");
    printf("%s by %s\n", how, name);
}

/* Whom the socket says that it talks to. */
static void tell_peer(int sock)
{
    socklen_t length = sizeof(address);
    char text[INET6_ADDRSTRLEN];

    if (exs_getpeername(sock, &address.sa, &length) == -1)
        fail("exs_getpeername");
    const void *host = address.sa.sa_family == AF_INET6 ? (void *)&address.in6.sin6_addr : &address.in.sin_addr;

    printf("the peer is %s\n", inet_ntop(address.sa.sa_family, host, text, sizeof(text)));
}

static int accept_one(int sock)
{
    if (exs_bind(sock, &address.sa, address_length) == -1)
        fail("bind");
    if (exs_listen(sock, 1) == -1)
        fail("listen");
    tell_device("listening", sock);
    int one = exs_blocking_accept(sock, NULL, NULL);

    if (one == -1)
        fail("accept");
    tell_device("accepted", one);
    tell_peer(one);
    return one;
}

static void connect_there(int sock)
{
    if (exs_blocking_connect(sock, &address.sa, address_length) == -1)
        fail("connect");
    tell_device("connected", sock);
    tell_peer(sock);
}

/* Byte number `at` of what is sent. */
static void fill(unsigned long long at)
{
    for (size_t i = 0; i < BLOCK; i++)
        block[i] = (unsigned char)((at + i) * 7 >> 3);
}

static bool is_right(unsigned long long at, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (block[i] != (unsigned char)((at + i) * 7 >> 3))
            return false;
    }
    return true;
}

static bool send_all(int sock, unsigned long long most)
{
    unsigned long long sent = 0;
    double last = seconds();
    ssize_t count = 0;

    while (sent < most) {
        fill(sent);
        count = exs_write(sock, block, most - sent < BLOCK ? (size_t)(most - sent) : BLOCK);
        if (count == -1)
            break;
        if (sent == 0)
            printf("sending\n");
        sent += (unsigned long long)count;
        last = seconds();
    }
    printf("sent %llu bytes, then %s after %.1f s\n", sent, count == -1 ? strerrorname_np(errno) : "all",
           seconds() - last);
    return count != -1;
}

static bool receive_all(int sock)
{
    unsigned long long received = 0;
    double last = seconds();
    ssize_t count;

    while ((count = exs_read(sock, block, BLOCK)) > 0) {
        if (!is_right(received, (size_t)count)) {
            printf("wrong bytes behind %llu\n", received);
            return false;
        }
        received += (unsigned long long)count;
        last = seconds();
    }
    printf("received %llu bytes, then %s after %.1f s\n", received,
           count == -1 ? strerrorname_np(errno) : "all", seconds() - last);
    return count == 0;
}

static int open_socket(void)
{
    if (exs_init(EXS_VERSION) == -1)
        fail("exs_init");
    int sock = exs_socket(address.sa.sa_family, SOCK_STREAM, 0);

    if (sock == -1)
        fail("exs_socket");
    return sock;
}

int main(int argc, char **argv)
{
    bool good;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: talk serve|send|later|wait ADDRESS PORT [BYTES]\n");
        return 2;
    }
    read_address(argv[2], htons((in_port_t)number(argv[3], UINT16_MAX)));
    int sock = open_socket();

    if (strcmp(argv[1], "serve") == 0) {
        sock = accept_one(sock);
        good = receive_all(sock);
    } else if (strcmp(argv[1], "send") == 0 || strcmp(argv[1], "later") == 0) {
        connect_there(sock);
        if (strcmp(argv[1], "later") == 0 && getchar() == EOF)
            fail("getchar");
        good = send_all(sock, argc == 5 ? number(argv[4], UINT64_MAX) : UINT64_MAX);
    } else {
        connect_there(sock);
        good = receive_all(sock);
    }
    if (exs_blocking_close(sock) == -1)
        fail("close");
    return good ? 0 : 1;
}
