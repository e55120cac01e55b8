/* SPDX-License-Identifier: BSD-2-Clause */
/* resources.h - what this process has of the system: has everything come back? */
#ifndef EXSTEST_RESOURCES_H
#define EXSTEST_RESOURCES_H

struct resources {
    long descriptors, threads;
    long pinned; /* KiB that devices have pinned */
};

struct resources resources_now(void);
long resources_resident(void);  /* KiB of memory in use by this process */
long resources_available(void); /* KiB that the system could still give */

#endif
