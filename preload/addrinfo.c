/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_getaddrinfo: the system's getaddrinfo in librdmacm's terms. Librdmacm's own wants the kernel's RDMA. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include "preload.h"

/* Which port space carries queue pairs of a type, and the other way round. */
static enum rdma_port_space port_space(enum ibv_qp_type type)
{
    return type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
}

static enum ibv_qp_type qp_type(enum rdma_port_space ps)
{
    return ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
}

static void *copy(const void *from, size_t length)
{
    void *to = from == NULL ? NULL : malloc(length);

    return to == NULL ? NULL : memcpy(to, from, length);
}

/* Either end's address, of which the other one is given by the hints, if at all. False: out of memory. */
static bool fill(struct rdma_addrinfo *res, const struct addrinfo *found, const struct rdma_addrinfo *hints)
{
    bool passive = (res->ai_flags & RAI_PASSIVE) != 0;
    struct sockaddr **addr = passive ? &res->ai_src_addr : &res->ai_dst_addr;
    char **name = passive ? &res->ai_src_canonname : &res->ai_dst_canonname;

    *addr = copy(found->ai_addr, found->ai_addrlen);
    *(passive ? &res->ai_src_len : &res->ai_dst_len) = found->ai_addrlen;
    res->ai_family = found->ai_family;
    if (found->ai_canonname != NULL)
        *name = strdup(found->ai_canonname);
    if (!passive && hints != NULL && hints->ai_src_len > 0) {
        res->ai_src_addr = copy(hints->ai_src_addr, hints->ai_src_len);
        res->ai_src_len = hints->ai_src_len;
        if (res->ai_src_addr == NULL)
            return false;
    }
    return *addr != NULL;
}

static void set_kind(struct rdma_addrinfo *res, const struct rdma_addrinfo *hints)
{
    res->ai_qp_type = IBV_QPT_RC;
    res->ai_port_space = RDMA_PS_TCP;
    if (hints == NULL)
        return;
    res->ai_flags = hints->ai_flags;
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
    struct addrinfo wanted = {.ai_family = hints == NULL ? AF_UNSPEC : hints->ai_family}, *found = NULL;
    struct rdma_addrinfo *res = calloc(1, sizeof *res);
    int error;

    if (res == NULL)
        return EAI_MEMORY;
    set_kind(res, hints);
    wanted.ai_socktype = res->ai_port_space == RDMA_PS_UDP ? SOCK_DGRAM : SOCK_STREAM;
    if (res->ai_flags & RAI_PASSIVE)
        wanted.ai_flags |= AI_PASSIVE;
    if (res->ai_flags & RAI_NUMERICHOST)
        wanted.ai_flags |= AI_NUMERICHOST;
    error = getaddrinfo(node, service, &wanted, &found);
    if (error == 0 && !fill(res, found, hints))
        error = EAI_MEMORY;
    if (found != NULL)
        freeaddrinfo(found);
    if (error != 0) {
        rdma_freeaddrinfo(res);
        return error;
    }
    *out = res;
    return 0;
}
