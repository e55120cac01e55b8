/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * settings.h - the settings in environment variables. Only settings.c reads the environment, for the library, and for
 * the software device when a program uses it without the library. If a program runs with more privileges than its user
 * has, the variables are ignored (secure_getenv).
 */
#ifndef XS_SETTINGS_H
#define XS_SETTINGS_H

#include <stdbool.h>

#define SPIN_US_MAX 1000000 /* microseconds */
#define SETTING_MAX 64      /* bytes of a stored value; a longer value is truncated and ends in "..." */

struct settings {
    char device[SETTING_MAX]; /* EXS_DEVICE; empty: auto, or not set */
    char link[SETTING_MAX];   /* EXS_LINK, empty if it is not set */
    bool link_known;          /* EXS_LINK is auto, shm, tcp or udp, or not set */
    bool shm;                 /* EXS_LINK allows shared memory within this host */
    /* EXS_LINK allows the TCP connection that sets up the queue pair to carry its packets */
    bool tcp;
    /* EXS_TCP_CONGESTION: the congestion control of TCP connections, empty if it is not set */
    char congestion[SETTING_MAX];
    char roce[SETTING_MAX]; /* EXS_ROCE, empty if it is not set */
    bool roce_known;        /* EXS_ROCE is off, on, auto or only, or not set */
    /* The software device also uses RoCE's UDP port (4791), where RDMA adapters reach it. roce_wanted: EXS_ROCE is
     * auto, on or only. roce_needed: it is on or only, so the device can't be used if the port is not available. */
    bool roce_wanted, roce_needed;
    bool roce_only;         /* EXS_ROCE is only: connections are set up over that port alone, not over TCP */
    char spin[SETTING_MAX]; /* EXS_SPIN, empty if it is not set */
    bool spin_known;        /* EXS_SPIN is a number of microseconds up to SPIN_US_MAX, or not set */
    unsigned spin_us;       /* EXS_SPIN in microseconds; the default if it is not set */
    /* The name of the first of EXS_MAP, EXS_IMMEDIATE and EXS_CHECK that has an unknown value, and that value. NULL:
     * all values are known. */
    const char *odd;
    char odd_value[SETTING_MAX];
    /* EXS_MAP is 1: exs_recvfile maps files even if copying costs less. EXS_MAP is 0: it never maps files. */
    bool map_always, map_never;
    bool immediate; /* EXS_IMMEDIATE: use RDMA WRITE WITH IMMEDIATE if the device supports it */
    bool debug;     /* EXS_DEBUG: log on standard error what failed, and what to do */
    bool trace;     /* EXS_DEBUG is 2: also log each operation */
    /* EXS_CHECK: report mistakes of the program on standard error. check_aborts: EXS_CHECK is abort, so that the first
     * mistake aborts the program. */
    bool check, check_aborts;
};

/* Reads the environment. Called by exs_init, while no other thread is in the library. */
void settings_read(void);
/* Returns the settings. They are those of the last settings_read(), or those that the first call of this function has
 * read. */
const struct settings *settings(void);

#endif
