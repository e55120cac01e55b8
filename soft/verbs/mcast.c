/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mcast.c - attaches queue pairs to multicast groups, and detaches them.
 *
 * A group's GID is an IPv6 multicast address, or ::ffff:a.b.c.d for an IPv4 one, as in RoCEv2.
 */
#include <arpa/inet.h>
#include <errno.h>
#include "soft/engine/engine.h"
#include "soft/engine/group.h"
#include "verbs.h"

/* False: the GID is not a multicast address. A group that is local to a link or interface means that of the interface
 * on which peers are most likely. */
static bool read_gid(const struct soft_context *context, const union ibv_gid *gid, union soft_addr *address)
{
    struct in6_addr in6;

    memcpy(&in6, gid->raw, sizeof in6);
    memset(address, 0, sizeof *address);
    if (IN6_IS_ADDR_V4MAPPED(&in6)) {
        address->in.sin_family = AF_INET;
        memcpy(&address->in.sin_addr, gid->raw + 12, sizeof address->in.sin_addr);
    } else {
        address->in6.sin6_family = AF_INET6;
        address->in6.sin6_addr = in6;
        if ((IN6_IS_ADDR_MC_LINKLOCAL(&in6) || IN6_IS_ADDR_MC_NODELOCAL(&in6)) && context->names.gid_count > 0)
            address->in6.sin6_scope_id = context->names.gids[0].interface;
    }
    return soft_is_group(address);
}

static int change_group(struct ibv_qp *ibv, const union ibv_gid *gid,
                        int (*how)(struct soft_qp *qp, const union soft_addr *address))
{
    struct soft_qp *qp = soft_qp_of(ibv);
    union soft_addr address;
    int error;

    soft_lock(ibv->context);
    error = soft_qp_check(ibv);
    if (error == 0 && (ibv->qp_type != IBV_QPT_UD || !read_gid(qp->context, gid, &address)))
        error = EINVAL;
    if (error == 0)
        error = how(qp, &address);
    soft_unlock(ibv->context);
    return error;
}

int soft_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)lid; /* for InfiniBand switches only */
    return change_group(qp, gid, soft_group_attach);
}

int soft_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)lid;
    return change_group(qp, gid, soft_group_detach);
}
