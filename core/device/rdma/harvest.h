/* SPDX-License-Identifier: BSD-2-Clause */
/* harvest.h - polls a completion channel with libibverbs' functions. */
#ifndef RDMA_HARVEST_H
#define RDMA_HARVEST_H

#include "core/device/device.h"

/* A function like ibv_get_cq_event(). */
typedef int rdma_get_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);

/* Implements `harvest` of struct device; reads events with `get_event`. After an event it arms the completion queue and
 * then polls it, so the poll finds a completion that arrives in between, or the completion causes another event. If it
 * can't arm the queue, it sets `gone` if the channel's descriptor reports POLLERR or POLLHUP, else `stuck`. */
int rdma_harvest(rdma_get_event *get_event, struct ibv_comp_channel *channel, struct harvest *harvest);

#endif
