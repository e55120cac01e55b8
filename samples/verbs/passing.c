/* SPDX-License-Identifier: BSD-2-Clause */
/* passing.c - exchange of data over TCP: side A listens, side B connects, then both send and receive the same fields.
 *
 * Each field is encoded separately in big-endian order, so the machines may have different architectures. */
#include "passing.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The first field identifies this protocol and its version, so that a peer which is another program is detected. */
#define GREETING 0x76657201u /* "ver", 1 */
#define WIRE_SIZE 42

static struct addrinfo *resolve(const char *server, const char *tcp_port)
{
    struct addrinfo hints = {.ai_family = server ? AF_UNSPEC : AF_INET6, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;

    hints.ai_flags = server ? 0 : AI_PASSIVE;
    int rc = getaddrinfo(server, tcp_port, &hints, &found);
    if (rc != 0)
        fprintf(stderr, "%s port %s: %s\n", server ? server : "here", tcp_port, gai_strerror(rc));
    return rc == 0 ? found : NULL;
}

/* Side A. IPV6_V6ONLY is cleared, so that the IPv6 socket accepts IPv4 connections, too. */
static int wait_for_peer(const struct addrinfo *here)
{
    struct sockaddr_in6 bound;
    socklen_t length = sizeof(bound);
    int on = 1, off = 0, sock = -1;
    int listener = socket(here->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (listener == -1)
        return -1;
    if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0 &&
        bind(listener, here->ai_addr, here->ai_addrlen) == 0 && listen(listener, 1) == 0 &&
        getsockname(listener, (struct sockaddr *)&bound, &length) == 0) {
        printf("waiting on port %u for TCP connection\n", ntohs(bound.sin6_port));
        fflush(stdout);
        sock = accept(listener, NULL, NULL);
    }
    int error = errno;
    close(listener);
    errno = error;
    return sock;
}

/* Side B. */
static int go_to_peer(const struct addrinfo *there)
{
    int sock = -1;

    for (; there && sock == -1; there = there->ai_next) {
        sock = socket(there->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (sock == -1 || connect(sock, there->ai_addr, there->ai_addrlen) == 0)
            continue;
        int error = errno;
        close(sock);
        sock = -1;
        errno = error;
    }
    return sock;
}

int passing_open(const char *server, const char *tcp_port)
{
    struct addrinfo *list = resolve(server, tcp_port);

    if (!list)
        return -1;
    int sock = server ? go_to_peer(list) : wait_for_peer(list);
    if (sock == -1)
        fprintf(stderr, "%s port %s: %s%s\n", server ? server : "here", tcp_port, strerror(errno),
                server ? ": start the daemon there first" : "");
    freeaddrinfo(list);
    return sock;
}

/* Both sides send first and then receive. This cannot deadlock, because the data fit into the send buffer of any
 * socket. */
static int swap(int sock, const void *mine, void *theirs, size_t size)
{
    ssize_t sent = send(sock, mine, size, MSG_NOSIGNAL);

    if (sent == (ssize_t)size && recv(sock, theirs, size, MSG_WAITALL) == (ssize_t)size)
        return 0;
    fprintf(stderr, "data passing: the other side is gone: its last lines say why\n");
    return -1;
}

static void put(uint8_t **at, uint64_t value, size_t size)
{
    uint64_t wire = htobe64(value << (64 - 8 * size));

    memcpy(*at, &wire, size);
    *at += size;
}

static uint64_t take(const uint8_t **at, size_t size)
{
    uint64_t wire = 0;

    memcpy(&wire, *at, size);
    *at += size;
    return be64toh(wire) >> (64 - 8 * size);
}

int passing_exchange(int sock, const struct port_data *local, struct port_data *remote)
{
    uint8_t mine[WIRE_SIZE], theirs[WIRE_SIZE];
    uint8_t *out = mine;
    const uint8_t *in = theirs;

    put(&out, GREETING, 4);
    put(&out, local->address, 8);
    put(&out, local->rkey, 4);
    put(&out, local->qp_num, 4);
    put(&out, local->psn, 4);
    put(&out, local->lid, 2);
    memcpy(out, local->gid.raw, sizeof(local->gid.raw));
    if (swap(sock, mine, theirs, WIRE_SIZE) == -1)
        return -1;
    if (take(&in, 4) != GREETING) {
        fprintf(stderr, "data passing: the other side is not one of these programs\n");
        return -1;
    }
    remote->address = take(&in, 8);
    remote->rkey = (uint32_t)take(&in, 4);
    remote->qp_num = (uint32_t)take(&in, 4);
    remote->psn = (uint32_t)take(&in, 4);
    remote->lid = (uint16_t)take(&in, 2);
    memcpy(remote->gid.raw, in, sizeof(remote->gid.raw));
    return 0;
}

int passing_sync(int sock, uint32_t mine, uint32_t *theirs)
{
    uint32_t out = htobe32(mine), in;

    if (swap(sock, &out, &in, sizeof(in)) == -1)
        return -1;
    if (theirs)
        *theirs = be32toh(in);
    return 0;
}

void passing_print(const char *whose, const struct port_data *data)
{
    char gid[INET6_ADDRSTRLEN];

    inet_ntop(AF_INET6, data->gid.raw, gid, sizeof(gid));
    printf("%s address = 0x%" PRIx64 ", rkey = 0x%x, QP number = 0x%x, LID = 0x%x, GID = %s\n", whose,
           data->address, data->rkey, data->qp_num, data->lid, gid);
}
