/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * path.c - the addresses of both ends of a queue pair.
 *
 * A RoCE GID is an IPv6 address; ::ffff:a.b.c.d stands for an IPv4 address and is stored as that, so that equal
 * addresses always compare equal.
 */
#include <arpa/inet.h>
#include "engine.h"

static void copy_addr(union soft_addr *to, const union soft_addr *from)
{
    memset(to, 0, sizeof *to);
    if (from->sa.sa_family == AF_INET) {
        to->in.sin_family = AF_INET;
        to->in.sin_port = from->in.sin_port;
        to->in.sin_addr = from->in.sin_addr;
    } else if (from->sa.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&from->in6.sin6_addr)) {
        to->in.sin_family = AF_INET;
        to->in.sin_port = from->in6.sin6_port;
        memcpy(&to->in.sin_addr, from->in6.sin6_addr.s6_addr + 12, 4);
    } else if (from->sa.sa_family == AF_INET6) {
        to->in6.sin6_family = AF_INET6;
        to->in6.sin6_port = from->in6.sin6_port;
        to->in6.sin6_addr = from->in6.sin6_addr;
        to->in6.sin6_scope_id = from->in6.sin6_scope_id;
    }
}

void soft_path_copy(struct soft_path *to, const struct soft_path *from)
{
    copy_addr(&to->local, &from->local);
    copy_addr(&to->remote, &from->remote);
    to->link = from->link;
    to->traffic_class = from->traffic_class;
}

void soft_path_leave(struct soft_path *path)
{
    if (path->link != NULL)
        path->link->user = NULL;
    if (path->link != NULL && path->link->leave != NULL)
        path->link->leave(path->link);
    path->link = NULL;
}

bool soft_is_group(const union soft_addr *addr)
{
    return addr->sa.sa_family == AF_INET ? IN_MULTICAST(ntohl(addr->in.sin_addr.s_addr))
                                         : IN6_IS_ADDR_MULTICAST(&addr->in6.sin6_addr);
}

static bool is_open(const union soft_addr *addr)
{
    return addr->sa.sa_family == AF_UNSPEC || soft_is_any(addr);
}

static bool same_host(const union soft_addr *own, const union soft_addr *came)
{
    union soft_addr plain;

    if (own->sa.sa_family == AF_INET && came->sa.sa_family == AF_INET)
        return own->in.sin_addr.s_addr == came->in.sin_addr.s_addr;
    copy_addr(&plain, came);
    if (own->sa.sa_family != plain.sa.sa_family)
        return false;
    if (own->sa.sa_family == AF_INET)
        return own->in.sin_addr.s_addr == plain.in.sin_addr.s_addr;
    return IN6_ARE_ADDR_EQUAL(&own->in6.sin6_addr, &plain.in6.sin6_addr);
}

