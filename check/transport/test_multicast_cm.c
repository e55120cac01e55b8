/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_multicast_cm.c - librdmacm's multicast: which identifiers may join which addresses, what their events contain,
 * and when their queue pair is attached to the group.
 *
 * In a network namespace of its own, in which no other program has RoCE's port.
 */
#include <errno.h>
#include <string.h>
#include <sys/un.h>
#include "soft/cm/cm_id.h"
#include "soft/verbs/verbs.h"
#include "joining.h"

/* ---- Which identifiers and addresses ---- */

static const struct {
    const char *own, *group;
    unsigned port;
    int error;
} rows[] = {
    {JOINING_HERE, "224.0.0.0", 0, 0},
    {JOINING_HERE, "239.255.255.255", PORT, 0},
    {JOINING_HERE, "223.255.255.255", 0, EINVAL},
    {JOINING_HERE, "240.0.0.0", 0, EINVAL},
    {JOINING_HERE, JOINING_HERE, PORT, EINVAL},
    {JOINING_HERE, "0.0.0.0", 0, EINVAL},
    {JOINING_HERE, "ff05::1234", 0, EINVAL}, /* an address of another family */
    {"::1", "ff05::1234", 0, 0},
    {"::1", "ff02::1234", PORT, 0},
    {"::1", "fe80::1234", 0, EINVAL},
    {"::1", "::1", PORT, EINVAL},
    {"::1", "::", 0, EINVAL},
    {"::1", "::ffff:239.1.2.3", 0, EINVAL}, /* an IPv4-mapped address */
    {"::1", "239.1.2.3", 0, EINVAL},
};

START_TEST(which_address)
{
    union soft_addr addr = ib_at(rows[_i].group, rows[_i].port);
    struct rdma_cm_id *id = id_bound(channel, rows[_i].own);

    if (rows[_i].error == 0) {
        must(soft_join_multicast(id, &addr.sa, true, NULL));
        ck_assert_int_eq(status_of(RDMA_CM_EVENT_MULTICAST_JOIN), 0);
        must(soft_leave_multicast(id, &addr.sa));
    } else {
        must_fail(soft_join_multicast(id, &addr.sa, true, NULL), rows[_i].error);
        must_fail(soft_leave_multicast(id, &addr.sa), EADDRNOTAVAIL);
    }
    no_event();
    end_id(id);
}
END_TEST

/* The identifier must be bound to a device, which the wildcard address is not, and must be of RDMA_PS_UDP. */
START_TEST(which_identifier)
{
    union soft_addr here = ib_at(JOINING_HERE, 0);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct rdma_cm_id *id;

    must(soft_create_id(channel, &id, NULL, RDMA_PS_UDP));
    must_fail(id_join(id, 0), EINVAL);
    end_id(id);
    id = id_bound(channel, "0.0.0.0");
    ck_assert_ptr_null(id->verbs);
    must_fail(id_join(id, 0), EINVAL);
    end_id(id);
    must(soft_create_id(channel, &id, NULL, RDMA_PS_TCP));
    must(soft_bind_addr(id, &here.sa));
    ck_assert_ptr_nonnull(id->verbs);
    must_fail(id_join(id, 0), EINVAL);
    end_id(id);
    id = id_bound(channel, JOINING_HERE);
    must_fail(soft_join_multicast(id, (const struct sockaddr *)&un, true, NULL), EINVAL);
    no_event();
    end_id(id);
}
END_TEST

