/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_objects.c - objects of each kind can be created up to the number that the device attributes say; and
 * their handles. The test sets the context's counters, because millions of objects would be needed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "check/support/endpoints.h"
#include "soft/engine/engine.h"

static int pd_make_and_destroy(struct end *end)
{
    struct ibv_pd *pd = soft_alloc_pd(end->context);
    return pd == NULL ? errno : soft_dealloc_pd(pd);
}

static int mr_make_and_destroy(struct end *end)
{
    struct ibv_mr *mr = soft_reg_mr(end->pd, end->memory, 8, 0);
    return mr == NULL ? errno : soft_dereg_mr(mr);
}

static int mw_make_and_destroy(struct end *end)
{
    struct ibv_mw *mw = ibv_alloc_mw(end->pd, IBV_MW_TYPE_1);
    return mw == NULL ? errno : ibv_dealloc_mw(mw);
}

static int ah_make_and_destroy(struct end *end)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};
    struct ibv_ah *ah;
    network_gid(end->network, 1, &attr.grh.dgid);
    ah = soft_create_ah(end->pd, &attr);
    return ah == NULL ? errno : soft_destroy_ah(ah);
}

static int cq_make_and_destroy(struct end *end)
{
    struct ibv_cq *cq = soft_create_cq(end->context, 1, NULL, NULL, 0);
    return cq == NULL ? errno : soft_destroy_cq(cq);
}

static int srq_make_and_destroy(struct end *end)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 1, .max_sge = 1}};
    struct ibv_srq *srq = soft_create_srq(end->pd, &init);
    return srq == NULL ? errno : soft_destroy_srq(srq);
}

/* The number of queue pairs is limited by their numbers, which test_transport_names tests. */
static const struct {
    enum soft_kind kind;
    size_t named;                             /* offset of the device attribute with the maximum */
    int (*make_and_destroy)(struct end *end); /* returns 0 or an errno value */
} kinds[] = {
    {SOFT_PD, offsetof(struct ibv_device_attr, max_pd), pd_make_and_destroy},
    {SOFT_MR, offsetof(struct ibv_device_attr, max_mr), mr_make_and_destroy},
    {SOFT_MW, offsetof(struct ibv_device_attr, max_mw), mw_make_and_destroy},
    {SOFT_AH, offsetof(struct ibv_device_attr, max_ah), ah_make_and_destroy},
    {SOFT_CQ, offsetof(struct ibv_device_attr, max_cq), cq_make_and_destroy},
    {SOFT_SRQ, offsetof(struct ibv_device_attr, max_srq), srq_make_and_destroy},
};
#define KINDS ((int)(sizeof kinds / sizeof *kinds))

static int named(struct ibv_context *context, int which)
{
    struct ibv_device_attr attr;
    int number;
    ck_assert_int_eq(soft_query_device(context, &attr), 0);
    memcpy(&number, (char *)&attr + kinds[which].named, sizeof number);
    return number;
}

/* With one less than the maximum, one more object can be created, again and again. With the maximum none can, while
 * objects of other kinds can. Then one can again. */
START_TEST(as_many_as_named)
{
    struct setup setup = setup_default();
    setup.names = true; /* address handles need it */
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0];
    uint32_t *count = &soft_context_of(a->context)->objects.counts[kinds[_i].kind];
    uint32_t more = (uint32_t)named(a->context, _i) - 1 - *count;
    *count += more;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(kinds[_i].make_and_destroy(a), 0);
    *count += 1;
    for (int i = 0; i < KINDS; i++)
        ck_assert_int_eq(kinds[i].make_and_destroy(a), i == _i ? ENOMEM : 0);
    *count -= 1;
    ck_assert_int_eq(kinds[_i].make_and_destroy(a), 0);
    *count -= more;
    pair_free(pair);
}
END_TEST

/* ---- The table itself ---- */

/* Handles are unique, the one that was freed last is used first, and none is lost when the table grows. */
START_TEST(handles_come_back)
{
    struct soft_context *context = calloc(1, sizeof *context);
    uint32_t handles[100], again;
    for (uint32_t i = 0; i < 100; i++) {
        ck_assert(soft_object_enter(context, SOFT_AH, &handles[i], &handles[i]));
        ck_assert_uint_eq(handles[i], i);
    }
    ck_assert_uint_eq(context->objects.count, 100);
    for (uint32_t i = 0; i < 100; i++)
        ck_assert_int_eq(soft_object_check(context, SOFT_AH, &handles[i], i), 0);
    soft_object_leave(context, 7);
    soft_object_leave(context, 31);
    ck_assert_uint_eq(context->objects.count, 98);
    ck_assert(soft_object_enter(context, SOFT_CQ, context, &again));
    ck_assert_uint_eq(again, 31);
    ck_assert(soft_object_enter(context, SOFT_CQ, context, &again));
    ck_assert_uint_eq(again, 7);
    ck_assert(soft_object_enter(context, SOFT_CQ, context, &again));
    ck_assert_uint_eq(again, 100);
    ck_assert_uint_eq(context->objects.count, 101);
    free(context->objects.slots);
    free(context);
}
END_TEST

