/* SPDX-License-Identifier: BSD-2-Clause */
/* echo_client PORT - uses an echo server on this host over more connections than the server handles events in one
 * batch, and compares the data that it receives. For check/tools/echo. */
#include <errno.h>
#include <exs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECTIONS = 80, LONGEST = 100000 };

static char out[LONGEST], in[LONGEST];

static void need(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "echo_client: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Sends on all connections, then receives on all. */
static void talk(const int *socks, size_t length)
{
    for (int i = 0; i < CONNECTIONS; i++) {
        memset(out, 'A' + i % 26, length);
        need(exs_write(socks[i], out, length) == (ssize_t)length, "sending");
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        memset(out, 'A' + i % 26, length);
        need(exs_blocking_recv(socks[i], in, length, MSG_WAITALL, NULL) == (ssize_t)length, "receiving");
        need(memcmp(in, out, length) == 0, "comparing");
    }
}

int main(int argc, char **argv)
{
    static const size_t lengths[] = {1, 100, 16384, LONGEST, 7};
    struct sockaddr_in server = {.sin_family = AF_INET};
    int socks[CONNECTIONS];

    server.sin_port = htons((uint16_t)strtoul(argc > 1 ? argv[1] : "", NULL, 10));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    need(exs_init(EXS_VERSION) == 0, "exs_init");
    for (int i = 0; i < CONNECTIONS; i++) {
        socks[i] = exs_socket(PF_INET, SOCK_STREAM, 0);
        need(exs_blocking_connect(socks[i], (struct sockaddr *)&server, sizeof(server)) == 0, "connecting");
    }
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
        talk(socks, lengths[i]);
    for (int i = 0; i < CONNECTIONS; i++)
        need(exs_blocking_close(socks[i]) == 0, "closing");
    return 0;
}