START_TEST(twice)
{
    struct rdma_cm_id *id = id_with_qp(), *other = id_with_qp();
    union soft_addr another_port = ib_at(joining_groups[0], PORT);

    must(id_join(id, 0));
    must_fail(id_join(id, 0), EADDRINUSE); /* before its event */
    id_told(id, 0, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    must_fail(id_join(id, 0), EADDRINUSE); /* and after it */
    must_fail(soft_join_multicast(id, &another_port.sa, false, NULL), EADDRINUSE);
    no_event();
    id_joins(id, 1);
    id_joins(other, 0);
    ck_assert_int_eq(id_groups(id), 2);
    ck_assert_int_eq(id_groups(other), 1);
    ck_assert_int_eq(id_sockets(id), 2);
    must(id_leave(id, 0));
    ck_assert_int_eq(id_groups(id), 1);
    ck_assert_int_eq(id_groups(other), 1);
    ck_assert_int_eq(id_sockets(id), 2);
    id_joins(id, 0);
    must(soft_leave_multicast(id, &another_port.sa));
    must(id_leave(id, 1));
    must(id_leave(other, 0));
    ck_assert_int_eq(id_sockets(id), 0);
    end_id(other);
    end_id(id);
}
END_TEST

/* ---- Contents of the events ---- */

/* The second is not in the GID table yet. */
static const char *const owns[] = {JOINING_HERE, "127.0.0.2", "::1"};

START_TEST(all_that_is_needed_to_send)
{
    const char *group = _i == 2 ? "ff05::1234" : joining_groups[0];
    union soft_addr addr = ib_at(group, 0), own = ib_at(owns[_i], 0);
    struct rdma_cm_id *id = id_bound(channel, owns[_i]);
    union ibv_gid to, from, listed;
    struct rdma_cm_event *event;
    struct rdma_ud_param *ud;
    uint8_t class = 0x20;
    struct ibv_ah *ah;

    must(soft_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &class, sizeof class));
    must(soft_join_multicast(id, &addr.sa, true, &joining_contexts[0]));
    event = next_event(RDMA_CM_EVENT_MULTICAST_JOIN);
    ud = &event->param.ud;
    ck_assert_ptr_eq(event->id, id);
    ck_assert_int_eq(event->status, 0);
    ck_assert_ptr_eq(ud->private_data, &joining_contexts[0]);
    ck_assert_uint_eq(ud->private_data_len, 0);
    ck_assert_uint_eq(ud->qp_num, 0xffffff);
    ck_assert_uint_eq(ud->qkey, RDMA_UDP_QKEY);
    ck_assert_uint_eq(ud->ah_attr.is_global, 1);
    ck_assert_uint_eq(ud->ah_attr.port_num, 1);
    ck_assert_uint_eq(ud->ah_attr.grh.hop_limit, 1);
    ck_assert_uint_eq(ud->ah_attr.grh.traffic_class, class);
    soft_gid_of(&to, &addr.sa);
    soft_gid_of(&from, &own.sa);
    ck_assert_mem_eq(ud->ah_attr.grh.dgid.raw, to.raw, sizeof to.raw);
    ck_assert_int_eq(soft_query_gid(id->verbs, 1, ud->ah_attr.grh.sgid_index, &listed), 0);
    ck_assert_mem_eq(listed.raw, from.raw, sizeof from.raw);
    ah = soft_create_ah(id->pd, &ud->ah_attr);
    ck_assert_ptr_nonnull(ah);
    ck_assert_int_eq(soft_destroy_ah(ah), 0);
    must(soft_ack_cm_event(event));
    end_id(id);
}
END_TEST

/* Other events do not contain the fields of a multicast event. */
START_TEST(other_events)
{
    union soft_addr to = ib_at(JOINING_HERE, PORT);
    struct rdma_cm_id *id = id_bound(channel, JOINING_HERE);
    struct rdma_cm_event *event;

    must(soft_resolve_addr(id, NULL, &to.sa, 1000));
    event = next_event(RDMA_CM_EVENT_ADDR_RESOLVED);
    ck_assert_ptr_null(event->param.ud.private_data);
    ck_assert_uint_eq(event->param.ud.qp_num, 0);
    ck_assert_uint_eq(event->param.ud.qkey, 0);
    must(soft_ack_cm_event(event));
    id_joins(id, 0); /* a peer's address is not needed, and does no harm */
    end_id(id);
}
END_TEST

/* An event that the application holds stays valid after the group was left. */
START_TEST(an_event_is_held)
{
    struct rdma_cm_id *id = id_with_qp();
    struct rdma_cm_event *event;

    must(id_join(id, 0));
    event = next_event(RDMA_CM_EVENT_MULTICAST_JOIN);
    must(id_leave(id, 0));
    id_joins(id, 1);
    must(id_leave(id, 1));
    ck_assert_ptr_eq(event->param.ud.private_data, &joining_contexts[0]);
    ck_assert_uint_eq(event->param.ud.qp_num, 0xffffff);
    must(soft_ack_cm_event(event));
    end_id(id);
}
END_TEST

/* ---- The queue pair ---- */

/* The queue pair is attached when the application gets the event, and not before; with
 * RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER it is never attached. */
