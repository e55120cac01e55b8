/* SPDX-License-Identifier: BSD-2-Clause */
/* harvest.h - polls a completion channel by libibverbs' functions. */
#ifndef RDMA_HARVEST_H
#define RDMA_HARVEST_H

#include "core/device/device.h"

/* A function like ibv_get_cq_event(). */
typedef int rdma_get_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);

/* Implements `harvest` of struct device, and reads events by `get_event`. After an event the completion queue is armed
 * and then polled: a completion that arrives in between is found by the poll, or causes another event. If arming
 * fails, the device is `gone` if the channel's descriptor reports POLLERR or POLLHUP, else the queue is `stuck`. */
int rdma_harvest(rdma_get_event *get_event, struct ibv_comp_channel *channel, struct harvest *harvest);

#endif
