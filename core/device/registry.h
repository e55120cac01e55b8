/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * registry.h - the kinds of devices (tables of functions, struct device) that the library uses. exs_init chooses them,
 * and they are constant until the last exs_fini.
 */
#ifndef XS_REGISTRY_H
#define XS_REGISTRY_H

#include <stdbool.h>
#include "device.h"

#define DEVICES_MAX 2 /* kinds: an RDMA adapter's, and the software device */

/* Chooses the kinds of devices that EXS_DEVICE permits and that can be used on this host. Returns 0, or -1 and
 * errno. */
int xs_choose_devices(void);
/* Calls `forget` of each kind, in a forked child. */
void xs_devices_forget(void);
/* Calls `end` of each kind, in the last exs_fini(). */
void xs_devices_end(void);

/* Returns the number of chosen kinds. */
int xs_devices(void);
/* Returns one of them; a connect tries them in the order of their indexes, from 0 on. */
const struct device *xs_device(int index);
/* Returns false if EXS_DEVICE is the name of one device, and the context is of another device. */
bool xs_device_allowed(const struct ibv_context *context);

#endif
