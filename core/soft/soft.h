/* SPDX-License-Identifier: BSD-2-Clause */
/* soft.h - what the rest of the library calls of the embedded device, besides the table in device.h. */
#ifndef SOFT_SOFT_H
#define SOFT_SOFT_H

/* In the child of a fork: the parent's contexts and their service thread are gone, and the device starts
 * afresh. The descriptors are the caller's affair (fds_close_all). */
void soft_forked(void);

#endif