START_TEST(in_the_group_when_told)
{
    union soft_addr addr = ib_at(joining_groups[1], 0);
    struct rdma_cm_id *id = id_with_qp();

    must(id_join(id, 0));
    ck_assert_int_eq(id_groups(id), 0);
    id_told(id, 0, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    ck_assert_int_eq(id_groups(id), 1);
    must(soft_join_multicast(id, &addr.sa, false, &joining_contexts[1]));
    id_told(id, 1, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    ck_assert_int_eq(id_groups(id), 1);
    ck_assert_int_eq(id_sockets(id), 1);
    must(id_leave(id, 1));
    ck_assert_int_eq(id_groups(id), 1);
    must(id_leave(id, 0));
    ck_assert_int_eq(id_groups(id), 0);
    ck_assert_int_eq(id_sockets(id), 0);
    end_id(id);
}
END_TEST

/* A queue pair that is created before the event is attached; the application must attach one that it creates later. */
START_TEST(a_queue_pair_comes_later)
{
    bool before = _i == 0;
    struct rdma_cm_id *id = id_bound(channel, JOINING_HERE);

    must(id_join(id, 0));
    if (before)
        make_id_qp(id);
    id_told(id, 0, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    if (!before)
        make_id_qp(id);
    ck_assert_int_eq(id_groups(id), before);
    if (!before) { /* or join once more */
        id_joins(id, 0);
        ck_assert_int_eq(id_groups(id), 1);
    }
    must(id_leave(id, 0));
    ck_assert_int_eq(id_groups(id), 0);
    end_id(id);
}
END_TEST

/* The application may detach and destroy the queue pair itself; leaving the group then has nothing to detach. */
START_TEST(a_queue_pair_goes_first)
{
    union soft_addr addr = ib_at(joining_groups[0], 0);
    struct rdma_cm_id *id = id_with_qp();
    union ibv_gid gid;

    id_joins(id, 0);
    soft_gid_of(&gid, &addr.sa);
    ck_assert_int_eq(soft_detach_mcast(id->qp, &gid, 0), 0);
    soft_destroy_id_qp(id);
    ck_assert_ptr_null(id->qp);
    must(id_leave(id, 0));
    must_fail(id_leave(id, 0), EADDRNOTAVAIL);
    end_id(id);
}
END_TEST

/* If the queue pair can't be attached, the event contains the error. The application can leave the group all the same,
 * and an attachment that it made itself in the meantime stays. */
START_TEST(it_cannot_be_in_the_group)
{
    union soft_addr addr = ib_at(joining_groups[0], 0);
    struct rdma_cm_id *id = id_with_qp();
    struct soft_wire *wire = soft_wire_of(id->verbs);
    __typeof__(wire->join) own = wire->join;
    union ibv_gid gid;

    wire->join = NULL;
    must(id_join(id, 0));
    id_told(id, 0, RDMA_CM_EVENT_MULTICAST_ERROR, -EOPNOTSUPP);
    wire->join = own;
    ck_assert_int_eq(id_groups(id), 0);
    soft_gid_of(&gid, &addr.sa);
    ck_assert_int_eq(soft_attach_mcast(id->qp, &gid, 0), 0);
    must(id_leave(id, 0));
    ck_assert_int_eq(id_groups(id), 1);
    ck_assert_int_eq(soft_detach_mcast(id->qp, &gid, 0), 0);
    wire->join = NULL;
    must(id_join(id, 0));
    id_told(id, 0, RDMA_CM_EVENT_MULTICAST_ERROR, -EOPNOTSUPP);
    wire->join = own;
    id_joins(id, 0); /* joining again needs no leave before */
    ck_assert_int_eq(id_groups(id), 1);
    must(id_leave(id, 0));
    end_id(id);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("joining multicast groups");
    TCase *tcase = joining_case(suite, "joining multicast groups");

    tcase_add_loop_test(tcase, which_address, 0, COUNT(rows));
    tcase_add_test(tcase, which_identifier);
    tcase_add_test(tcase, twice);
    tcase_add_loop_test(tcase, all_that_is_needed_to_send, 0, COUNT(owns));
    tcase_add_test(tcase, other_events);
    tcase_add_test(tcase, an_event_is_held);
    tcase_add_test(tcase, in_the_group_when_told);
    tcase_add_loop_test(tcase, a_queue_pair_comes_later, 0, 2);
    tcase_add_test(tcase, a_queue_pair_goes_first);
    tcase_add_test(tcase, it_cannot_be_in_the_group);
    return suite;
}

int main(void)
{
    return joining_main(suite);
}
