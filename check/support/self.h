/* SPDX-License-Identifier: BSD-2-Clause */
/* self.h - the clock, and the resources of this process as the kernel reports them. */
#ifndef CHECK_SELF_H
#define CHECK_SELF_H

double seconds_now(void);    /* of the monotonic clock */
double seconds_of_cpu(void); /* user and system time */
long resident_kib(void);     /* resident memory */
int count_threads(void);
int count_fds(void);      /* open descriptors */
void memlock_count(void); /* the memlock limit applies to this thread from now on, also for root */

#endif
