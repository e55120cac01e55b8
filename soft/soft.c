/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * soft.c - the software device's function table. The context of an event channel outlives the channel as long as the
 * application has objects in it, so each function that destroys an object checks whether it was the last (home_reap).
 */
#include <stdlib.h>
#include "core/device/device.h"
#include "soft/cm/cm.h"
#include "soft/cm/ib_port.h"
#include "soft/service/home.h"
#include "soft.h"
#include "soft/verbs/verbs.h"

/* The device is always available. */
static struct ibv_device **get_device_list(int *num_devices)
{
    struct ibv_device **list = calloc(2, sizeof(*list));

    if (list == NULL)
        return NULL;
    list[0] = soft_the_device();
    if (num_devices != NULL)
        *num_devices = 1;
    return list;
}

static void free_device_list(struct ibv_device **list)
{
    free(list);
}

static int dealloc_pd(struct ibv_pd *pd)
{
    return home_reaped(soft_dealloc_pd(pd));
}

static int dereg_mr(struct ibv_mr *mr)
{
    return home_reaped(soft_dereg_mr(mr));
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
    return home_reaped(soft_destroy_comp_channel(channel));
}

static int destroy_cq(struct ibv_cq *cq)
{
    return home_reaped(soft_destroy_cq(cq));
}

static int destroy_verbs_qp(struct ibv_qp *qp)
{
    return home_reaped(soft_destroy_qp(qp));
}

static int harvest_cq(struct ibv_comp_channel *channel, struct harvest *into)
{
    struct ibv_cq *cq = NULL;
    int count = soft_harvest(channel, &cq, HARVEST_MAX, into->wc, &into->left);

    into->fetched = into->stuck = into->gone = false;
    into->cq_context = cq != NULL ? cq->cq_context : NULL;
    return count;
}

static int poll_channel(struct ibv_comp_channel *channel, struct ibv_wc *wc)
{
    return soft_poll_channel(channel, HARVEST_MAX, wc);
}

/* A program may exit with delayed acknowledgements that were to go with an answer: send them now. A forked child has
 * nothing to send, because its contexts are copies of its parent's. */
__attribute__((destructor)) static void acknowledge_all(void)
{
    if (!home_is_own())
        return;
    ib_port_settle();
    home_settle();
}

static void end_device(void)
{
    ib_port_end();
    home_unshare();
}

void soft_forked(void)
{
    service_forget();
    ib_port_forget();
    home_forget();
}

const struct device soft_device = {
    .name = "soft",
    .is_by_tcp = soft_is_by_tcp,
    .retransmitted = soft_query_retransmitted,
    .check_every_key = soft_check_every_key,
    .holds_no_pages = true,

    .create_event_channel = soft_create_event_channel,
    .create_quiet_event_channel = soft_create_quiet_event_channel,
    .destroy_event_channel = soft_destroy_event_channel,
    .create_id = soft_create_id,
    .destroy_id = soft_destroy_id,
    .bind_addr = soft_bind_addr,
    .resolve_addr = soft_resolve_addr,
    .resolve_route = soft_resolve_route,
    .create_qp = soft_create_id_qp,
    .destroy_qp = soft_destroy_id_qp,
    .connect = soft_connect,
    .listen = soft_listen,
    .accept = soft_accept,
    .reject = soft_reject,
    .disconnect = soft_disconnect,
    .notify = soft_notify,
    .migrate_id = soft_migrate_id,
    .set_option = soft_set_option,
    .get_cm_event = soft_get_cm_event,
    .ack_cm_event = soft_ack_cm_event,

    .get_device_list = get_device_list,
    .free_device_list = free_device_list,
    .query_device = soft_query_device,
    .query_port = soft_query_port,
    .alloc_pd = soft_alloc_pd,
    .dealloc_pd = dealloc_pd,
    .reg_mr = soft_reg_mr,
    .reg_mr_iova2 = soft_reg_mr_iova2,
    .reg_file = soft_reg_file,
    .dereg_mr = dereg_mr,
    .create_comp_channel = soft_create_comp_channel,
    .create_quiet_comp_channel = soft_create_quiet_comp_channel,
    .destroy_comp_channel = destroy_comp_channel,
    .create_cq = soft_create_cq,
    .destroy_cq = destroy_cq,
    .get_cq_event = soft_get_cq_event,
    .ack_cq_events = soft_ack_cq_events,
    .harvest = harvest_cq,
    .poll_channel = poll_channel,
    .create_verbs_qp = soft_create_qp,
    .destroy_verbs_qp = destroy_verbs_qp,
    .modify_qp = soft_modify_qp,
    .query_qp = soft_query_qp,
    .poll_state = soft_poll_state,
    .stop_polling = soft_stop_polling,
    .end = end_device,
    .forget = soft_forked,
    .wc_status_str = soft_wc_status_str,
};
