/* SPDX-License-Identifier: BSD-2-Clause */
/* A client of kv-server, over EXS or, with -t, over TCP. "bench" sends many requests and prints response times.
 *
 * Build: cc kv-client.c $(pkg-config --cflags --libs exs). Run: kv-client [-t] HOST PORT set KEY VALUE | get
 * KEY | bench [COUNT]. */
#define _DEFAULT_SOURCE /* POSIX's names, with -std=c11, too */
#include <exs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 512 };

static int sock, by_tcp;

static int connect_tcp(const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;

    if (getaddrinfo(host, port, &hints, &found) != 0)
        return -1;
    sock = socket(found->ai_family, SOCK_STREAM, 0);
    int rc = connect(sock, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return rc;
}

static int connect_exs(const char *host, const char *port)
{
    if (exs_init(EXS_VERSION) == -1)
        return -1;
    sock = exs_socket(PF_INET, SOCK_STREAM, 0);
    return exs_blocking_connect_host(sock, host, port);
}

/* Sends a line, and receives the answer, without its newline. Returns 0, or -1 after printing an error. */
static int ask(const char *line, char answer[LINE])
{
    size_t length = strlen(line), have = 0;
    ssize_t got = by_tcp ? send(sock, line, length, 0) : exs_write(sock, line, length);

    while (got > 0 && (have == 0 || answer[have - 1] != '\n') && have < LINE) {
        got = by_tcp ? recv(sock, answer + have, LINE - have, 0) : exs_read(sock, answer + have, LINE - have);
        if (got > 0)
            have += (size_t)got;
    }
    if (got <= 0 || have == 0 || answer[have - 1] != '\n') {
        fprintf(stderr, "kv-client: no answer\n");
        return -1;
    }
    answer[have - 1] = '\0';
    return 0;
}

static double microseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sends set and get requests alternately; each get asks for the key of the previous set. */
static int bench(int count)
{
    double *took = calloc((size_t)count, sizeof(*took)), began, all = 0;
    char line[LINE], answer[LINE], expected[32] = "ok";

    for (int i = 0; took != NULL && i < count; i++) {
        if (i % 2 == 0)
            snprintf(line, sizeof(line), "set key-%d value-%d\n", i % 1000, i);
        else
            snprintf(line, sizeof(line), "get key-%d\n", (i - 1) % 1000);
        snprintf(expected, sizeof(expected), i % 2 == 0 ? "ok" : "value-%d", i - 1);
        began = microseconds();
        if (ask(line, answer) == -1)
            return -1;
        took[i] = microseconds() - began;
        all += took[i];
        if (strcmp(answer, expected) != 0) {
            fprintf(stderr, "kv-client: %s instead of %s\n", answer, expected);
            return -1;
        }
    }
    qsort(took, (size_t)count, sizeof(*took), compare);
    printf("%s: %d answers, %.0f a second; half of them in %.1f us, 99 %% in %.1f us\n", by_tcp ? "TCP" : "EXS",
           count, count / all * 1e6, took[count / 2], took[(int)((double)count * 0.99)]);
    free(took);
    return 0;
}

/* Sends the words of the command line as one request. */
static int one(int words, char **word)
{
    char line[LINE], answer[LINE];
    size_t length = 0;

    for (int i = 0; i < words && length < LINE; i++)
        length += (size_t)snprintf(line + length, LINE - length, "%s%c", word[i], i < words - 1 ? ' ' : '\n');
    if (length >= LINE) {
        fprintf(stderr, "kv-client: that is too long\n");
        return -1;
    }
    if (ask(line, answer) == -1)
        return -1;
    return puts(answer) == EOF ? -1 : 0;
}

int main(int argc, char **argv)
{
    by_tcp = argc > 1 && strcmp(argv[1], "-t") == 0;
    argc -= by_tcp;
    argv += by_tcp;
    if (argc < 4) {
        fprintf(stderr, "usage: kv-client [-t] HOST PORT set KEY VALUE | get KEY | bench [COUNT]\n");
        return 2;
    }
    if ((by_tcp ? connect_tcp : connect_exs)(argv[1], argv[2]) == -1) {
        perror("kv-client: connecting");
        return 1;
    }
    int rc =
        strcmp(argv[3], "bench") == 0
            ? bench(argc > 4 && (int)strtol(argv[4], NULL, 10) > 0 ? (int)strtol(argv[4], NULL, 10) : 20000)
            : one(argc - 3, argv + 3);
    if (by_tcp)
        close(sock);
    else if (exs_blocking_close(sock) == -1)
        rc = -1;
    return rc == 0 ? 0 : 1;
}
