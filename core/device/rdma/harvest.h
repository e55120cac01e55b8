/* SPDX-License-Identifier: BSD-2-Clause */
/* harvest.h - a completion channel's completions by the plain verbs calls. */
#ifndef RDMA_HARVEST_H
#define RDMA_HARVEST_H

#include "core/device/device.h"

/* As ibv_get_cq_event. */
typedef int rdma_get_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);

/* struct device's harvest, with events fetched by this call. */
int rdma_harvest(rdma_get_event *get_event, struct ibv_comp_channel *channel, struct harvest *harvest);

#endif
