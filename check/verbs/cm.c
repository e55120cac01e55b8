/* SPDX-License-Identifier: BSD-2-Clause */
/* cm.c - addresses of the connection manager: source addresses of bound and unbound identifiers. */
#include "address.h"
#include "cases.h"

#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#define RESOLVE_MS 10000

/* Returns an address that no interface has, from a range reserved for documentation. */
static union address foreign_address(sa_family_t family)
{
    union address foreign = {.room.ss_family = family};

    if (family == AF_INET)
        inet_pton(family, "198.51.100.1", &foreign.ipv4.sin_addr);
    else
        inet_pton(family, "2001:db8::1", &foreign.ipv6.sin6_addr);
    return foreign;
}

static struct rdma_cm_id *make_id(void)
{
    struct rdma_event_channel *channel = need(rdma_create_event_channel(), "rdma_create_event_channel");
    struct rdma_cm_id *id;

    must(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
    return id;
}

static void resolve(struct rdma_cm_id *id, union address *from, union address *to)
{
    int rc = rdma_resolve_addr(id, from ? &from->any : NULL, &to->any, RESOLVE_MS);
    struct rdma_cm_event *event;

    say_error("resolve", rc);
    if (rc != 0)
        return;
    must(rdma_get_cm_event(id->channel, &event), "rdma_get_cm_event");
    say("event", rdma_event_str(event->event) + strlen("RDMA_CM_EVENT_"));
    must(rdma_ack_cm_event(event), "rdma_ack_cm_event");
}

/* Returns an identifier bound to the device's address and a port that the kernel chooses. */
static struct rdma_cm_id *make_bound_id(union address *own)
{
    struct rdma_cm_id *id = make_id();

    must(rdma_bind_addr(id, &own->any), "rdma_bind_addr");
    return id;
}

static void resolve_from(struct rig *r, union address *from)
{
    union address own = own_address(r);
    struct rdma_cm_id *id = make_bound_id(&own);
    union address bound;

    memcpy(&bound, rdma_get_local_addr(id), sizeof bound);
    resolve(id, from, &own);
    say("source", memcmp(&bound, rdma_get_local_addr(id), sizeof bound) == 0 ? "as bound" : "another");
}

static void resolve_bound(struct rig *r)
{
    resolve_from(r, NULL);
}
static void resolve_bound_same_source(struct rig *r)
{
    union address own = own_address(r);

    resolve_from(r, &own);
}
static void resolve_bound_other_source(struct rig *r)
{
    union address foreign = foreign_address(own_address(r).any.sa_family);

    resolve_from(r, &foreign);
}
static void resolve_bound_source_unknown(struct rig *r)
{
    union address nonsense = {.any.sa_family = 77};

    resolve_from(r, &nonsense);
}
/* An unbound identifier with a source address that no local interface has. */
static void resolve_foreign_source(struct rig *r)
{
    union address own = own_address(r), foreign = foreign_address(own.any.sa_family);

    resolve(make_id(), &foreign, &own);
}

const struct verbs_case cm_cases[] = {
    {"resolve-bound", resolve_bound},
    {"resolve-bound-same-source", resolve_bound_same_source},
    {"resolve-bound-other-source", resolve_bound_other_source},
    {"resolve-bound-source-unknown", resolve_bound_source_unknown},
    {"resolve-foreign-source", resolve_foreign_source},
    {0},
};
