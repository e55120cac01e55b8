/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * settings.h - what the environment variables and exs_init_config set. Only settings.c reads the environment, for the
 * library, and for the software device when a program uses it without the library. A variable that is set and not
 * empty takes precedence over the field of exs_config_t. If a program runs with more privileges than its user has, the
 * variables are ignored (secure_getenv).
 */
#ifndef XS_SETTINGS_H
#define XS_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#define SPIN_US_MAX 1000000 /* microseconds */
#define SETTING_MAX 64      /* bytes of a stored value; a longer value is truncated and ends in "..." */

struct exs_config;

/* Each has an environment variable and a field of exs_config_t. */
enum setting {
    SET_DEVICE,
    SET_LINK,
    SET_CONGESTION,
    SET_ROCE,
    SET_SPIN,
    SET_MAP,
    SET_IMMEDIATE,
    SET_DEBUG,
    SET_CHECK,
    SETTINGS
};

struct settings {
    const char *name[SETTINGS];  /* the variable or the field that the value is from: EXS_LINK or exs_link */
    char odd[SETTING_MAX + 128]; /* the first setting that has an invalid value, and what is valid; or "" */
    char device[SETTING_MAX];    /* EXS_DEVICE; empty: auto, or not set */
    bool shm;                    /* EXS_LINK allows shared memory within this host */
    /* EXS_LINK allows the TCP connection that sets up the queue pair to carry its packets */
    bool tcp;
    /* EXS_TCP_CONGESTION: the congestion control of TCP connections, empty if it is not set */
    char congestion[SETTING_MAX];
    char roce[SETTING_MAX]; /* EXS_ROCE, empty if it is not set */
    /* The software device also uses RoCE's UDP port (4791), where RDMA adapters reach it. roce_wanted: EXS_ROCE is
     * auto, on or only. roce_needed: it is on or only, so the device can't be used if the port is not available. */
    bool roce_wanted, roce_needed;
    bool roce_only;   /* EXS_ROCE is only: connections are set up over that port alone, not over TCP */
    unsigned spin_us; /* EXS_SPIN in microseconds; the default if it is not set */
    /* EXS_MAP is 1: exs_recvfile maps files even if copying costs less. EXS_MAP is 0: it never maps files. */
    bool map_always, map_never;
    bool immediate; /* EXS_IMMEDIATE: use RDMA WRITE WITH IMMEDIATE if the device supports it */
    bool debug;     /* EXS_DEBUG: log what failed, and what to do */
    bool trace;     /* EXS_DEBUG is 2: also log each operation */
    /* EXS_CHECK: log mistakes of the program. check_aborts: EXS_CHECK is abort, so that the first mistake aborts the
     * program. */
    bool check, check_aborts;
    /* exs_rcvbuf, exs_sndbuf: SO_RCVBUF and SO_SNDBUF of new sockets, bytes; 0: the library's default */
    int receive_buffer, send_buffer;
    int half_open_max;  /* exs_half_open: maximum of half-open connections of one listener; 0: the default */
    uint64_t rings_max; /* exs_ring_bytes: maximum of all ring buffers that have grown, bytes; 0: RINGS_MAX */
};

/* Reads the environment, and the configuration unless it is NULL. Called by exs_init and exs_init_config, while no other
 * thread is in the library. */
void settings_read(const struct exs_config *config);
/* Returns the settings. They are those of the last settings_read(), or those that the first call of this function has
 * read from the environment. */
const struct settings *settings(void);

#endif
