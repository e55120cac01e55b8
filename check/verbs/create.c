/* SPDX-License-Identifier: BSD-2-Clause */
/* create.c - creation of queue pairs and address handles, and queries of a port with invalid arguments. */
#include "cases.h"

#include <fcntl.h>

static struct ibv_qp_init_attr plain(struct rig *r)
{
    rig_end_open(r, &r->a);
    return (struct ibv_qp_init_attr){
        .qp_type = IBV_QPT_RC,
        .send_cq = r->a.cq,
        .recv_cq = r->a.cq,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
    };
}

static struct ibv_device_attr limits(struct rig *r)
{
    struct ibv_device_attr attr;

    must(ibv_query_device(r->context, &attr), "ibv_query_device");
    return attr;
}

static void create(struct rig *r, struct ibv_qp_init_attr init)
{
    say_result("create", ibv_create_qp(r->pd, &init) != NULL);
}

static void qp_too_many_sends(struct rig *r)
{
    struct ibv_qp_init_attr init = plain(r);

    init.cap.max_send_wr = (uint32_t)limits(r).max_qp_wr + 1;
    create(r, init);
}
static void qp_too_many_receives(struct rig *r)
{
    struct ibv_qp_init_attr init = plain(r);

    init.cap.max_recv_wr = (uint32_t)limits(r).max_qp_wr + 1;
    create(r, init);
}
static void qp_too_many_sges(struct rig *r)
{
    struct ibv_qp_init_attr init = plain(r);

    init.cap.max_send_sge = (uint32_t)limits(r).max_sge + 1;
    create(r, init);
}
static void qp_too_much_inline(struct rig *r)
{
    struct ibv_qp_init_attr init = plain(r);

    init.cap.max_inline_data = 1u << 24;
    create(r, init);
}
static void qp_type_unknown(struct rig *r)
{
    struct ibv_qp_init_attr init = plain(r);

    init.qp_type = 77;
    create(r, init);
}
/* A queue pair that only sends needs no receive queue. */
static void qp_without_receives(struct rig *r)
{
    struct ibv_qp_init_attr init = plain(r);

    init.cap.max_recv_wr = 0;
    init.cap.max_recv_sge = 0;
    create(r, init);
}

static void ah(struct rig *r, struct ibv_ah_attr path)
{
    say_result("create", ibv_create_ah(r->pd, &path) != NULL);
}
static void ah_plain(struct rig *r)
{
    ah(r, rig_path(r));
}
static void ah_port_wrong(struct rig *r)
{
    struct ibv_ah_attr path = rig_path(r);

    path.port_num = 77;
    ah(r, path);
}
static void ah_gid_wrong(struct rig *r)
{
    struct ibv_ah_attr path = rig_path(r);

    path.is_global = 1;
    path.grh.sgid_index = 254;
    ah(r, path);
}

static void port_wrong(struct rig *r)
{
    struct ibv_port_attr attr;

    say_error("query", ibv_query_port(r->context, 77, &attr));
}
/* The manual pages say that these two return -1, without an errno. */
static void gid_wrong(struct rig *r)
{
    union ibv_gid gid;

    say("query", ibv_query_gid(r->context, 1, 30000, &gid) == 0 ? "0" : "not 0");
}
static void pkey_wrong(struct rig *r)
{
    __be16 pkey;

    say("query", ibv_query_pkey(r->context, 1, 30000, &pkey) == 0 ? "0" : "not 0");
}
static void pkey_first(struct rig *r)
{
    __be16 pkey = 0;

    say_error("query", ibv_query_pkey(r->context, 1, 0, &pkey));
    say_number("pkey", pkey);
}

/* A table of GIDs does not fit into an array of 0 entries. */
static void gids_without_room(struct rig *r)
{
    struct ibv_gid_entry entry;
    ssize_t count = ibv_query_gid_table(r->context, &entry, 0, 0);

    say_error("query", count < 0 ? (int)-count : 0);
}
static void device_named(struct rig *r)
{
    say("vendor", limits(r).vendor_id != 0 ? "some" : "none");
    say("cmd_fd", fcntl(r->context->cmd_fd, F_GETFD) >= 0 ? "open" : "none");
}

/* ---- Features that few devices have ---- */

static void create_parent_domain(struct rig *r)
{
    struct ibv_parent_domain_init_attr init = {.pd = r->pd};

    say_result("create", ibv_alloc_parent_domain(r->context, &init) != NULL);
}
static void create_thread_domain(struct rig *r)
{
    struct ibv_td_init_attr init = {.comp_mask = 0};

    say_result("create", ibv_alloc_td(r->context, &init) != NULL);
}
static void create_device_memory(struct rig *r)
{
    struct ibv_alloc_dm_attr init = {.length = 4096};

    say_result("create", ibv_alloc_dm(r->context, &init) != NULL);
}

const struct verbs_case create_cases[] = {
    {"qp-too-many-sends", qp_too_many_sends},
    {"qp-too-many-receives", qp_too_many_receives},
    {"qp-too-many-sges", qp_too_many_sges},
    {"qp-too-much-inline", qp_too_much_inline},
    {"qp-type-unknown", qp_type_unknown},
    {"qp-without-receives", qp_without_receives},
    {"ah-plain", ah_plain},
    {"ah-port-wrong", ah_port_wrong},
    {"ah-gid-wrong", ah_gid_wrong},
    {"device-named", device_named},
    {"gids-without-room", gids_without_room},
    {"port-wrong", port_wrong},
    {"gid-wrong", gid_wrong},
    {"pkey-wrong", pkey_wrong},
    {"pkey-first", pkey_first},
    {"parent-domain", create_parent_domain},
    {"thread-domain", create_thread_domain},
    {"device-memory", create_device_memory},
    {0},
};
