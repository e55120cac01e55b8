/* SPDX-License-Identifier: BSD-2-Clause */
/* open.c - opening and closing the device by programs that use no connection manager. */
#include "soft/service/home.h"
#include "verbs.h"

struct ibv_context *soft_open_device(void)
{
    struct soft_home *home = home_open_named();

    return home == NULL ? NULL : home->context;
}

/* Succeeds also if objects are left, as in rdma-core; the context is freed with the last of them. */
int soft_close_device(struct ibv_context *context)
{
    home_close(home_of(context));
    return 0;
}

bool soft_is_ours(const struct ibv_context *context)
{
    return context->device == soft_the_device();
}
