/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seam on rdma-core: hardware, and the kernel's own rxe and siw.
 *
 * The table's calls are librdmacm's and libibverbs' own. Only what <infiniband/verbs.h> makes a macro, what has
 * to happen before the first of them, and what a fork asks for, needs lines here.
 *
 * A peer learns that we died by the kernel taking back our queue pairs, which it does when the last descriptor
 * of the device's context is closed. So a forked child closes its copies. Rdma-core keeps contexts for as long
 * as the process lives and can't be started afresh (and hardware gives a child no doorbell), so in a child
 * whose parent used a device there is none of this kind: the embedded one serves it, or a program of its own
 * (exec).
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "core/base/fds.h"
#include "core/device/device.h"
#include "address.h"
#include "harvest.h"

/* What is lost is sent again from the last acknowledged packet on, and what is acknowledged for certain is the
 * end of a request: rxe does it every 64 packets besides, and hears of one loss only between two
 * acknowledgements. On a network that loses 1 % a request of megabytes hardly ever gets through. */
#define LONG_REQUEST (32u << 10)

/* These pair with nothing: the second is set in a child's only thread. */
static _Atomic bool used;  /* a context is open */
static _Atomic bool stale; /* and was the parent's; pairs with nothing */

/* Contexts are rdma-core's, open until the process ends, or their device and the last id on it are gone:
 * remembered, never closed. */
static void own_context(const struct ibv_context *context)
{
    if (context == NULL)
        return;
    fds_note(context->cmd_fd);
    atomic_store(&used, true);
}

static void mark_stale(void)
{
    atomic_store(&stale, atomic_load(&used));
}

/* Registered memory must survive a fork of the parent. Kernels from 5.12 on see to it themselves, and say so.
 */
static void fork_init(void)
{
    pthread_atfork(NULL, NULL, mark_stale);
    if (ibv_is_fork_initialized() == IBV_FORK_DISABLED)
        ibv_fork_init();
}

static struct rdma_event_channel *create_event_channel(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (atomic_load(&stale)) {
        errno = ENODEV;
        return NULL;
    }
    pthread_once(&once, fork_init);
    struct rdma_event_channel *channel = rdma_create_event_channel();

    if (channel != NULL)
        fds_note(channel->fd);
    return channel;
}

static void destroy_event_channel(struct rdma_event_channel *channel)
{
    fds_disown(channel->fd);
    rdma_destroy_event_channel(channel);
}

static int fail_with(int error)
{
    errno = error;
    return -1;
}

/* Loopback belongs to a device where binding to it leads to one, as under exs-soft-run. The kernel's connection
 * manager takes it for "any" (address.h), which leads to none. Asked once. */
static bool loopback_has_a_device(void)
{
    static atomic_int
        known; /* 1: no, 2: yes; threads that ask at the same time get the same answer: it pairs with
                              * nothing */
    struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;

    if (atomic_load(&known) != 0)
        return atomic_load(&known) == 2;
    bool found = false;

    channel = create_event_channel();
    if (channel != NULL && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0) {
        bool bound = rdma_bind_addr(id, (struct sockaddr *)&loopback) == 0;

        found = bound && id->verbs != NULL;
        if (bound) /* what only a shortage says is not kept */
            atomic_store(&known, found ? 2 : 1);
        rdma_destroy_id(id);
    }
    if (channel != NULL)
        destroy_event_channel(channel);
    return found;
}

/* Loopback that is none of rdma-core's. */
static bool is_elsewhere(const struct sockaddr *plain)
{
    return rdma_is_loopback(plain) && !loopback_has_a_device();
}

static int bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    union rdma_address room;
    struct sockaddr *plain = rdma_plain_address(addr, &room);

    if (is_elsewhere(plain))
        return fail_with(EADDRNOTAVAIL);
    int result = rdma_bind_addr(id, plain);

    if (result == 0)
        own_context(id->verbs);
    return result;
}

static int resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
    union rdma_address from_room, to_room;
    struct sockaddr *from = rdma_plain_address(src, &from_room), *to = rdma_plain_address(dst, &to_room);

    if (from != NULL && is_elsewhere(from))
        return fail_with(EADDRNOTAVAIL);
    if (is_elsewhere(to))
        return fail_with(ENODEV);
    if (id->route.addr.src_addr.sa_family == AF_INET6) /* bound, to an address of the other kind */
        to = dst;
    return rdma_resolve_addr(id, from, to, timeout_ms);
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    own_context(context);
    return ibv_alloc_pd(context);
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    return ibv_query_port(context, port, attr);
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return ibv_reg_mr(pd, addr, length, access);
}

/* Of a device that is gone the kernel has taken all back, and says EIO where it is given back. Libibverbs keeps
 * its own part then, unless RDMAV_ALLOW_DISASSOC_DESTROY is set, and the channel for its completion queues. Who
 * destroys a channel has destroyed these, or tried: its descriptor at least is closed. */
static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
    int error = ibv_destroy_comp_channel(channel);

    if (error != EBUSY)
        return error;
    channel->refcnt = 0;
    return ibv_destroy_comp_channel(channel);
}

static int harvest_events(struct ibv_comp_channel *channel, struct harvest *into)
{
    return rdma_harvest(ibv_get_cq_event, channel, into);
}

const struct device rdma_device = {
    .name = "rdma",
    .long_request = LONG_REQUEST,
    .contexts_end = true,

    .create_event_channel = create_event_channel,
    .destroy_event_channel = destroy_event_channel,
    .create_id = rdma_create_id,
    .destroy_id = rdma_destroy_id,
    .bind_addr = bind_addr,
    .resolve_addr = resolve_addr,
    .resolve_route = rdma_resolve_route,
    .create_qp = rdma_create_qp,
    .destroy_qp = rdma_destroy_qp,
    .connect = rdma_connect,
    .listen = rdma_listen,
    .accept = rdma_accept,
    .reject = rdma_reject,
    .disconnect = rdma_disconnect,
    .notify = rdma_notify,
    .migrate_id = rdma_migrate_id,
    .set_option = rdma_set_option,
    .get_cm_event = rdma_get_cm_event,
    .ack_cm_event = rdma_ack_cm_event,

    .get_device_list = ibv_get_device_list,
    .free_device_list = ibv_free_device_list,
    .query_device = ibv_query_device,
    .query_port = query_port,
    .alloc_pd = alloc_pd,
    .dealloc_pd = ibv_dealloc_pd,
    .reg_mr = reg_mr,
    .reg_mr_iova2 = ibv_reg_mr_iova2,
    .dereg_mr = ibv_dereg_mr,
    .create_comp_channel = ibv_create_comp_channel,
    .destroy_comp_channel = destroy_comp_channel,
    .create_cq = ibv_create_cq,
    .destroy_cq = ibv_destroy_cq,
    .get_cq_event = ibv_get_cq_event,
    .ack_cq_events = ibv_ack_cq_events,
    .harvest = harvest_events,
    .create_verbs_qp = ibv_create_qp,
    .destroy_verbs_qp = ibv_destroy_qp,
    .modify_qp = ibv_modify_qp,
    .query_qp = ibv_query_qp,
    .wc_status_str = ibv_wc_status_str,
};
