/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations: clients read records of a server's table while the server's program does nothing. To change a
 * record, a client writes the new text into an inbox of the server and then sends the record's number.
 *
 * Build: cc one-sided.c $(pkg-config --cflags --libs exs). Run: one-sided serve [PORT], and
 * one-sided HOST PORT NUMBER [TEXT]. */
#define _DEFAULT_SOURCE /* POSIX's names, with -std=c11, too */
#include <errno.h>
#include <exs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORDS = 1000, TEXT = 64 };

struct tokens {
    exs_token_t table, inbox;
};

static int fail(const char *what)
{
    fprintf(stderr, "one-sided: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- The server: one client after the other ------------------------------------------------------ */

static struct {
    char table[RECORDS][TEXT], inbox[TEXT];
} memory;
static exs_mhandle_t region;

/* The client may read the whole table and write the inbox, and nothing else. */
static int export_memory(int sock, struct tokens *tokens)
{
    if (exs_mexport(sock, region, memory.table, sizeof(memory.table), EXS_REMOTE_READ, &tokens->table) == -1)
        return -1;
    return exs_mexport(sock, region, memory.inbox, sizeof(memory.inbox), EXS_REMOTE_WRITE, &tokens->inbox);
}

/* Stores the text that the client has written before it sent the number. The client is not trusted. */
static int change_record(int sock)
{
    uint32_t number;

    if (exs_blocking_recv(sock, &number, sizeof(number), MSG_WAITALL, NULL) != sizeof(number))
        return -1;
    number = ntohl(number);
    if (number >= RECORDS)
        return -1;
    memcpy(memory.table[number], memory.inbox, TEXT);
    memory.table[number][TEXT - 1] = '\0';
    return exs_write(sock, "", 1) == 1 ? 0 : -1; /* the client may use the inbox again */
}

static void serve_client(int sock)
{
    struct tokens tokens;

    if (export_memory(sock, &tokens) == 0 && exs_write(sock, &tokens, sizeof(tokens)) == sizeof(tokens))
        while (change_record(sock) == 0)
            continue;
    exs_blocking_close(sock); /* revokes the exports */
}

static int serve(const char *port)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(here);
    int client, sock = exs_socket(PF_INET, SOCK_STREAM, 0);

    here.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
    if (exs_bind(sock, (struct sockaddr *)&here, length) == -1 || exs_listen(sock, SOMAXCONN) == -1 ||
        exs_getsockname(sock, (struct sockaddr *)&here, &length) == -1)
        return fail("listening");
    region = exs_mregister(&memory, sizeof(memory), 0);
    if (region == EXS_MHANDLE_INVALID)
        return fail("exs_mregister");
    for (int i = 0; i < RECORDS; i++)
        snprintf(memory.table[i], TEXT, "record %d", i);
    printf("waiting on port %u\n", ntohs(here.sin_port));
    fflush(stdout);
    while ((client = exs_blocking_accept(sock, NULL, NULL)) != -1)
        serve_client(client);
    return fail("accepting");
}

/* ---- The client ---------------------------------------------------------------------------------- */

/* Reads one record. The server's program takes no part. */
static void print_record(int sock, const struct tokens *tokens, uint32_t number)
{
    char text[TEXT];

    if (exs_rread(sock, text, TEXT, &tokens->table, (uint64_t)number * TEXT, EXS_BLOCK, NULL, NULL, NULL) == -1)
        fail("exs_rread");
    printf("%u: %.*s\n", number, TEXT, text);
}

/* The server receives the number only after the text is in its inbox: no send overtakes an earlier write. The library
 * owns `text` until a later one-sided operation is done. */
static void write_record(int sock, const struct tokens *tokens, uint32_t number, const char text[TEXT])
{
    uint32_t sent = htonl(number);
    char answer;

    if (exs_rwrite(sock, text, TEXT, &tokens->inbox, 0, EXS_UNSIGNALED, NULL, NULL, NULL) == -1 ||
        exs_write(sock, &sent, sizeof(sent)) != sizeof(sent) || exs_read(sock, &answer, 1) != 1)
        fail("writing");
}

int main(int argc, char **argv)
{
    struct tokens tokens;
    char text[TEXT] = "";

    if (exs_init(EXS_VERSION) == -1)
        return fail("exs_init");
    if (argc > 1 && strcmp(argv[1], "serve") == 0)
        return serve(argc > 2 ? argv[2] : "7477");
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: one-sided serve [PORT] | one-sided HOST PORT NUMBER [TEXT]\n");
        return 2;
    }
    uint32_t number = (uint32_t)strtoul(argv[3], NULL, 10);
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0);
    if (exs_blocking_connect_host(sock, argv[1], argv[2]) == -1)
        return fail("connecting");
    if (exs_blocking_recv(sock, &tokens, sizeof(tokens), MSG_WAITALL, NULL) != sizeof(tokens))
        return fail("receiving the tokens");
    print_record(sock, &tokens, number);
    if (argc == 5) {
        snprintf(text, TEXT, "%s", argv[4]);
        write_record(sock, &tokens, number, text);
        print_record(sock, &tokens, number);
    }
    return exs_blocking_close(sock) == 0 ? 0 : 1;
}
