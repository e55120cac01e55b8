/* SPDX-License-Identifier: BSD-2-Clause */
/* joining.c - see joining.h. */
#include "joining.h"
#include "soft/cm/cm_id.h"
#include "soft/engine/context.h"

const char *const joining_groups[3] = {"239.1.2.3", "239.1.2.4", "239.1.2.5"};
int joining_contexts[3];

struct rdma_cm_id *id_bound(struct rdma_event_channel *of, const char *text)
{
    union soft_addr addr = ib_at(text, 0);
    struct rdma_cm_id *id;

    must(soft_create_id(of, &id, NULL, RDMA_PS_UDP));
    must(soft_bind_addr(id, &addr.sa));
    return id;
}

struct rdma_cm_id *id_with_qp(void)
{
    struct rdma_cm_id *id = id_bound(channel, JOINING_HERE);

    make_id_qp(id);
    return id;
}

int id_join(struct rdma_cm_id *id, int which)
{
    union soft_addr addr = ib_at(joining_groups[which], 0);

    return soft_join_multicast(id, &addr.sa, true, &joining_contexts[which]);
}

int id_leave(struct rdma_cm_id *id, int which)
{
    union soft_addr addr = ib_at(joining_groups[which], 0);

    return soft_leave_multicast(id, &addr.sa);
}

void id_told(struct rdma_cm_id *id, int which, enum rdma_cm_event_type type, int status)
{
    struct rdma_cm_event *event = next_event(type);

    ck_assert_ptr_eq(event->id, id);
    ck_assert_int_eq(event->status, status);
    ck_assert_ptr_eq(event->param.ud.private_data, &joining_contexts[which]);
    must(soft_ack_cm_event(event));
}

void id_joins(struct rdma_cm_id *id, int which)
{
    must(id_join(id, which));
    id_told(id, which, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
}

int id_groups(const struct rdma_cm_id *id)
{
    return (int)soft_qp_of(id->qp)->groups;
}

int id_sockets(const struct rdma_cm_id *id)
{
    return home_of(id->verbs)->udp.group_count;
}

/* ---- The program ---- */

static void open_all(void)
{
    soft_share_context();
    space = RDMA_PS_UDP;
    channel = soft_create_event_channel();
    ck_assert_ptr_nonnull(channel);
}

static void close_all(void)
{
    soft_destroy_event_channel(channel);
}

TCase *joining_case(Suite *suite, const char *name)
{
    TCase *tcase = new_case(suite, name);

    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, open_all, close_all);
    return tcase;
}

int joining_main(Suite *(*suite)(void))
{
    return twonets_main(twonets_alone, suite);
}
