/* SPDX-License-Identifier: BSD-2-Clause */
/* rereg.c - ibv_rereg_mr(): new memory, rights or protection domain of a region. */
#include "bind.h"
#include "cases.h"

#include <errno.h>

#define ACCESS IBV_REREG_MR_CHANGE_ACCESS
#define PLACE IBV_REREG_MR_CHANGE_TRANSLATION
#define DOMAIN IBV_REREG_MR_CHANGE_PD
#define OPEN (IBV_ACCESS_LOCAL_WRITE | WRITES)

/* Calls ibv_rereg_mr(), and prints the class of its result and errno. */
static int rereg(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *at, size_t length, int access)
{
    static const char *classes[] = {"0", "INPUT", "DONT_FORK_NEW", "DO_FORK_OLD", "CMD", "CMD_AND_DO_FORK_NEW"};

    errno = 0;
    int rc = ibv_rereg_mr(mr, flags, pd, at, length, access);
    int error = errno;
    say("rereg", rc <= 0 && rc >= -5 ? classes[-rc] : "?");
    if (rc != 0)
        say_error("errno", error);
    return rc;
}

/* Creates a connected pair, and a region for the second half of b's memory. */
static struct ibv_mr *region(struct rig *r, struct ibv_pd *pd, int access)
{
    rig_pair(r, IBV_QPT_RC);
    return need(ibv_reg_mr(pd, r->b.memory + AT, LENGTH, access), "ibv_reg_mr");
}

static void write_at(struct rig *r, struct ibv_mr *mr, size_t at)
{
    window_ask(r, IBV_WR_RDMA_WRITE, (uintptr_t)r->b.memory + at, 64, mr->rkey);
}

static void rereg_access(struct rig *r)
{
    struct ibv_mr *mr = region(r, r->pd, IBV_ACCESS_LOCAL_WRITE);

    if (rereg(mr, ACCESS, NULL, NULL, 0, OPEN) == 0)
        write_at(r, mr, AT);
}
static void rereg_access_away(struct rig *r)
{
    struct ibv_mr *mr = region(r, r->pd, OPEN);

    if (rereg(mr, ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE) == 0)
        write_at(r, mr, AT);
}
static void rereg_place(struct rig *r)
{
    struct ibv_mr *mr = region(r, r->pd, OPEN);

    if (rereg(mr, PLACE, NULL, r->b.memory, 64, 0) != 0)
        return;
    write_at(r, mr, 0);
    write_at(r, mr, AT);
}
static void rereg_domain(struct rig *r)
{
    struct ibv_pd *pd = need(ibv_alloc_pd(r->context), "ibv_alloc_pd");
    struct ibv_mr *mr = region(r, pd, OPEN);

    if (rereg(mr, DOMAIN, r->pd, NULL, 0, 0) != 0)
        return;
    write_at(r, mr, AT);
    say_error("dealloc", ibv_dealloc_pd(pd));
}
static void rereg_everything(struct rig *r)
{
    struct ibv_pd *pd = need(ibv_alloc_pd(r->context), "ibv_alloc_pd");
    struct ibv_mr *mr = region(r, pd, IBV_ACCESS_LOCAL_WRITE);

    if (rereg(mr, ACCESS | PLACE | DOMAIN, r->pd, r->b.memory, LENGTH, OPEN) == 0)
        write_at(r, mr, 0);
}

/* ---- Refused calls, which do not change the region ---- */

static void refused(struct rig *r, int flags, struct ibv_pd *pd, void *at, size_t length, int access)
{
    struct ibv_mr *mr = region(r, r->pd, OPEN);

    rereg(mr, flags, pd, at, length, access);
    write_at(r, mr, AT);
}
static void rereg_nothing(struct rig *r)
{
    refused(r, 0, NULL, NULL, 0, 0);
}
static void rereg_flag_unknown(struct rig *r)
{
    refused(r, 1 << 7, NULL, NULL, 0, 0);
}
static void rereg_nowhere(struct rig *r)
{
    refused(r, PLACE, NULL, NULL, 64, 0);
}
static void rereg_of_no_length(struct rig *r)
{
    refused(r, PLACE, NULL, r, 0, 0);
}
static void rereg_access_unasked(struct rig *r)
{
    refused(r, DOMAIN, r->pd, NULL, 0, OPEN);
}
static void rereg_remote_write_alone(struct rig *r)
{
    refused(r, ACCESS, NULL, NULL, 0, WRITES);
}
static void rereg_unmapped(struct rig *r)
{
    refused(r, PLACE, NULL, (void *)(uintptr_t)4096, 64, 0);
}
static void rereg_no_domain(struct rig *r)
{
    refused(r, DOMAIN, NULL, NULL, 0, 0);
}
static void rereg_bound(struct rig *r)
{
    struct ibv_mw *mw = window_bound(r);

    rereg(r->b.mr, ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE);
    window_write(r, mw->rkey);
}

const struct verbs_case rereg_cases[] = {
    {"rereg-access", rereg_access},
    {"rereg-access-away", rereg_access_away},
    {"rereg-place", rereg_place},
    {"rereg-domain", rereg_domain},
    {"rereg-everything", rereg_everything},
    {"rereg-nothing", rereg_nothing},
    {"rereg-flag-unknown", rereg_flag_unknown},
    {"rereg-nowhere", rereg_nowhere},
    {"rereg-of-no-length", rereg_of_no_length},
    {"rereg-access-unasked", rereg_access_unasked},
    {"rereg-remote-write-alone", rereg_remote_write_alone},
    {"rereg-unmapped", rereg_unmapped},
    {"rereg-no-domain", rereg_no_domain},
    {"rereg-bound", rereg_bound},
    {0},
};
