/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exstest_peer connect ADDR PORT STEP... | listen ADDR STEP... - one end of a SOCK_SEQPACKET connection that sends
 * arbitrary messages, to test how exstest handles them. Prints the port when it listens.
 *
 * Steps: send:HEX, recv (prints the message in hex), end (the peer must close or reset the connection), die (exits
 * without closing), hold (waits until the end of standard input).
 */
#include <errno.h>
#include <exs.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/options.h"

enum { MESSAGE_MAX = 65536 };

static unsigned char message[MESSAGE_MAX];

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "exstest_peer: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int digit(char c)
{
    const char *digits = "0123456789abcdef", *at = strchr(digits, c);

    if (c == '\0' || at == NULL)
        exit(2);
    return (int)(at - digits);
}

static void send_hex(int sock, const char *hex)
{
    size_t length = strlen(hex) / 2;

    if (length > MESSAGE_MAX)
        exit(2);
    for (size_t i = 0; i < length; i++)
        message[i] = (unsigned char)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
    if (exs_write(sock, message, length) < 0)
        fail("sending");
}

static void receive(int sock)
{
    ssize_t length = exs_read(sock, message, MESSAGE_MAX);

    if (length < 0)
        fail("receiving");
    for (ssize_t i = 0; i < length; i++)
        printf("%02x", message[i]);
    printf("\n");
    fflush(stdout);
}

/* Receives until the end of the stream or an error, and ignores the data. */
static void await_end(int sock)
{
    ssize_t length;

    do {
        length = exs_read(sock, message, MESSAGE_MAX);
    } while (length > 0);
}

static void hold(void)
{
    char byte;

    while (read(0, &byte, 1) > 0)
        ;
}

static void step(int sock, const char *what)
{
    if (strncmp(what, "send:", 5) == 0)
        send_hex(sock, what + 5);
    else if (strcmp(what, "recv") == 0)
        receive(sock);
    else if (strcmp(what, "end") == 0)
        await_end(sock);
    else if (strcmp(what, "hold") == 0)
        hold();
    else if (strcmp(what, "die") == 0)
        kill(getpid(), SIGKILL);
    else
        exit(2);
}

static int get_connection(bool listens, struct sockaddr_storage *address, socklen_t length)
{
    int sock = exs_socket(address->ss_family, SOCK_SEQPACKET, 0);

    if (sock == -1)
        fail("exs_socket");
    if (!listens) {
        if (exs_blocking_connect(sock, (struct sockaddr *)address, length) == -1)
            fail("connecting");
        return sock;
    }
    if (exs_bind(sock, (struct sockaddr *)address, length) == -1 || exs_listen(sock, 1) == -1 ||
        exs_getsockname(sock, (struct sockaddr *)address, &length) == -1)
        fail("listening");
    printf("%u\n", ntohs(((struct sockaddr_in *)address)->sin_port));
    fflush(stdout);
    int accepted = exs_blocking_accept(sock, NULL, NULL);

    if (accepted == -1)
        fail("accepting");
    exs_blocking_close(sock);
    return accepted;
}

int main(int argc, char **argv)
{
    bool listens = argc > 1 && strcmp(argv[1], "listen") == 0;
    int first = listens ? 3 : 4;
    struct sockaddr_storage address;
    socklen_t length = argc >= first ? options_address(argv[2], listens ? "0" : argv[3], &address) : 0;

    if (length == 0 || exs_init(EXS_VERSION) == -1)
        return 2;
    int sock = get_connection(listens, &address, length);

    for (int i = first; i < argc; i++)
        step(sock, argv[i]);
    exs_blocking_close(sock);
    return 0;
}
