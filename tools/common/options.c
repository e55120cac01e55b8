/* SPDX-License-Identifier: BSD-2-Clause */
/* options.c - addresses and numbers as text; see options.h. */
#include "options.h"

#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standard.h"
#include "terminal.h"

long options_number(const char *text, long low, long high)
{
    char *end;

    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < low || value > high)
        return -1;
    return value;
}

bool options_bytes(const char *text, uint64_t *bytes)
{
    static const char letters[] = "KMGT";
    const char *letter;
    unsigned shift = 0;
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || text[0] < '0' || text[0] > '9' || value == 0)
        return false;
    if (*end != '\0' && (letter = strchr(letters, *end)) != NULL) {
        shift = 10 * (unsigned)(letter - letters + 1);
        end++;
    }
    *bytes = (uint64_t)value << shift;
    return *end == '\0' && *bytes >> shift == value && *bytes <= INT64_MAX;
}

socklen_t options_address(const char *host, const char *port, struct sockaddr_storage *address)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found;

    memset(address, 0, sizeof(*address));
    if (options_number(port, 0, 65535) == -1 || getaddrinfo(host, port, &hints, &found) != 0)
        return 0;
    socklen_t length = found->ai_addrlen;

    memcpy(address, found->ai_addr, length);
    freeaddrinfo(found);
    return length;
}

const char *options_address_text(const struct sockaddr_storage *address, char out[OPTIONS_ADDRESS_MAX])
{
    socklen_t length =
        address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    char host[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE], port[8];

    if (getnameinfo((const struct sockaddr *)address, length, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(out, OPTIONS_ADDRESS_MAX, "%s port %s", host, port);
    else
        snprintf(out, OPTIONS_ADDRESS_MAX, "?");
    return out;
}

_Noreturn void options_wrong(const char *name, const char *format, ...)
{
    va_list arguments;
    char text[512];

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s: %s: %s --help says what there is\n", name, terminal_filter(text), name);
    exit(2);
}

_Noreturn void options_unknown(const char *name, char **argv, const char *letters, int answer)
{
    const char letter[] = {'-', (char)optopt, '\0'}, *word = argv[optind - 1];

    if (answer == ':')
        options_wrong(name, "%s wants something behind it", letter);
    if (optopt == 0)
        options_wrong(name, "there is no option %s", word);
    if (strchr(letters, optopt) == NULL)
        options_wrong(name, "there is no option %s", letter);
    options_wrong(name, "%.*s takes nothing behind it", (int)strcspn(word, "="),
                  word); /* a long option with = */
}

void options_version(const char *name, int argc, char **argv)
{
    if (argc != 2 || strcmp(argv[1], "--version") != 0)
        return;
    printf("%s (EXS) %s\n", name, PACKAGE_VERSION);
    exit(standard_flush(name, "cannot print the version"));
}