/* Destroying an object twice is refused, also if another object of its kind was created in between. */
START_TEST(destroyed_once)
{
    struct setup setup = setup_default();
    setup.names = true;
    struct pair *pair = pair_new(&setup);
    struct end *end = &pair->end[0], others = *end;
    for (int i = 0; i < 10; i++) {
        struct ibv_pd *pd = soft_alloc_pd(end->context), *next_pd;
        struct ibv_mr *mr = soft_reg_mr(end->pd, end->memory, 8, 0), *next_mr;
        struct ibv_mw *mw = ibv_alloc_mw(end->pd, IBV_MW_TYPE_2), *next_mw;
        struct ibv_cq *cq = soft_create_cq(end->context, 1, NULL, NULL, 0), *next_cq;
        struct ibv_srq_init_attr init = {.attr = {.max_wr = 1, .max_sge = 1}};
        struct ibv_srq *srq = soft_create_srq(end->pd, &init), *next_srq;
        struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};
        network_gid(end->network, 1, &attr.grh.dgid);
        struct ibv_ah *ah = soft_create_ah(end->pd, &attr), *next_ah;
        struct ibv_qp *qp = qp_new(&others, &setup), *next_qp;
#define TWICE(destroy, object, next, make)                                                                     \
    do {                                                                                                       \
        ck_assert_int_eq(destroy(object), 0);                                                                  \
        ck_assert_ptr_nonnull((next) = (make));                                                                \
        errno = 0;                                                                                             \
        ck_assert_int_eq(destroy(object), ENOENT);                                                             \
        ck_assert_int_eq(errno, ENOENT);                                                                       \
        ck_assert_int_eq(destroy(next), 0);                                                                    \
    } while (0)
        TWICE(soft_dealloc_pd, pd, next_pd, soft_alloc_pd(end->context));
        TWICE(soft_dereg_mr, mr, next_mr, soft_reg_mr(end->pd, end->memory, 8, 0));
        TWICE(ibv_dealloc_mw, mw, next_mw, ibv_alloc_mw(end->pd, IBV_MW_TYPE_2));
        TWICE(soft_destroy_cq, cq, next_cq, soft_create_cq(end->context, 1, NULL, NULL, 0));
        TWICE(soft_destroy_srq, srq, next_srq, soft_create_srq(end->pd, &init));
        TWICE(soft_destroy_ah, ah, next_ah, soft_create_ah(end->pd, &attr));
        TWICE(soft_destroy_qp, qp, next_qp, qp_new(&others, &setup));
    }
    pair_free(pair);
}
END_TEST

START_TEST(who_is_meant)
{
    struct soft_context *context = calloc(1, sizeof *context);
    uint32_t handle = 0, other = 0;
    ck_assert_int_eq(soft_object_check(context, SOFT_AH, &handle, 0), ENOENT); /* before the first object */
    ck_assert(soft_object_enter(context, SOFT_AH, &handle, &handle));
    ck_assert(soft_object_enter(context, SOFT_AH, &other, &other));
    ck_assert_int_eq(soft_object_check(context, SOFT_AH, &handle, handle), 0);
    ck_assert_int_eq(soft_object_check(context, SOFT_AH, &handle, other), ENOENT);
    ck_assert_int_eq(soft_object_check(context, SOFT_CQ, &handle, handle), EINVAL);
    ck_assert_int_eq(soft_object_check(context, SOFT_AH, &handle, context->objects.room), ENOENT);
    ck_assert_int_eq(soft_object_check(context, SOFT_AH, &handle, UINT32_MAX), ENOENT);
    ck_assert_int_eq(soft_object_check(context, SOFT_NO_OBJECT, NULL, other + 1), ENOENT); /* not in use yet */
    soft_object_leave(context, handle);
    ck_assert_int_eq(soft_object_check(context, SOFT_AH, &handle, handle), ENOENT);
    free(context->objects.slots);
    free(context);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: objects");
    TCase *tcase = new_case(suite, "objects");

    tcase_add_loop_test(tcase, as_many_as_named, 0, KINDS);
    tcase_add_test(tcase, handles_come_back);
    tcase_add_test(tcase, who_is_meant);
    tcase_add_test(tcase, destroyed_once);
    return run_suite(suite);
}
