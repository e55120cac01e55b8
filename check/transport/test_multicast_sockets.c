/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_multicast_sockets.c - the sockets of multicast groups: one is opened for a group's first member in a context and
 * closed with its last, there are as many as the device attributes say, and a failure leaves nothing behind.
 *
 * In a network namespace of its own, in which no other program has RoCE's port.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include "check/support/ibwords.h"
#include "check/support/runner.h"
#include "check/support/self.h"
#include "check/support/twonets.h"
#include "soft/engine/context.h"
#include "soft/engine/group.h"
#include "soft/service/service_thread.h"
#include "soft/verbs/verbs.h"
#include "members.h"
#include "settled.h"

#define HERE "127.0.0.1"
#define GROUP "239.1.2.3"
#define OTHER "239.129.2.3" /* maps to the same Ethernet address */

/* ---- Opening and closing ---- */

START_TEST(one_for_all_members)
{
    struct member a, beside;
    int fds;

    member_open(&a);
    member_open_beside(&beside, &a);
    fds = count_fds();
    ck_assert_int_eq(member_detach(&a, GROUP), EINVAL);
    ck_assert_int_eq(member_attach(&a, GROUP), 0);
    ck_assert_int_eq(member_attach(&a, GROUP), 0);
    ck_assert_int_eq(member_detach(&beside, GROUP), EINVAL);
    ck_assert_int_eq(member_detach(&a, OTHER), EINVAL);
    ck_assert_int_eq(member_attach(&beside, GROUP), 0);
    member_has_sockets(&a, 1);
    ck_assert_int_eq(count_fds(), fds + 1);
    ck_assert_int_eq(soft_destroy_qp(a.qp), EBUSY);
    ck_assert_int_eq(member_detach(&a, GROUP), 0);
    ck_assert_int_eq(member_detach(&a, GROUP), EINVAL);
    member_has_sockets(&a, 1);
    ck_assert_int_eq(member_detach(&beside, GROUP), 0);
    member_has_sockets(&a, 0);
    ck_assert_int_eq(count_fds(), fds);
    member_close(&beside);
    member_close(&a);
}
END_TEST

/* Leaving a group closes its socket, wherever it is in the table; the last entry moves to its slot, and still
 * receives. */
START_TEST(one_of_several_goes)
{
    static const char *const groups[][4] = {{GROUP, "239.1.2.4", OTHER, "224.1.2.3"},
                                            {"ff05::1234", "ff02::1234", "ff0e::1234", "ff05::1235"},
                                            {GROUP, "ff05::1234", OTHER, "ff02::1235"}};
    const char *const *all = groups[_i / 4], *gone = all[_i % 4];
    struct member a;
    int fds;

    member_open(&a);
    fds = count_fds();
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(member_attach(&a, all[i]), 0);
    member_has_sockets(&a, 4);
    ck_assert_int_eq(member_detach(&a, gone), 0);
    member_has_sockets(&a, 3);
    ck_assert_int_eq(count_fds(), fds + 3);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(member_is_at(&a, all[i]), all[i] != gone);
    for (int i = 0; i < 4; i++) { /* over IPv6 loopback does not carry multicast */
        if (all[i] == gone || strchr(all[i], ':') != NULL)
            continue;
        member_says(&a, HERE, all[i], (uint8_t)(i + 1));
        member_hears(&a, (uint8_t)(i + 1));
    }
    ck_assert_int_eq(member_attach(&a, gone), 0);
    for (int i = 0; i < 4; i++) {
        ck_assert(member_is_at(&a, all[i]));
        ck_assert_int_eq(member_detach(&a, all[i]), 0);
    }
    member_has_sockets(&a, 0);
    member_close(&a);
}
END_TEST

/* The socket of a link-local or interface-local group is bound to the interface of the first GID. */
START_TEST(at_the_right_place)
{
    static const struct {
        const char *group;
        bool of_interface;
    } rows[] = {{GROUP, false}, {"ff05::1234", false}, {"ff02::1234", true}, {"ff01::1234", true}};
    struct member a;
    const union soft_addr *at;

    member_open(&a);
    ck_assert_int_eq(member_attach(&a, rows[_i].group), 0);
    at = &a.home->udp.groups[0].local;
    ck_assert(member_is_at(&a, rows[_i].group));
    ck_assert_uint_eq(ntohs(at->in.sin_port), SOFT_UDP_PORT); /* at the same offset in sockaddr_in6 */
    if (at->sa.sa_family == AF_INET6)
        ck_assert_uint_eq(at->in6.sin6_scope_id, rows[_i].of_interface ? if_nametoindex("lo") : 0);
    ck_assert(a.home->udp.groups[0].foreign);
    ck_assert_int_eq(member_detach(&a, rows[_i].group), 0);
    member_close(&a);
}
END_TEST

/* ---- The maximum number ---- */

