/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * settings.h - what the environment says: the one place that reads it, for the library and for the embedded
 * device by itself. A program that runs with more rights than its user has gets what holds without any
 * (secure_getenv).
 */
#ifndef XS_SETTINGS_H
#define XS_SETTINGS_H

#include <stdbool.h>

#define SPIN_US_MAX 1000000
#define SETTING_MAX 64 /* bytes of a value that is kept; one that is longer is cut, and ends in "..." */

struct settings {
    char device[SETTING_MAX]; /* EXS_DEVICE, empty for auto */
    char link[SETTING_MAX];   /* EXS_LINK, empty where it is not set */
    bool link_known;          /* it is auto, shm, tcp or udp, or not set */
    bool shm;                 /* it allows shared memory within this host */
    bool tcp;                 /* it allows the TCP connection that sets up the queue pair to carry its packets */
    /* EXS_TCP_CONGESTION: the congestion control of TCP connections, empty where it is not set */
    char congestion[SETTING_MAX];
    char roce[SETTING_MAX];   /* EXS_ROCE, empty where it is not set */
    bool roce_known;          /* it is off, on, auto or only, or not set */
    bool roce_wanted,
        roce_needed;        /* a named context is to live on RoCE's own port, too: if it can; or else fail */
    bool roce_only;         /* and its connections are asked for there, not by TCP */
    char spin[SETTING_MAX]; /* EXS_SPIN, empty where it is not set */
    bool spin_known;        /* it is a number of microseconds, SPIN_US_MAX at most, or not set */
    unsigned spin_us;
    const char *odd; /* the first variable below, but for EXS_DEBUG, with a value that is none of its words */
    char odd_value[SETTING_MAX]; /* that value. Where there is none such, `odd` is NULL */
    bool map_always, /* EXS_MAP: map files that are filled even where copying costs less; or never */
        map_never;
    bool immediate;   /* EXS_IMMEDIATE: use RDMA WRITE WITH IMMEDIATE where the device has it */
    bool debug;       /* EXS_DEBUG: say on standard error what is missing, and what to do; */
    bool trace;       /* and, if it is 2, each operation */
    bool check,       /* EXS_CHECK: say there what the program does that it must not, */
        check_aborts; /* and end it */
};

/* Read the environment, as exs_init does: nobody else is in the library then. */
void settings_read(void);
/* What was read last; the first call reads, where nobody has. */
const struct settings *settings(void);

#endif
