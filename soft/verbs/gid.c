/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gid.c - the names by which programs connect: GIDs, LIDs and partition keys.
 *
 * A GID is an address of this host: an IPv6 address, or ::ffff:a.b.c.d for an IPv4 one. The first in the table is the
 * one that is most likely reachable from other hosts, because many programs use index 0.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "soft/engine/engine.h"
#include "soft/engine/shuffle.h"
#include "verbs.h"

void soft_gid_of(union ibv_gid *gid, const struct sockaddr *addr)
{
    memset(gid, 0, sizeof *gid);
    if (addr->sa_family == AF_INET6) {
        memcpy(gid->raw, &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr, sizeof gid->raw);
    } else {
        gid->raw[10] = gid->raw[11] = 0xff;
        memcpy(gid->raw + 12, &((const struct sockaddr_in *)(const void *)addr)->sin_addr, 4);
    }
}

/* ---- The host's addresses ---- */

/* How suitable an address is for peers; lower is better. */
enum suit { SUIT_IPV4, SUIT_IPV6, SUIT_LOOPBACK_IPV4, SUIT_LOOPBACK_IPV6, SUIT_LINK_LOCAL, SUITS };

static enum suit suit_of(const struct ifaddrs *one)
{
    bool loopback = one->ifa_flags & IFF_LOOPBACK;

    if (one->ifa_addr->sa_family == AF_INET)
        return loopback ? SUIT_LOOPBACK_IPV4 : SUIT_IPV4;
    if (IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)one->ifa_addr)->sin6_addr))
        return SUIT_LINK_LOCAL;
    return loopback ? SUIT_LOOPBACK_IPV6 : SUIT_IPV6;
}

static bool is_usable(const struct ifaddrs *one)
{
    return one->ifa_flags & IFF_UP && one->ifa_addr != NULL &&
           (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6);
}

int soft_host_gids(struct soft_gid gids[SOFT_GIDS])
{
    struct ifaddrs *all, *one;
    int count = 0;

    if (getifaddrs(&all) == -1)
        return 0;
    for (enum suit suit = 0; suit < SUITS; suit++)
        for (one = all; one != NULL && count < SOFT_GIDS; one = one->ifa_next) {
            if (!is_usable(one) || suit_of(one) != suit)
                continue;
            soft_gid_of(&gids[count].gid, one->ifa_addr);
            gids[count++].interface = if_nametoindex(one->ifa_name);
        }
    freeifaddrs(all);
    return count;
}

/* The largest path MTU whose packets this interface can carry. */
static enum ibv_mtu interface_mtu(int socket, unsigned interface)
{
    struct ifreq request = {0};
    enum ibv_mtu mtu = IBV_MTU_4096;

    if (if_indextoname(interface, request.ifr_name) == NULL || ioctl(socket, SIOCGIFMTU, &request) == -1)
        return mtu;
    while (mtu > IBV_MTU_256 && (128 << mtu) + SOFT_ROCE_HEADERS > request.ifr_mtu)
        mtu--;
    return mtu;
}

enum ibv_mtu soft_host_mtu(int socket, const struct soft_gid *gids, int count)
{
    enum ibv_mtu least = IBV_MTU_4096;

    for (int i = 0; i < count; i++) {
        enum ibv_mtu mtu = interface_mtu(socket, gids[i].interface);

        if (mtu < least)
            least = mtu;
    }
    return least;
}

#define HALF ((size_t)16) /* digits of half an ID */

/* Reads 32 hexadecimal digits, which no other host may learn: machine-id(5). */
static bool read_machine_id(uint64_t id[2])
{
    char digits[2 * HALF + 1] = "", half[HALF + 1] = "";
    FILE *file = fopen("/etc/machine-id", "re");
    bool good = file != NULL && fread(digits, 1, 2 * HALF, file) == 2 * HALF &&
                strspn(digits, "0123456789abcdefABCDEF") == 2 * HALF;

    if (file != NULL)
        fclose(file);
    for (int i = 0; i < 2; i++) {
        memcpy(half, digits + i * HALF, HALF);
        id[i] = strtoull(half, NULL, 16);
    }
    return good;
}