static const char *numbered(int number)
{
    static char text[32];

    snprintf(text, sizeof text, "239.1.1.%d", number);
    return text;
}

START_TEST(most_groups)
{
    union soft_addr one_more = ib_at(GROUP, 0);
    struct ibv_device_attr device;
    struct member a;
    int fds;

    member_open(&a);
    fds = count_fds();
    ck_assert_int_eq(soft_query_device(a.qp->context, &device), 0);
    ck_assert_int_eq(device.max_total_mcast_qp_attach, device.max_mcast_grp * device.max_mcast_qp_attach);
    for (int i = 0; i < device.max_mcast_grp; i++)
        ck_assert_int_eq(member_attach(&a, numbered(i)), 0);
    member_has_sockets(&a, device.max_mcast_grp);
    ck_assert_int_eq(count_fds(), fds + device.max_mcast_grp);
    ck_assert_int_eq(member_attach(&a, GROUP), ENOMEM);
    soft_lock(a.qp->context); /* the link itself has this limit, too */
    ck_assert_int_eq(udp_group_join(&a.home->udp, &one_more), ENOMEM);
    soft_unlock(a.qp->context);
    ck_assert_int_eq(member_detach(&a, numbered(5)), 0);
    ck_assert_int_eq(member_attach(&a, GROUP), 0);
    member_says(&a, HERE, GROUP, 1);
    member_hears(&a, 1);
    member_says(&a, HERE, numbered(device.max_mcast_grp - 1), 2);
    member_hears(&a, 2);
    ck_assert_int_eq(member_detach(&a, GROUP), 0);
    for (int i = 0; i < device.max_mcast_grp; i++)
        ck_assert_int_eq(member_detach(&a, numbered(i)), i == 5 ? EINVAL : 0);
    member_has_sockets(&a, 0);
    member_close(&a);
}
END_TEST

START_TEST(most_members)
{
    static struct ibv_qp *qps[SOFT_MAX_GROUP_QPS];
    union soft_addr addr = ib_at(GROUP, 0);
    struct ibv_device_attr device;
    struct member a, other;
    union ibv_gid gid;

    soft_gid_of(&gid, &addr.sa);
    member_open(&a);
    member_open(&other);
    ck_assert_int_eq(soft_query_device(a.qp->context, &device), 0);
    ck_assert_int_eq(device.max_mcast_qp_attach, SOFT_MAX_GROUP_QPS);
    for (int i = 0; i < SOFT_MAX_GROUP_QPS; i++) {
        struct ibv_qp_init_attr attr = {
            .qp_type = IBV_QPT_UD, .send_cq = a.qp->send_cq, .recv_cq = a.qp->recv_cq, .cap = {1, 1, 1, 1, 0}};

        qps[i] = soft_create_qp(a.pd, &attr);
        ck_assert_ptr_nonnull(qps[i]);
        ck_assert_int_eq(soft_attach_mcast(qps[i], &gid, 0), 0);
    }
    ck_assert_int_eq(member_attach(&a, GROUP), ENOMEM);
    ck_assert_int_eq(member_attach(&a, OTHER), 0);
    /* The groups of another context are counted separately. */
    ck_assert_int_eq(member_attach(&other, GROUP), 0);
    member_has_sockets(&a, 2);
    ck_assert_int_eq(member_detach(&a, OTHER), 0);
    ck_assert_int_eq(member_detach(&other, GROUP), 0);
    for (int i = 0; i < SOFT_MAX_GROUP_QPS; i++) {
        ck_assert_int_eq(soft_detach_mcast(qps[i], &gid, 0), 0);
        ck_assert_int_eq(soft_destroy_qp(qps[i]), 0);
    }
    member_has_sockets(&a, 0);
    member_close(&a);
    member_close(&other);
}
END_TEST

/* ---- Failures leave nothing behind ---- */

/* Nothing of the group is left after the failure, and it can now be joined. */
static void expect_nothing(struct member *self, int fds)
{
    member_has_sockets(self, 0);
    ck_assert_int_eq(count_fds(), fds);
    ck_assert_int_eq(member_detach(self, GROUP), EINVAL);
    ck_assert_int_eq(member_attach(self, GROUP), 0);
    member_has_sockets(self, 1);
    member_says(self, HERE, GROUP, 1);
    member_hears(self, 1);
    ck_assert_int_eq(member_detach(self, GROUP), 0);
    member_has_sockets(self, 0);
}

START_TEST(no_descriptor_is_left)
{
    struct rlimit limit;
    struct member a;
    int fds;

    member_open(&a);
    fds = count_fds();
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, limit.rlim_max}), 0);
    ck_assert_int_eq(member_attach(&a, GROUP), EMFILE);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    expect_nothing(&a, fds);
    member_close(&a);
}
END_TEST

