/* SPDX-License-Identifier: BSD-2-Clause */
/* hosts.c - a table of hosts with a debt. It is searched linearly, because few hosts have one. See hosts.h. */
#include "hosts.h"

#include <netinet/in.h>
#include <string.h>

/* Returns the part of the address that identifies the host, and its length in bytes. */
static const uint8_t *host_of(const struct sockaddr_storage *address, size_t *length)
{
    const uint8_t *bytes = (const uint8_t *)&((const struct sockaddr_in *)address)->sin_addr;

    if (address->ss_family == AF_INET6) {
        const struct in6_addr *in6 = &((const struct sockaddr_in6 *)address)->sin6_addr;

        if (!IN6_IS_ADDR_V4MAPPED(in6)) {
            *length = IN6_IS_ADDR_LINKLOCAL(in6) ? sizeof *in6 : sizeof *in6 / 2;
            return in6->s6_addr;
        }
        bytes = in6->s6_addr + 12;
    }
    *length = bytes[0] == IN_LOOPBACKNET ? 1 : sizeof(struct in_addr);
    return bytes;
}

bool hosts_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    size_t length, other;
    const uint8_t *of_a = host_of(a, &length), *of_b = host_of(b, &other);

    return length == other && memcmp(of_a, of_b, length) == 0;
}

/* Returns NULL if the host has no debt. */
static struct host *find_debtor(struct hosts *hosts, const struct sockaddr_storage *address)
{
    for (struct host *host = hosts->list; host < hosts->list + HOSTS_MAX; host++)
        if (host->owes > 0 && hosts_same(&host->address, address))
            return host;
    return NULL;
}

/* Takes a free entry, or that of the host with the smallest debt. */
static struct host *add_debtor(struct hosts *hosts, const struct sockaddr_storage *address)
{
    struct host *least = hosts->list;

    for (struct host *host = hosts->list; host < hosts->list + HOSTS_MAX; host++)
        if (host->owes < least->owes)
            least = host;
    *least = (struct host){.address = *address};
    return least;
}

static uint64_t times_four(uint64_t bytes)
{
    return bytes < UINT64_MAX / 4 ? 4 * bytes : UINT64_MAX;
}

uint64_t hosts_borrow(struct hosts *hosts, const struct sockaddr_storage *address, uint64_t bytes)
{
    struct host *host = find_debtor(hosts, address);
    uint64_t most = times_four(bytes) < HOSTS_MAY_OWE ? HOSTS_MAY_OWE : times_four(bytes);

    if (host == NULL)
        host = add_debtor(hosts, address);
    if (host->owes > most)
        return (host->owes - most) / HOSTS_FORGIVEN + 1;
    host->owes += bytes < UINT64_MAX - host->owes ? bytes : UINT64_MAX - host->owes;
    return 0;
}

static void reduce_debt(struct host *host, uint64_t bytes)
{
    host->owes -= bytes < host->owes ? bytes : host->owes;
}

void hosts_repay(struct hosts *hosts, const struct sockaddr_storage *address, uint64_t bytes)
{
    struct host *host = find_debtor(hosts, address);

    if (host != NULL)
        reduce_debt(host, bytes);
}

void hosts_second(struct hosts *hosts)
{
    for (struct host *host = hosts->list; host < hosts->list + HOSTS_MAX; host++)
        reduce_debt(host, HOSTS_FORGIVEN);
}