/* The host's name in the network is not a secret. */
static void hash_host_name(uint64_t hash[2])
{
    char name[256] = "";

    hash[0] = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    hash[1] = 0;
    (void)gethostname(name, sizeof name - 1);
    for (const char *at = name; *at != '\0'; at++)
        hash[0] = (hash[0] ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
}

/* One number for the host, the same in every process. Peers see it, so it must not reveal the machine's ID, which is
 * the key of the hash. */
uint64_t soft_host_guid(void)
{
    uint64_t key[2], hash;

    if (!read_machine_id(key))
        hash_host_name(key);
    hash = soft_keyed_hash(key, UINT64_C(0x4558532067756964));                            /* "EXS guid" */
    return htobe64((hash & UINT64_C(0xfcffffffffffffff)) | UINT64_C(0x0200000000000000)); /* locally given */
}

/* ---- The context's names ---- */

void soft_set_names(struct ibv_context *ibv, const struct soft_names *names)
{
    struct soft_context *context = soft_context_of(ibv);

    context->names = *names;
    context->node_guid = names->guid;
    context->first_qpn = (uint32_t)names->lid << SOFT_LID_QPNS_BITS;
    context->last_qpn = context->first_qpn + (1 << SOFT_LID_QPNS_BITS) - 1;
    context->qpns.bits = SOFT_LID_QPNS_BITS;
}

static bool is_place(const struct ibv_context *ibv, unsigned port, int64_t index, int64_t places)
{
    (void)ibv;
    if (port == SOFT_DEVICE_PORT && index >= 0 && index < places)
        return true;
    errno = EINVAL;
    return false;
}

int soft_query_gid(struct ibv_context *ibv, uint8_t port, int index, union ibv_gid *gid)
{
    const struct soft_names *names = &soft_context_of(ibv)->names;

    if (!is_place(ibv, port, index, SOFT_GIDS))
        return -1;
    memset(gid, 0, sizeof *gid);
    soft_lock(ibv);
    if (index < names->gid_count)
        *gid = names->gids[index].gid;
    soft_unlock(ibv);
    return 0;
}

static void describe_gid(struct ibv_gid_entry *entry, const struct soft_names *names, int index)
{
    *entry = (struct ibv_gid_entry){
        .gid = names->gids[index].gid,
        .gid_index = (uint32_t)index,
        .port_num = SOFT_DEVICE_PORT,
        .gid_type = IBV_GID_TYPE_ROCE_V2,
        .ndev_ifindex = names->gids[index].interface,
    };
}

int soft_query_gid_ex(struct ibv_context *ibv, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
                      uint32_t flags, size_t size)
{
    const struct soft_names *names = &soft_context_of(ibv)->names;
    struct ibv_gid_entry whole;
    bool there;

    if (flags != 0)
        return EOPNOTSUPP;
    if (!is_place(ibv, port, index, SOFT_GIDS))
        return EINVAL;
    soft_lock(ibv);
    there = index < (uint32_t)names->gid_count;
    if (there)
        describe_gid(&whole, names, (int)index);
    soft_unlock(ibv);
    if (!there)
        return ENODATA;
    soft_give(entry, size, &whole, sizeof whole);
    return 0;
}

ssize_t soft_query_gid_table(struct ibv_context *ibv, struct ibv_gid_entry *entries, size_t room,
                             uint32_t flags, size_t size)
{
    const struct soft_names *names = &soft_context_of(ibv)->names;
    struct ibv_gid_entry whole;
    size_t count = 0;

    if (flags != 0)
        return -EOPNOTSUPP;
    soft_lock(ibv);
    if (room < (size_t)names->gid_count) {
        soft_unlock(ibv);
        return -EINVAL;
    }
    for (; count < room && count < (size_t)names->gid_count; count++) {
        describe_gid(&whole, names, (int)count);
        soft_give((char *)entries + count * size, size, &whole, sizeof whole);
    }
    soft_unlock(ibv);
    return (ssize_t)count;
}

int soft_query_pkey(struct ibv_context *ibv, uint8_t port, int index, __be16 *pkey)
{
    if (!is_place(ibv, port, index, 1))
        return -1;
    *pkey = htobe16(SOFT_PKEY);
    return 0;
}

int soft_get_pkey_index(struct ibv_context *ibv, uint8_t port, __be16 pkey)
{
    if (is_place(ibv, port, 0, 1) && pkey == htobe16(SOFT_PKEY))
        return 0;
    errno = EINVAL;
    return -1;
}

int soft_gid_index(struct ibv_context *ibv, const union ibv_gid *gid)
{
    const struct soft_names *names = &soft_context_of(ibv)->names;

    for (int i = 0; i < names->gid_count; i++)
        if (memcmp(&names->gids[i].gid, gid, sizeof *gid) == 0)
            return i;
    return -1;
}

int soft_gid_enter(struct ibv_context *ibv, const union ibv_gid *gid)
{
    struct soft_names *names = &soft_context_of(ibv)->names;
    int index;

    soft_lock(ibv);
    index = soft_gid_index(ibv, gid);
    if (index == -1 && names->gid_count > 0 && names->gid_count < SOFT_GIDS) {
        index = names->gid_count++;
        names->gids[index] = (struct soft_gid){.gid = *gid};
    }
    soft_unlock(ibv);
    return index;
}
