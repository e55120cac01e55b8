/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_multicast_leave.c - librdmacm's multicast: leaving the group, or destroying the identifier, ends everything;
 * until then datagrams are received.
 *
 * In a network namespace of its own, in which no other program has RoCE's port.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include "soft/cm/cm_id.h"
#include "soft/verbs/verbs.h"
#include "joining.h"
#include "members.h"

/* ---- How it ends ---- */

START_TEST(leaving_what_was_not_joined)
{
    struct rdma_cm_id *id = id_with_qp(), *other = id_with_qp();
    union soft_addr addr = ib_at(joining_groups[0], 0), ipv6 = ib_at("ff05::1234", 0);

    must_fail(id_leave(id, 0), EADDRNOTAVAIL);
    id_joins(id, 0);
    must_fail(id_leave(other, 0), EADDRNOTAVAIL);
    must_fail(id_leave(id, 1), EADDRNOTAVAIL);
    must_fail(soft_leave_multicast(id, &ipv6.sa), EADDRNOTAVAIL);
    addr.sa.sa_family = AF_UNIX; /* the rest of the address stays as it is */
    must_fail(soft_leave_multicast(id, &addr.sa), EADDRNOTAVAIL);
    ck_assert_int_eq(id_groups(id), 1);
    must(id_leave(id, 0));
    must_fail(id_leave(id, 0), EADDRNOTAVAIL);
    end_id(other);
    end_id(id);
}
END_TEST

/* If the group is left before its event was taken, the event is dropped, and the channel's descriptor is not
 * readable. */
START_TEST(left_before_it_is_told)
{
    struct pollfd one = {.fd = channel->fd, .events = POLLIN};
    struct rdma_cm_id *id = id_with_qp();

    must(id_join(id, 0));
    must(id_join(id, 1));
    ck_assert_int_eq(poll(&one, 1, 0), 1);
    must(id_leave(id, 0));
    id_told(id, 1, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    ck_assert_int_eq(id_groups(id), 1);
    ck_assert_int_eq(poll(&one, 1, 0), 0);
    no_event();
    must(id_leave(id, 1));
    end_id(id);
}
END_TEST

/* The identifier is destroyed while its queue pair is attached to two groups, and the event of a third is not taken
 * yet. */
START_TEST(an_identifier_ends)
{
    struct rdma_cm_id *other = id_with_qp(), *id = id_with_qp(), parts = *id;

    id_joins(other, 0);
    id_joins(id, 0);
    id_joins(id, 1);
    must(id_join(id, 2));
    ck_assert_int_eq(id_groups(&parts), 2);
    must(soft_destroy_id(id));
    ck_assert_int_eq(id_groups(&parts), 0);
    ck_assert_int_eq(id_groups(other), 1);
    ck_assert_int_eq(id_sockets(other), 1);
    no_event();
    ck_assert_int_eq(soft_destroy_qp(parts.qp), 0);
    ck_assert_int_eq(soft_destroy_cq(parts.send_cq), 0);
    ck_assert_int_eq(soft_destroy_cq(parts.recv_cq), 0);
    ck_assert_int_eq(soft_destroy_comp_channel(parts.send_cq_channel), 0);
    ck_assert_int_eq(soft_destroy_comp_channel(parts.recv_cq_channel), 0);
    must(id_leave(other, 0));
    end_id(other);
}
END_TEST

/* In the usual order: first the queue pair, which is attached, and then the identifier. */
START_TEST(all_of_it_ends)
{
    struct rdma_cm_id *other = id_with_qp(), *id = id_with_qp();

    id_joins(id, 0);
    ck_assert_int_eq(id_sockets(other), 1);
    end_id(id);
    ck_assert_int_eq(id_sockets(other), 0);
    end_id(other);
}
END_TEST

/* Events that the application has not taken move to the new channel, in order. */
START_TEST(to_another_channel)
{
    struct rdma_event_channel *first = channel;
    struct rdma_cm_id *id = id_with_qp();

    id_joins(id, 0);
    must(id_join(id, 1));
    must(id_join(id, 2));
    channel = soft_create_event_channel();
    ck_assert_ptr_nonnull(channel);
    must(soft_migrate_id(id, channel));
    for (int i = 1; i < 3; i++)
        id_told(id, i, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    no_event();
    ck_assert_int_eq(id_groups(id), 3);
    for (int i = 0; i < 3; i++)
        must(id_leave(id, i));
    end_id(id);
    soft_destroy_event_channel(channel);
    channel = first;
    no_event();
}
END_TEST

/* Without an event channel the calls are synchronous. */
START_TEST(calls_that_wait)
{
    struct rdma_cm_id *id = id_bound(NULL, JOINING_HERE);
    struct soft_wire *wire = soft_wire_of(id->verbs);
    __typeof__(wire->join) own = wire->join;

    make_id_qp(id);
    must(id_join(id, 0));
    ck_assert_ptr_nonnull(id->event);
    ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
    ck_assert_ptr_eq(id->event->param.ud.private_data, &joining_contexts[0]);
    ck_assert_int_eq(id_groups(id), 1);
    must_fail(id_join(id, 0), EADDRINUSE);
    wire->join = NULL;
    must_fail(id_join(id, 1), EOPNOTSUPP);
    wire->join = own;
    ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_MULTICAST_ERROR);
    must(id_leave(id, 1));
    must(id_leave(id, 0));
    ck_assert_int_eq(id_groups(id), 0);
    end_id(id);
}
END_TEST

/* ---- Datagrams ---- */

/* A send-only member sends with the address vector of its event; the receiver gets the datagram, and nothing after it
 * has left. */
START_TEST(what_is_said_is_heard)
{
    struct rdma_cm_id *receiver = id_with_qp(), *sender = id_with_qp();
    union soft_addr addr = ib_at(joining_groups[0], 0);
    struct rdma_cm_event *event;
    struct member hears, says;

    member_take(&hears, receiver->qp);
    member_take(&says, sender->qp);
    id_joins(receiver, 0);
    must(soft_join_multicast(sender, &addr.sa, false, NULL));
    event = next_event(RDMA_CM_EVENT_MULTICAST_JOIN);
    member_says_as(&says, &event->param.ud.ah_attr, event->param.ud.qkey, 1);
    member_hears(&hears, 1);
    must(id_leave(receiver, 0));
    member_says_as(&says, &event->param.ud.ah_attr, event->param.ud.qkey, 2);
    id_joins(receiver, 0);
    member_says_as(&says, &event->param.ud.ah_attr, event->param.ud.qkey, 3);
    member_hears(&hears, 3);
    member_hears_nothing(&says);
    must(soft_ack_cm_event(event));
    must(id_leave(sender, 0));
    must(id_leave(receiver, 0));
    end_id(receiver);
    end_id(sender);
    member_give_back(&hears);
    member_give_back(&says);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("leaving multicast groups");
    TCase *tcase = joining_case(suite, "leaving multicast groups");

    tcase_add_test(tcase, leaving_what_was_not_joined);
    tcase_add_test(tcase, left_before_it_is_told);
    tcase_add_test(tcase, an_identifier_ends);
    tcase_add_test(tcase, all_of_it_ends);
    tcase_add_test(tcase, to_another_channel);
    tcase_add_test(tcase, calls_that_wait);
    tcase_add_test(tcase, what_is_said_is_heard);
    return suite;
}

int main(void)
{
    return joining_main(suite);
}
