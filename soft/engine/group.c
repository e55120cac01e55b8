/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group.c - multicast groups. A datagram to a group's address names no queue pair; it is delivered to each member as if
 * it had been sent to that member alone, also to the sender's queue pair if it is a member.
 */
#include "group.h"
#include <errno.h>
#include <stdlib.h>
#include "engine.h"

static bool is_at(const struct soft_group *group, const union soft_addr *address)
{
    const union soft_addr *own = &group->address;

    if (own->sa.sa_family != address->sa.sa_family)
        return false;
    if (own->sa.sa_family == AF_INET)
        return own->in.sin_addr.s_addr == address->in.sin_addr.s_addr;
    return IN6_ARE_ADDR_EQUAL(&own->in6.sin6_addr, &address->in6.sin6_addr);
}

static struct soft_group *find_group(struct soft_context *context, const union soft_addr *address)
{
    struct soft_group *group;

    LIST_FOREACH (group, &context->groups, link) {
        if (is_at(group, address))
            return group;
    }
    return NULL;
}

static struct soft_member *member_of(struct soft_group *group, const struct soft_qp *qp)
{
    struct soft_member *member;

    LIST_FOREACH (member, &group->members, of_group) {
        if (member->qp == qp)
            return member;
    }
    return NULL;
}

/* ---- Joining and leaving ---- */

static void close_group(struct soft_context *context, struct soft_group *group)
{
    context->wire->leave(context->wire, &group->address);
    LIST_REMOVE(group, link);
    context->group_count--;
    free(group);
}

/* NULL, and an errno in *error. */
static struct soft_group *open_group(struct soft_context *context, const union soft_addr *address, int *error)
{
    struct soft_group *group;

    *error = context->wire->join == NULL ? EOPNOTSUPP : ENOMEM;
    if (*error == EOPNOTSUPP || context->group_count >= SOFT_MAX_GROUPS)
        return NULL;
    if ((group = calloc(1, sizeof *group)) == NULL)
        return NULL;
    group->address = *address;
    LIST_INIT(&group->members);
    *error = context->wire->join(context->wire, address);
    if (*error != 0) {
        free(group);
        return NULL;
    }
    LIST_INSERT_HEAD(&context->groups, group, link);
    context->group_count++;
    return group;
}

/* 0 or an errno. */
static int add_member(struct soft_group *group, struct soft_qp *qp)
{
    struct soft_member *member;

    if (group->count >= SOFT_MAX_GROUP_QPS || (member = calloc(1, sizeof *member)) == NULL)
        return ENOMEM;
    *member = (struct soft_member){.qp = qp, .group = group};
    LIST_INSERT_HEAD(&group->members, member, of_group);
    group->count++;
    qp->groups++;
    return 0;
}

int soft_group_attach(struct soft_qp *qp, const union soft_addr *address)
{
    struct soft_context *context = qp->context;
    struct soft_group *group = find_group(context, address);
    int error = 0;

    if (group != NULL && member_of(group, qp) != NULL)
        return 0;
    if (group == NULL && (group = open_group(context, address, &error)) == NULL)
        return error;
    error = add_member(group, qp);
    if (error != 0 && group->count == 0)
        close_group(context, group);
    return error;
}

int soft_group_detach(struct soft_qp *qp, const union soft_addr *address)
{
    struct soft_group *group = find_group(qp->context, address);
    struct soft_member *member = group == NULL ? NULL : member_of(group, qp);

    if (member == NULL)
        return EINVAL;
    LIST_REMOVE(member, of_group);
    free(member);
    qp->groups--;
    if (--group->count == 0)
        close_group(qp->context, group);
    return 0;
}

/* ---- Receiving ---- */

void soft_group_input(struct soft_context *context, const struct soft_packet *packet,
                      const struct soft_path *path)
{
    struct soft_group *group = find_group(context, &path->local);
    struct soft_member *member;

    if (group == NULL || (packet->opcode & SOFT_TRANSPORT) != SOFT_UD || (packet->op & SOFT_OP_ANSWER)) {
        context->counters.refused++;
        return;
    }
    LIST_FOREACH (member, &group->members, of_group) {
        if (soft_receives(member->qp))
            soft_ud_input(member->qp, packet, path);
    }
}
