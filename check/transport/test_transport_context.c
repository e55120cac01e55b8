/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_context.c - a context that the library makes itself works with the functions that rdma-core's headers
 * inline.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include "check/support/endpoints.h"

/* These calls reach the device through the context alone; falling back to libibverbs would crash. */
START_TEST(inline_queries)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct ibv_context *context = pair->end[0].context;
    struct ibv_port_attr port, direct_port;
    struct ibv_device_attr_ex extended;
    struct ibv_device_attr direct;
    memset(&port, 0x5a, sizeof port);
    ck_assert_int_eq(ibv_query_port(context, 1, &port), 0);
    ck_assert_int_eq(soft_query_port(context, 1, &direct_port), 0);
    ck_assert_int_eq(port.state, IBV_PORT_ACTIVE);
    ck_assert_int_eq(port.max_mtu, direct_port.max_mtu);
    ck_assert_uint_eq(port.max_msg_sz, direct_port.max_msg_sz);
    ck_assert_int_eq(ibv_query_device_ex(context, NULL, &extended), 0);
    ck_assert_int_eq(soft_query_device(context, &direct), 0);
    ck_assert_int_eq(extended.orig_attr.max_qp, direct.max_qp);
    ck_assert_uint_eq(extended.orig_attr.node_guid, direct.node_guid);
    ck_assert_uint_ne(direct.node_guid, 0);
    pair_free(pair);
}
END_TEST

static bool is_zero(const unsigned char *bytes, size_t length)
{
    while (length > 0 && *bytes == 0)
        bytes++, length--;
    return length == 0;
}

/* A program that was built with newer headers passes a longer struct, and finds zeros in the fields that the library
 * does not know. */
START_TEST(newer_callers_find_zeros)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct ibv_context *context = pair->end[0].context;
    struct {
        union {
            struct ibv_port_attr port;
            struct ibv_device_attr_ex device;
        };
        unsigned char more[64];
    } answer;
    const size_t known = offsetof(__typeof__(answer), more);

    memset(&answer, 0x5a, sizeof answer);
    ck_assert_int_eq(verbs_get_ctx(context)->query_port(context, 1, &answer.port, sizeof answer), 0);
    ck_assert_int_eq(answer.port.state, IBV_PORT_ACTIVE);
    ck_assert(is_zero((unsigned char *)&answer + sizeof answer.port, sizeof answer - sizeof answer.port));
    memset(&answer, 0x5a, sizeof answer);
    ck_assert_int_eq(verbs_get_ctx(context)->query_device_ex(context, NULL, &answer.device, sizeof answer), 0);
    ck_assert_uint_eq(answer.device.device_cap_flags_ex, answer.device.orig_attr.device_cap_flags);
    ck_assert(is_zero(answer.more, sizeof answer - known));
    pair_free(pair);
}
END_TEST

/* Verbs that the device does not support say so. */
START_TEST(extensions_are_refused)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0];
    struct ibv_td_init_attr td = {0};
    errno = 0;
    ck_assert_ptr_null(ibv_alloc_td(a->context, &td));
    ck_assert_int_eq(errno, EOPNOTSUPP);
    ck_assert_ptr_null(ibv_qp_to_qp_ex(a->qp)); /* no ibv_wr_ interface */
    pair_free(pair);
}
END_TEST

START_TEST(device_has_a_name)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct ibv_device *device = pair->end[0].context->device;
    ck_assert_uint_gt(strlen(device->name), 0);
    ck_assert_int_eq(device->node_type, IBV_NODE_CA);
    ck_assert_int_eq(device->transport_type, IBV_TRANSPORT_IB);
    pair_free(pair);
}
END_TEST

/* A program that was not linked for the device calls libibverbs with its context: that prints a message and aborts,
 * instead of jumping to a wild address. */
START_TEST(foreign_entry_point_aborts)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    ibv_alloc_pd(pair->end[0].context);
}
END_TEST

/* Two contexts are two devices: they have different GUIDs and numbers, also without a seed. */
START_TEST(contexts_differ)
{
    struct setup setup = setup_default();
    setup.seed = (uint64_t)_i;
    struct pair *pair = pair_new(&setup), *other = pair_new(&setup);
    struct ibv_device_attr attr[3];
    ck_assert_int_eq(soft_query_device(pair->end[0].context, &attr[0]), 0);
    ck_assert_int_eq(soft_query_device(pair->end[1].context, &attr[1]), 0);
    ck_assert_int_eq(soft_query_device(other->end[0].context, &attr[2]), 0);
    ck_assert_uint_ne(attr[0].node_guid, attr[1].node_guid);
    ck_assert_uint_ne(pair->end[0].qpn, pair->end[1].qpn);
    if (_i == 0)
        ck_assert_uint_ne(attr[0].node_guid, attr[2].node_guid);
    else
        ck_assert_uint_eq(attr[0].node_guid, attr[2].node_guid);
    pair_free(other);
    pair_free(pair);
}
END_TEST

START_TEST(statuses_have_names)
{
    for (int status = IBV_WC_SUCCESS; status <= IBV_WC_GENERAL_ERR; status++) {
        const char *name = soft_wc_status_str((enum ibv_wc_status)status);
        ck_assert(name && *name);
        for (int other = IBV_WC_SUCCESS; other < status; other++)
            ck_assert_str_ne(name, soft_wc_status_str((enum ibv_wc_status)other));
    }
    ck_assert_ptr_nonnull(soft_wc_status_str((enum ibv_wc_status)9999));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: context");
    TCase *tcase = new_case(suite, "context");
    tcase_add_test(tcase, inline_queries);
    tcase_add_test(tcase, newer_callers_find_zeros);
    tcase_add_test(tcase, extensions_are_refused);
    tcase_add_test(tcase, device_has_a_name);
    tcase_add_test_raise_signal(tcase, foreign_entry_point_aborts, SIGABRT);
    tcase_add_loop_test(tcase, contexts_differ, 0, 2);
    tcase_add_test(tcase, statuses_have_names);
    return run_suite(suite);
}
