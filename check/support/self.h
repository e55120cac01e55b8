/* SPDX-License-Identifier: BSD-2-Clause */
/* self.h - the clock, and what this process has and has used, as the kernel tells it. */
#ifndef CHECK_SELF_H
#define CHECK_SELF_H

double seconds_now(void);    /* of the monotonic clock */
double seconds_of_cpu(void); /* user and system */
long resident_kib(void);     /* memory in use */
int count_threads(void);
int count_fds(void);      /* open descriptors */
void memlock_count(void); /* from now on the memlock limit holds for this thread, be it root's */

#endif