START_TEST(another_has_the_port)
{
    union soft_addr any = ib_at("0.0.0.0", SOFT_UDP_PORT);
    int fds, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct member a;

    ck_assert_int_eq(bind(fd, &any.sa, sizeof any.in), 0);
    member_open(&a);
    fds = count_fds();
    ck_assert_int_eq(member_attach(&a, GROUP), EADDRINUSE);
    ck_assert_int_eq(count_fds(), fds);
    close(fd);
    expect_nothing(&a, fds - 1);
    member_close(&a);
}
END_TEST

/* A completion channel can't watch the socket. */
START_TEST(the_application_would_not_be_woken)
{
    struct soft_channel *channel;
    struct member a;
    int fds, epoll;

    member_open(&a);
    channel = (struct soft_channel *)soft_create_comp_channel(a.qp->context);
    ck_assert_ptr_nonnull(channel);
    fds = count_fds();
    epoll = channel->waits.epoll;
    channel->waits.epoll = open("/dev/null", O_RDONLY | O_CLOEXEC); /* not an epoll instance */
    ck_assert_int_eq(member_attach(&a, GROUP), EINVAL);
    close(channel->waits.epoll);
    channel->waits.epoll = epoll;
    expect_nothing(&a, fds);
    ck_assert_int_eq(soft_destroy_comp_channel(&channel->ibv), 0);
    member_close(&a);
}
END_TEST

static int listed; /* members of the set before the join */

/* Runs when the waiting threads are notified of the new member, before the service thread is: adds the descriptor to
 * the service thread's epoll instance, so that the second addition fails. */
static void be_first(void *sleepers)
{
    const struct waitset *waits = sleepers;
    struct epoll_event never = {.events = 0};

    if (waits->count > listed)
        (void)epoll_ctl(service_shared.epoll, EPOLL_CTL_ADD, waits->members[waits->count - 1].fd, &never);
}

START_TEST(the_service_would_not_be_woken)
{
    struct ibv_comp_channel *channel;
    struct waitset *waits;
    struct member a;
    int fds;

    member_open(&a);
    channel = soft_create_quiet_comp_channel(a.qp->context, &waits);
    ck_assert_ptr_nonnull(channel);
    fds = count_fds();
    listed = waits->count;
    ck_assert(waits->epoll == -1 && listed > 0 && listed < WAITSET_LISTED);
    waitset_sleepers(waits, be_first, waits);
    ck_assert_int_eq(member_attach(&a, GROUP), EEXIST);
    waitset_sleepers(waits, NULL, NULL);
    ck_assert_int_eq(waits->count, listed);
    expect_nothing(&a, fds);
    ck_assert_int_eq(soft_destroy_comp_channel(channel), 0);
    member_close(&a);
}
END_TEST

/* ---- Overflow ---- */

/* Lost datagrams are reported, whether the group is still joined or was left. */
START_TEST(losses_are_told)
{
    struct outsider outsider = outsider_at(HERE, GROUP);
    struct ibv_wc wc;
    struct member a;
    char text[1000];
    int small = 4096;

    member_open(&a);
    ck_assert_int_eq(member_attach(&a, GROUP), 0);
    ck_assert_int_eq(setsockopt(a.home->udp.groups[0].fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    soft_lock(a.qp->context); /* keeps the service thread from reading the socket */
    for (int i = 0; i < 200; i++)
        outsider_says(&outsider, SOFT_GROUP_QPN, 1, 0, false);
    soft_unlock(a.qp->context);
    while (ibv_poll_cq(a.qp->recv_cq, 1, &wc) == 1)
        ;
    if (_i == 1)
        ck_assert_int_eq(member_detach(&a, GROUP), 0);
    setenv("EXS_DEBUG", "1", 1);
    settled_text(a.home, text, sizeof text);
    ck_assert_msg(strstr(text, " bursts of packets found no room in a socket's buffer of ") != NULL, "%s",
                  text);
    if (_i == 0)
        ck_assert_int_eq(member_detach(&a, GROUP), 0);
    close(outsider.fd);
    member_close(&a);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("sockets of multicast groups");
    TCase *tcase = new_case(suite, "sockets of multicast groups");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, one_for_all_members);
    tcase_add_loop_test(tcase, one_of_several_goes, 0, 12);
    tcase_add_loop_test(tcase, at_the_right_place, 0, 4);
    tcase_add_test(tcase, most_groups);
    tcase_add_test(tcase, most_members);
    tcase_add_test(tcase, no_descriptor_is_left);
    tcase_add_test(tcase, another_has_the_port);
    tcase_add_test(tcase, the_application_would_not_be_woken);
    tcase_add_test(tcase, the_service_would_not_be_woken);
    tcase_add_loop_test(tcase, losses_are_told, 0, 2);
    return suite;
}

int main(void)
{
    return twonets_main(twonets_alone, suite);
}
