/* SPDX-License-Identifier: BSD-2-Clause */
/* soft.h - the function that EXS calls in the software device in addition to the table of functions of device.h. */
#ifndef SOFT_SOFT_H
#define SOFT_SOFT_H

/* Called in a forked child: forgets the parent's contexts and service thread, which do not exist in the child. The
 * device can then be used as in a new process. The caller closes the inherited descriptors (fds_close_all). */
void soft_forked(void);

#endif