/* Packets from another address of this host also use the loopback interface, but only the routing table shows that. */
bool soft_is_by_loopback(const union soft_addr *local, const union soft_addr *remote)
{
    return same_host(local, remote) ||
           (remote->sa.sa_family == AF_INET && ntohl(remote->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET);
}

/* A peer on this device sends from the port at which it receives. This check detects mistakes, but stops no attacker:
 * on the peer's host, another user's socket that is bound to that port at 127.0.0.2 can name 127.0.0.1 as its source
 * (IP_PKTINFO). The attacker is stopped by the numbers of the queue pair and of the packet. It must guess both at the
 * same time, because no answer reveals that one of them is right (responder.c): 24 bits each, or 12 for a queue pair
 * whose number begins with its LID. A peer at RoCE's port may send from any port. */
static bool same_port(const union soft_addr *own, const union soft_addr *came)
{
    return own->in.sin_port == came->in.sin_port || /* at the same place in sockaddr_in6 */
           own->in.sin_port == htons(SOFT_UDP_PORT);
}

/* The path of most packets that use the wire's default link: IPv4, with both addresses known and equal. */
static bool is_same_v4(const struct soft_path *own, const struct soft_path *came)
{
    return own->remote.sa.sa_family == AF_INET && came->remote.sa.sa_family == AF_INET &&
           own->remote.in.sin_port == came->remote.in.sin_port &&
           own->remote.in.sin_addr.s_addr == came->remote.in.sin_addr.s_addr &&
           own->local.sa.sa_family == AF_INET && came->local.sa.sa_family == AF_INET &&
           own->local.in.sin_addr.s_addr == came->local.in.sin_addr.s_addr;
}

static __attribute__((noinline)) bool matches_otherwise(const struct soft_path *own,
                                                        const struct soft_path *came)
{
    return same_host(&own->remote, &came->remote) && same_port(&own->remote, &came->remote) &&
           (is_open(&own->local) || is_open(&came->local) || same_host(&own->local, &came->local));
}

inline __attribute__((always_inline)) bool soft_path_matches(const struct soft_path *own,
                                                             const struct soft_path *came)
{
    if (own->link != came->link || own->link != NULL)
        return own->link == came->link;
    return is_same_v4(own, came) || matches_otherwise(own, came);
}

/* An address handle with only a LID means a process of this host. */
static void path_of_lid(struct soft_path *path, uint16_t lid)
{
    path->local.in = path->remote.in =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    path->remote.in.sin_port = soft_port_of_lid(lid);
}

static void set_gid(union soft_addr *addr, const union ibv_gid *gid, unsigned interface)
{
    union soft_addr plain = {.in6.sin6_family = AF_INET6};

    memcpy(&plain.in6.sin6_addr, gid->raw, sizeof gid->raw);
    if (IN6_IS_ADDR_LINKLOCAL(&plain.in6.sin6_addr) || IN6_IS_ADDR_MULTICAST(&plain.in6.sin6_addr))
        plain.in6.sin6_scope_id = interface;
    copy_addr(addr, &plain);
}

/* The port at which a queue pair receives. Numbers of this device's queue pairs begin with their LID, which gives the
 * port. All others, and those of this device for which only a GID is known, are sent to RoCE's port, if this context
 * receives there itself. */
static in_port_t port_of(const struct soft_names *names, const struct ibv_ah_attr *ah, uint32_t qpn)
{
    unsigned lid = qpn >> SOFT_LID_QPNS_BITS;

    if (names->roce && (ah->dlid == 0 || ah->dlid != lid))
        return htons(SOFT_UDP_PORT);
    return soft_port_of_lid(lid);
}

/* A context without a GID table leaves the local address open: the link finds it by routing. */
bool soft_path_from_ah(const struct soft_context *context, struct soft_path *path, const struct ibv_ah_attr *ah,
                       uint32_t qpn)
{
    const struct soft_names *names = &context->names;
    unsigned interface = 0;

    memset(path, 0, sizeof *path);
    if (!ah->is_global && (ah->dlid == 0 || ah->dlid > SOFT_LID_MAX))
        return false;
    if (!ah->is_global) {
        path_of_lid(path, ah->dlid);
        return true;
    }
    if (names->gid_count > 0) {
        if (ah->grh.sgid_index >= names->gid_count)
            return false;
        interface = names->gids[ah->grh.sgid_index].interface;
        set_gid(&path->local, &names->gids[ah->grh.sgid_index].gid, interface);
    }
    set_gid(&path->remote, &ah->grh.dgid, interface);
    if (is_open(&path->remote))
        return false;
    if (names->gid_count == 0)
        path->local.sa.sa_family = path->remote.sa.sa_family;
    path->traffic_class = ah->grh.traffic_class;
    path->remote.in.sin_port = /* at the same place in sockaddr_in6 */
        soft_is_group(&path->remote) ? htons(SOFT_UDP_PORT) : port_of(names, ah, qpn);
    return path->local.sa.sa_family == path->remote.sa.sa_family;
}
