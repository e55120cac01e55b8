/* SPDX-License-Identifier: BSD-2-Clause */
/* poll.c - waits for a completion by polling the completion queue. */
#include "poll.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

int check_status(const struct ibv_wc *wc)
{
    if (wc->status == IBV_WC_SUCCESS)
        return 0;
    fprintf(stderr, "got bad completion with status: 0x%x (%s), vendor syndrome: 0x%x\n", wc->status,
            ibv_wc_status_str(wc->status), wc->vendor_err);
    return -1;
}

static long now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int poll_cq(struct resources *r, struct ibv_wc *wc)
{
    long end = now() + COMPLETION_LIMIT;
    int count;

    do
        count = ibv_poll_cq(r->cq, 1, wc);
    while (count == 0 && now() < end);
    if (count < 0)
        return failed("ibv_poll_cq", EIO);
    if (count == 0)
        return failed("completion wasn't found in the CQ after timeout", ETIMEDOUT);
    return check_status(wc);
}

int poll_completion(struct resources *r)
{
    struct ibv_wc wc;

    if (poll_cq(r, &wc) == -1)
        return -1;
    printf("completion was found in CQ with status 0x%x\n", wc.status);
    return 0;
}
