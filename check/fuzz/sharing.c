/* SPDX-License-Identifier: BSD-2-Clause */
/* sharing.c - the wire, the clock and the service of a device whose links are shared memory. See sharing.h. */
#include "check/fuzz/sharing.h"
#include "check/support/endpoints.h"

static uint64_t clock_now(struct soft_clock *clock)
{
    (void)clock;
    return 1000000000;
}

static int receive(struct soft_wire *wire, struct ibv_context *context)
{
    (void)context;
    return shm_receive(&((struct sharing *)wire)->shm, true, true);
}

static void sent(struct soft_wire *wire, struct ibv_context *context)
{
    (void)context;
    shm_sent(&((struct sharing *)wire)->shm);
}

void sharing_open(struct sharing *sharing, int (*open)(struct soft_wire *wire, struct ibv_context *context))
{
    sharing->clock.now = clock_now;
    sharing->wire = (struct soft_wire){.open = open, .receive = receive, .sent = sent};
    sharing->service.context = soft_open(&sharing->wire, &sharing->clock, 1);
    expect(sharing->service.context, "no context");
    shm_init(&sharing->shm, sharing->service.context, &sharing->service);
    /* So that the link need not wake the service thread. */
    atomic_store(&sharing->service.state, SERVICE_WATCH);
}
