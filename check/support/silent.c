/* SPDX-License-Identifier: BSD-2-Clause */
/* silent.c - see silent.h. */
#include "silent.h"

#include "rawpeer.h"

enum {
    REQUEST = 84, /* bytes of the connection manager's messages */
    REPLY = 224,
};

static void put(uint8_t *to, int width, uint32_t value)
{
    while (width-- > 0)
        *to++ = (uint8_t)(value >> 8 * width);
}

/* A valid request, whose sender does not exist. */
static void make_request(uint8_t request[REQUEST])
{
    struct hello hello = raw_hello(SOCK_STREAM);

    hello.recv_ring_addr = 0x10000;
    hello.recv_ring_rkey = 0x101;
    memset(request, 0, REQUEST);
    put(request, 4, 0xe8455853);
    put(request + 4, 4, 0x01010000 | REQUEST); /* version, type, size */
    put(request + 8, 4, 0x1234);               /* queue pair number */
    put(request + 12, 4, 0x777);               /* first PSN */
    put(request + 16, 2, 4791);
    put(request + 18, 4, 0x05101006); /* path MTU, resources, depth, retries */
    put(request + 22, 1, 7);
    put(request + 24, 1, HELLO_SIZE);
    xs_hello_pack(&hello, request + 28);
}

void silent_say(int fd)
{
    uint8_t request[REQUEST];

    make_request(request);
    ck_assert_int_eq(send(fd, request, sizeof(request), MSG_NOSIGNAL), REQUEST);
}

int silent_ask(const struct address *to)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(fd);
    must(connect(fd, SA(to), to->length));
    silent_say(fd);
    return fd;
}

bool silent_is_answered(int fd, bool *is_there)
{
    uint8_t answer[REPLY];
    ssize_t got = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);

    *is_there = got > 0;
    if (got > 0)
        ck_assert_int_eq(answer[5], 2); /* a REP */
    return got >= 0 || errno != EAGAIN;
}

bool silent_is_there(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == -1 && errno == EAGAIN;
}
