/* SPDX-License-Identifier: BSD-2-Clause */
/* device.h - removes the software device, which cannot be unplugged. Uses the library's internal structs, which
 * the other files do not see. */
#ifndef CHECK_FAULTS_DEVICE_H
#define CHECK_FAULTS_DEVICE_H

#include <stdbool.h>

/* Removes the device from a connection that is established or being established. Returns false if there is
 * none. With `flushes` the posted work requests are flushed, otherwise they have no completions. Any thread may
 * call this. */
bool device_remove(int socket, bool flushes);

#endif
