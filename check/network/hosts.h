/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hosts.h - network namespaces with one interface each, as the hosts of a test network.
 *
 * Host N (from 1) has the interface eth0 with the addresses 10.77.0.N/24 and fd77::N/64, and lo. Other programs enter
 * a host with nsenter(1) by /proc/PID/fd/NAMESPACE of the process that made it; a host is gone when that process and
 * all programs in the host have ended.
 */
#ifndef CHECK_NETWORK_HOSTS_H
#define CHECK_NETWORK_HOSTS_H

#include <stdbool.h>

struct host {
    int namespace; /* descriptor of the network namespace, inherited by no program */
    int tap; /* descriptor that reads the frames that the host sends, and writes those it receives; not blocking */
};

/*
 * Makes a host. number: 1 to 254. mtu: bytes of its eth0. The calling thread is in its own namespace again afterwards.
 * Returns false after a message on standard error when the process lacks CAP_NET_ADMIN or the kernel has no TUN/TAP.
 */
bool host_make(struct host *host, int number, int mtu);

#endif
