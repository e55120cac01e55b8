/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_choice.c - decides which of the two transports a connection tries first: TCP, on which EXS listens, or
 * InfiniBand's connection manager if the host was found to answer only by that, which is cached for HOSTS hosts.
 */
#include <arpa/inet.h>
#include <string.h>
#include "core/base/log.h"
#include "core/base/settings.h"
#include "soft/lock.h"
#include "cm_id.h"
#include "ib_address.h"

#define HOSTS 64 /* entries, indexed by a hash of the address */

/* Address family 0: the entry is free. */
static struct {
    pthread_mutex_t lock;
    union soft_addr by_ib[HOSTS];
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static union soft_addr *place_of(const union soft_addr *host)
{
    const uint8_t *bytes = host->in6.sin6_addr.s6_addr;
    size_t length = sizeof host->in6.sin6_addr;
    unsigned sum = 0;

    if (host->sa.sa_family == AF_INET) {
        bytes = (const uint8_t *)&host->in.sin_addr;
        length = sizeof host->in.sin_addr;
    }
    for (size_t i = 0; i < length; i++)
        sum = 31 * sum + bytes[i];
    return &known.by_ib[sum % HOSTS];
}

static union soft_addr host_of(const struct cm_id *id)
{
    union soft_addr host = {0};
    const struct sockaddr *dst = &id->public.route.addr.dst_addr;

    memcpy(&host, dst, cm_addr_size(dst));
    return host;
}

bool cm_choice_is_ib(const struct cm_id *id)
{
    union soft_addr host = host_of(id);
    bool found;

    if (!cm_ib_has_port(id))
        return false;
    if (settings()->roce_only)
        return true;
    soft_mutex_lock(&known.lock);
    found = ib_same_address(place_of(&host), &host);
    soft_mutex_unlock(&known.lock);
    return found;
}

void cm_choice_learn(const struct cm_id *id)
{
    union soft_addr host = host_of(id), *place = place_of(&host);
    /* Not if TCP was refused: a refusal costs no time, and a server that listens by TCP may only be down at the moment.
     * If another user's process answers once in the server's place, it must not get the server's later clients. */
    bool is_ib = id->transport == &cm_ib && !id->tcp_refused;

    soft_mutex_lock(&known.lock);
    if (is_ib)
        *place = host;
    else if (id->transport != &cm_ib && ib_same_address(place, &host))
        place->sa.sa_family = AF_UNSPEC;
    soft_mutex_unlock(&known.lock);
}

void cm_choice_tell(const struct cm_id *id, const char *because)
{
    union soft_addr host = host_of(id);
    char text[INET6_ADDRSTRLEN] = "?";

    if (!settings()->debug)
        return;
    inet_ntop(host.sa.sa_family,
              host.sa.sa_family == AF_INET ? (void *)&host.in.sin_addr : (void *)&host.in6.sin6_addr, text,
              sizeof text);
    xs_log("asking %s port %d by %s because %s", text, ntohs(host.in.sin_port),
           id->transport == &cm_ib ? "InfiniBand's connection manager" : "TCP", because);
}
