/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ib_budget.c - limits on what management datagrams of untrusted peers cost: how many of one sender are processed,
 * and the shared table that tells a process which inboxes of other processes are open.
 */
#include <arpa/inet.h>
#include <string.h>
#include <unistd.h>
#include "check/support/runner.h"
#include "soft/cm/ib_budget.h"
#include "soft/link/roce_table.h"

#define SECOND UINT64_C(1000000000)
#define COST (SECOND / IB_BUDGET_RATE)

static struct ib_budget budget;

static void begin(void)
{
    budget = (struct ib_budget){.key = {1, 2}};
}

static union soft_addr sender(const char *host, unsigned port)
{
    union soft_addr addr = {.in6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)}};

    if (inet_pton(AF_INET6, host, &addr.in6.sin6_addr) == 1)
        return addr;
    memset(&addr, 0, sizeof addr);
    addr.in.sin_family = AF_INET;
    addr.in.sin_port = htons((uint16_t)port);
    ck_assert_int_eq(inet_pton(AF_INET, host, &addr.in.sin_addr), 1);
    return addr;
}

/* Offers `count` datagrams at the same time. Returns how many are accepted. */
static unsigned take(const union soft_addr *from, unsigned count, uint64_t now)
{
    unsigned taken = 0;

    for (unsigned i = 0; i < count; i++)
        taken += ib_budget_take(&budget, from, now);
    return taken;
}

START_TEST(a_flood_is_cut_off)
{
    union soft_addr flood = sender("10.0.0.1", 1000), honest = sender("10.0.0.2", 1000);

    ck_assert_uint_eq(take(&flood, 100000, 5 * SECOND), IB_BUDGET_BURST);
    ck_assert_uint_eq(take(&flood, 100000, 6 * SECOND), IB_BUDGET_RATE);
    ck_assert_uint_eq(take(&honest, 1000, 6 * SECOND), 1000);
    ck_assert_uint_eq(take(&flood, 100000, 60 * SECOND), IB_BUDGET_BURST);
}
END_TEST

/* A sender at the permitted rate is accepted for ever. */
START_TEST(a_steady_sender_is_heard)
{
    union soft_addr from = sender("fd00::1", 1000);

    for (uint64_t i = 0; i < 10 * IB_BUDGET_RATE; i++)
        ck_assert(ib_budget_take(&budget, &from, SECOND + i * COST));
}
END_TEST

/* Another program on a flooding host is accepted; a host that floods from all its ports, or from all addresses of its
 * network, is limited as one. */
START_TEST(ports_of_a_host)
{
    union soft_addr flood = sender("10.0.0.1", 1000), beside = sender("10.0.0.1", 1001);
    unsigned taken = 0;

    take(&flood, 100000, SECOND);
    ck_assert_uint_eq(take(&beside, 1000, SECOND), 1000);
    begin();
    for (unsigned port = 1; port < 60000; port++) {
        flood = sender("10.0.0.1", port);
        taken += take(&flood, 10, SECOND);
    }
    ck_assert_uint_eq(taken, IB_BUDGET_BURST * IB_BUDGET_HOST);
    begin();
    taken = 0;
    for (unsigned i = 0; i < 60000; i++) {
        flood = sender("fd00::1", 1000);
        flood.in6.sin6_addr.s6_addr[14] = (uint8_t)(i >> 8);
        flood.in6.sin6_addr.s6_addr[15] = (uint8_t)i;
        taken += take(&flood, 1, SECOND);
    }
    ck_assert_uint_le(taken, IB_BUDGET_BURST * IB_BUDGET_HOST);
}
END_TEST

/* ---- The table, mapped twice as by two processes ---- */

static struct roce_table *here, *there;

static void map_both(void)
{
    int memory = roce_table_make();

    ck_assert_int_ne(memory, -1);
    here = roce_table_map(memory);
    there = roce_table_map(memory);
    ck_assert(here != NULL && there != NULL && here != there);
    close(memory);
}

static void unmap_both(void)
{
    roce_table_unmap(here);
    roce_table_unmap(there);
}

START_TEST(doors_are_known)
{
    uint32_t place = roce_table_place("exs/roce/0/at/7471/any"),
             other = roce_table_place("exs/roce/0/at/7472/any");

    ck_assert_uint_ne(place, other);
    ck_assert(!roce_table_is_open(here, place));
    roce_table_open(there, place);
    ck_assert(roce_table_is_open(here, place) && !roce_table_is_open(here, other));
    roce_table_open(here, place);
    roce_table_close(there, place);
    ck_assert(roce_table_is_open(there, place));
    roce_table_close(here, place);
    ck_assert(!roce_table_is_open(there, place));
    roce_table_close(here, place); /* a process closes once too often */
    ck_assert(!roce_table_is_open(there, place));
}
END_TEST

START_TEST(requests_are_known)
{
    ck_assert_int_eq(roce_table_recall(here, 77, 1), -1);
    roce_table_remember(there, 77, 1, 0);
    roce_table_remember(there, 77, 2, 15);
    ck_assert_int_eq(roce_table_recall(here, 77, 1), 0);
    ck_assert_int_eq(roce_table_recall(here, 77, 2), 15);
    ck_assert_int_eq(roce_table_recall(here, 77, 3), -1);
}
END_TEST

START_TEST(no_table)
{
    int pipes[2];

    ck_assert_int_eq(pipe(pipes), 0);
    ck_assert_ptr_null(roce_table_map(pipes[0]));
    close(pipes[0]);
    close(pipes[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ib budget");
    TCase *tcase = new_case(suite, "budget"), *table = new_case(suite, "table");

    tcase_add_checked_fixture(tcase, begin, NULL);
    tcase_add_test(tcase, a_flood_is_cut_off);
    tcase_add_test(tcase, a_steady_sender_is_heard);
    tcase_add_test(tcase, ports_of_a_host);
    tcase_add_checked_fixture(table, map_both, unmap_both);
    tcase_add_test(table, doors_are_known);
    tcase_add_test(table, requests_are_known);
    tcase_add_test(table, no_table);
    return run_suite(suite);
}
