/* SPDX-License-Identifier: BSD-2-Clause */
/* device.h - taking the embedded device away, which nobody can unplug; by the library's own structs, which the
 * others don't see. */
#ifndef CHECK_FAULTS_DEVICE_H
#define CHECK_FAULTS_DEVICE_H

#include <stdbool.h>

/* From a connection that is made, or has begun to be; false: it has not. Its driver flushes what was posted, or
 * was not asked any more. Any thread. */
bool device_remove(int socket, bool flushes);

#endif
