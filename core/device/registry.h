/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * registry.h - the kinds of devices that the library uses: chosen by exs_init, and constant until the last exs_fini.
 */
#ifndef XS_REGISTRY_H
#define XS_REGISTRY_H

#include <stdbool.h>
#include "device.h"

#define DEVICES_MAX 2 /* kinds: an RDMA adapter's, and the software device */

/* Chooses the devices that EXS_DEVICE permits and that can be used here. Returns 0, or -1 and errno. */
int xs_choose_devices(void);
/* Called in a forked child, and by the last exs_fini(). */
void xs_devices_forget(void);
void xs_devices_end(void);

/* The chosen devices, in the order in which they are tried: their number, and one of them. */
int xs_devices(void);
const struct device *xs_device(int index);
/* Returns false if EXS_DEVICE names another device. */
bool xs_device_allowed(const struct ibv_context *context);

#endif
