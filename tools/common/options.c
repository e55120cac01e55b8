/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses and numbers as text. */
#include "options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    struct sockaddr_in *v4 = (struct sockaddr_in *)address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
    long number = options_number(port, 0, 65535);

    memset(address, 0, sizeof(*address));
    if (number == -1)
        return 0;
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)number);
        return sizeof(*v4);
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)number);
        return sizeof(*v6);
    }
    return 0;
}

const char *options_address_text(const struct sockaddr_storage *address, char out[OPTIONS_ADDRESS_MAX])
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    char host[INET6_ADDRSTRLEN] = "?";
    unsigned port = ntohs(v4->sin_port);

    if (address->ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
        port = ntohs(v6->sin6_port);
    } else {
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
    }
    snprintf(out, OPTIONS_ADDRESS_MAX, "%s port %u", host, port);
    return out;
}

void options_version(const char *name, int argc, char **argv)
{
    if (argc != 2 || strcmp(argv[1], "--version") != 0)
        return;
    printf("%s (EXS) %s\n", name, PACKAGE_VERSION);
    exit(0);
}
