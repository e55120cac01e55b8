/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_multicast.c - multicast groups over sockets within a host: which queue pairs receive a datagram, how often, and
 * which threads are woken. In a network namespace of its own, in which no other program has RoCE's port.
 */
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include "check/support/runner.h"
#include "check/support/twonets.h"
#include "soft/engine/context.h"
#include "soft/engine/group.h"
#include "soft/verbs/verbs.h"
#include "members.h"

#define HERE "127.0.0.1"
#define GROUP "239.1.2.3"
#define OTHER "239.129.2.3" /* maps to the same Ethernet address */

/* ---- Which queue pairs receive ---- */

/* Two members in one context and one in another each receive a datagram once, whichever of them sends it. */
START_TEST(each_has_it_once)
{
    struct member a, beside, b;
    struct member *const all[] = {&a, &beside, &b};

    member_open(&a);
    member_open_beside(&beside, &a);
    member_open(&b);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(member_attach(all[i], GROUP), 0);
    for (uint8_t value = 1; value < 20; value++) {
        member_says(all[value % 3], HERE, GROUP, value);
        for (int i = 0; i < 3; i++)
            member_hears(all[i], value);
    }
    for (int i = 0; i < 3; i++) {
        member_hears_nothing(all[i]);
        ck_assert_uint_eq(member_counters(all[i]).unready, 0);
        ck_assert_int_eq(member_detach(all[i], GROUP), 0);
    }
    member_close(&beside);
    member_close(&a);
    member_close(&b);
}
END_TEST

/* A sender receives its own datagram only if it is a member, in a member's context or in another. */
START_TEST(the_sender_is_no_member)
{
    struct member a, sender;

    member_open(&a);
    if (_i == 0)
        member_open_beside(&sender, &a);
    else
        member_open(&sender);
    ck_assert_int_eq(member_attach(&a, GROUP), 0);
    member_says(&sender, HERE, GROUP, 1);
    member_hears(&a, 1);
    member_hears_nothing(&sender);
    ck_assert_int_eq(member_attach(&sender, GROUP), 0);
    member_says(&sender, HERE, GROUP, 2);
    member_hears(&a, 2);
    member_hears(&sender, 2);
    ck_assert_int_eq(member_detach(&a, GROUP), 0);
    member_says(&sender, HERE, GROUP, 3);
    member_hears(&sender, 3);
    member_hears_nothing(&a);
    ck_assert_int_eq(member_detach(&sender, GROUP), 0);
    member_close(&sender);
    member_close(&a);
}
END_TEST

START_TEST(what_is_for_another_group)
{
    struct member a, beside, b;

    member_open(&a);
    member_open_beside(&beside, &a);
    member_open(&b);
    ck_assert_int_eq(member_attach(&a, GROUP), 0);
    ck_assert_int_eq(member_attach(&beside, OTHER), 0);
    ck_assert_int_eq(member_attach(&b, "239.1.2.4"), 0);
    member_says(&b, HERE, OTHER, 1);
    member_hears(&beside, 1);
    member_says(&a, HERE, "239.1.2.4", 2);
    member_hears(&b, 2);
    member_says(&b, HERE, GROUP, 3);
    member_hears(&a, 3);
    ck_assert_int_eq(member_attach(&a, OTHER), 0);
    member_says(&b, HERE, OTHER, 4);
    member_hears(&a, 4);
    member_hears(&beside, 4);
    ck_assert_int_eq(member_detach(&beside, OTHER), 0);
    ck_assert_int_eq(member_attach(&beside, GROUP), 0);
    member_says(&b, HERE, OTHER, 5);
    member_hears(&a, 5);
    member_says(&b, HERE, GROUP, 6);
    member_hears(&a, 6);
    member_hears(&beside, 6);
    ck_assert_uint_eq(member_counters(&a).refused + member_counters(&b).refused, 0);
    ck_assert_int_eq(member_detach(&a, GROUP), 0);
    ck_assert_int_eq(member_detach(&a, OTHER), 0);
    ck_assert_int_eq(member_detach(&beside, GROUP), 0);
    ck_assert_int_eq(member_detach(&b, "239.1.2.4"), 0);
    member_close(&beside);
    member_close(&a);
    member_close(&b);
}
END_TEST

/* Each member counts a datagram with a wrong Q_Key as refused; a send request whose remote Q_Key has the upper bit set
 * uses the sender's own Q_Key. */
START_TEST(by_another_key)
{
    struct ibv_ah_attr way;
    struct member a, beside, b;

    member_open(&a);
    member_open_beside(&beside, &a);
    member_open(&b);
    ck_assert_int_eq(member_attach(&a, GROUP), 0);
    ck_assert_int_eq(member_attach(&beside, GROUP), 0);
    ck_assert_int_eq(member_attach(&b, GROUP), 0);
    way = member_way(&b, HERE, GROUP);
    member_says_as(&b, &way, MEMBER_QKEY + 1, 1);
    member_refuses(&a, 2);
    member_refuses(&b, 1);
    member_says_as(&b, &way, 0x80000000u, 2);
    member_hears(&a, 2);
    member_hears(&beside, 2);
    member_hears(&b, 2);
    ck_assert_int_eq(member_detach(&a, GROUP), 0);
    ck_assert_int_eq(member_detach(&beside, GROUP), 0);
    ck_assert_int_eq(member_detach(&b, GROUP), 0);
    member_close(&beside);
    member_close(&a);
    member_close(&b);
}
END_TEST

