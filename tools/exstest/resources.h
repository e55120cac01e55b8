/* SPDX-License-Identifier: BSD-2-Clause */
/* resources.h - counts the system resources of this process, to check that all were released. */
#ifndef EXSTEST_RESOURCES_H
#define EXSTEST_RESOURCES_H

struct resources {
    long descriptors, threads;
    long pinned; /* KiB that devices have pinned */
};

struct resources resources_now(void);
long resources_resident(void);  /* resident memory of this process, KiB */
long resources_available(void); /* available memory of the system, KiB */

#endif
