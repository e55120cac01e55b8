/* SPDX-License-Identifier: BSD-2-Clause */
/* soft.h - what the rest of the library calls in the software device, in addition to the function table of device.h. */
#ifndef SOFT_SOFT_H
#define SOFT_SOFT_H

/* In a forked child: the parent's contexts and their service thread do not exist, and the device starts from scratch.
 * The caller closes the inherited descriptors (fds_close_all). */
void soft_forked(void);

#endif