/* Datagrams of a plain socket are received from any port and with any identification, with the GRH made from their IP
 * header. A damaged one, or one for a queue pair number instead of the group, reaches no queue pair; one for a group of
 * another context is not received at all. */
START_TEST(from_an_outsider)
{
    struct outsider outsider = outsider_at(HERE, GROUP), stray = outsider_at(HERE, OTHER);
    const uint8_t *grh;
    struct member a, b;

    member_open(&a);
    member_open(&b);
    ck_assert_int_eq(member_attach(&a, GROUP), 0);
    ck_assert_int_eq(member_attach(&b, OTHER), 0);
    outsider_says(&outsider, SOFT_GROUP_QPN, 1, 0, false);
    grh = member_hears(&a, 1);
    ck_assert_mem_eq(grh + 32, &outsider.path.local.in.sin_addr, 4);
    ck_assert_mem_eq(grh + 36, &outsider.path.remote.in.sin_addr, 4);
    outsider_says(&outsider, SOFT_GROUP_QPN, 2, 300, false);
    member_hears(&a, 2);
    outsider_says(&outsider, SOFT_GROUP_QPN, 3, 0, true);
    member_finds_damaged(&a, 1);
    outsider_says(&outsider, a.qp->qp_num ^ 1, 4, 0, false);
    member_finds_damaged(&a, 2);
    outsider_says(&outsider, a.qp->qp_num, 5, 0, false);
    member_refuses(&a, 1);
    outsider_says(&stray, SOFT_GROUP_QPN, 6, 0, false);
    member_hears(&b, 6);
    outsider_says(&outsider, SOFT_GROUP_QPN, 7, 0, false);
    member_hears(&a, 7);
    /* The damaged one is dropped before it is counted. */
    ck_assert_uint_eq(member_counters(&a).packets_received, 5);
    ck_assert_uint_eq(member_counters(&b).packets_received, 1);
    ck_assert_int_eq(member_detach(&a, GROUP), 0);
    ck_assert_int_eq(member_detach(&b, OTHER), 0);
    close(outsider.fd);
    close(stray.fd);
    member_close(&a);
    member_close(&b);
}
END_TEST

/* ---- Which threads are woken ---- */

/* Only the service thread polls the device. */
START_TEST(the_service_is_woken)
{
    struct member a, b;

    member_open(&a);
    member_open(&b);
    ck_assert_int_eq(member_attach(&a, GROUP), 0);
    member_says(&b, HERE, GROUP, 1);
    while (member_counters(&a).packets_received == 0)
        (void)poll(NULL, 0, 1);
    member_hears(&a, 1);
    ck_assert_int_eq(member_detach(&a, GROUP), 0);
    member_close(&a);
    member_close(&b);
}
END_TEST

/* A completion channel, created before or after the group is joined, becomes readable. The context is locked, so the
 * service thread can't process the packet first. */
START_TEST(the_application_is_woken)
{
    struct ibv_comp_channel *channel = NULL;
    struct pollfd one = {.events = POLLIN};
    struct member a, b;

    member_open(&a);
    member_open(&b);
    if (_i == 0)
        channel = soft_create_comp_channel(a.qp->context);
    ck_assert_int_eq(member_attach(&a, GROUP), 0);
    if (_i == 1)
        channel = soft_create_comp_channel(a.qp->context);
    ck_assert_ptr_nonnull(channel);
    one.fd = ((struct soft_channel *)channel)->waits.epoll;
    ck_assert_int_eq(poll(&one, 1, 0), 0);
    soft_lock(a.qp->context);
    member_says(&b, HERE, GROUP, 1);
    ck_assert_int_eq(poll(&one, 1, 20000), 1);
    soft_unlock(a.qp->context);
    member_hears(&a, 1);
    ck_assert_int_eq(member_detach(&a, GROUP), 0);
    ck_assert_int_eq(soft_destroy_comp_channel(channel), 0);
    member_close(&a);
    member_close(&b);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("multicast");
    TCase *tcase = new_case(suite, "multicast");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, each_has_it_once);
    tcase_add_loop_test(tcase, the_sender_is_no_member, 0, 2);
    tcase_add_test(tcase, what_is_for_another_group);
    tcase_add_test(tcase, by_another_key);
    tcase_add_test(tcase, from_an_outsider);
    tcase_add_test(tcase, the_service_is_woken);
    tcase_add_loop_test(tcase, the_application_is_woken, 0, 2);
    return suite;
}

int main(void)
{
    return twonets_main(twonets_alone, suite);
}
