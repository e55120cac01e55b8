/* SPDX-License-Identifier: BSD-2-Clause */
/* addrinfo.c - rdma_getaddrinfo(), which calls the C library's getaddrinfo() and converts the result. librdmacm's
 * function can't be used, because it needs the kernel's RDMA subsystem. */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include "preload.h"

/* The port space for queue pairs of a type; qp_type() converts back. */
static enum rdma_port_space port_space(enum ibv_qp_type type)
{
    return type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
}

static enum ibv_qp_type qp_type(enum rdma_port_space ps)
{
    return ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
}

/* False: out of memory. */
static bool copy_address(struct sockaddr **to, socklen_t *to_length, const struct sockaddr *from,
                         socklen_t length)
{
    if (from == NULL || length == 0 || *to != NULL)
        return true;
    *to = malloc(length);
    if (*to == NULL)
        return false;
    memcpy(*to, from, length);
    *to_length = length;
    return true;
}

/* Stores the address that was looked up: the source with RAI_PASSIVE, otherwise the destination. False: out of
 * memory. */
static bool store_found(struct rdma_addrinfo *res, const struct addrinfo *found)
{
    bool passive = (res->ai_flags & RAI_PASSIVE) != 0;
    char **name = passive ? &res->ai_src_canonname : &res->ai_dst_canonname;

    res->ai_family = found->ai_family;
    if (found->ai_canonname != NULL)
        *name = strdup(found->ai_canonname);
    return passive ? copy_address(&res->ai_src_addr, &res->ai_src_len, found->ai_addr, found->ai_addrlen)
                   : copy_address(&res->ai_dst_addr, &res->ai_dst_len, found->ai_addr, found->ai_addrlen);
}

static int look_up(const char *node, const char *service, struct rdma_addrinfo *res)
{
    struct addrinfo wanted = {.ai_family = res->ai_family}, *found;
    int error;

    wanted.ai_socktype = res->ai_port_space == RDMA_PS_UDP ? SOCK_DGRAM : SOCK_STREAM;
    if (res->ai_flags & RAI_PASSIVE)
        wanted.ai_flags |= AI_PASSIVE;
    if (res->ai_flags & RAI_NUMERICHOST)
        wanted.ai_flags |= AI_NUMERICHOST;
    error = getaddrinfo(node, service, &wanted, &found);
    if (error != 0)
        return error;
    if (!store_found(res, found))
        error = EAI_MEMORY;
    freeaddrinfo(found);
    return error;
}

/* Copies addresses from the hints that were not looked up. `asked`: one was looked up. False: out of memory. */
static bool complete_from_hints(struct rdma_addrinfo *res, const struct rdma_addrinfo *hints, bool asked)
{
    return (asked ||
            copy_address(&res->ai_dst_addr, &res->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len)) &&
           copy_address(&res->ai_src_addr, &res->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
}

static void set_kind(struct rdma_addrinfo *res, const struct rdma_addrinfo *hints)
{
    res->ai_qp_type = IBV_QPT_RC;
    res->ai_port_space = RDMA_PS_TCP;
    if (hints == NULL)
        return;
    res->ai_flags = hints->ai_flags;
    res->ai_family = hints->ai_family;
    if (hints->ai_qp_type != 0) {
        res->ai_qp_type = hints->ai_qp_type;
        res->ai_port_space = hints->ai_port_space != 0 ? hints->ai_port_space
                                                       : (int)port_space((enum ibv_qp_type)res->ai_qp_type);
    } else if (hints->ai_port_space != 0) {
        res->ai_port_space = hints->ai_port_space;
        res->ai_qp_type = qp_type((enum rdma_port_space)res->ai_port_space);
    }
}

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
    while (res != NULL) {
        struct rdma_addrinfo *next = res->ai_next;

        free(res->ai_src_addr);
        free(res->ai_dst_addr);
        free(res->ai_src_canonname);
        free(res->ai_dst_canonname);
        free(res);
        res = next;
    }
}

EXPORT int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
                            struct rdma_addrinfo **out)
{
    bool asked = node != NULL || service != NULL;
    struct rdma_addrinfo *res;
    int error = 0;

    if (!asked && hints == NULL) {
        errno = EINVAL;
        return -1;
    }
    res = calloc(1, sizeof *res);
    if (res == NULL)
        return EAI_MEMORY;
    set_kind(res, hints);
    if (asked)
        error = look_up(node, service, res);
    if (error == 0 && hints != NULL && !complete_from_hints(res, hints, asked))
        error = EAI_MEMORY;
    if (error != 0) {
        rdma_freeaddrinfo(res);
        return error;
    }
    *out = res;
    return 0;
}
