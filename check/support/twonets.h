/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * twonets.h - two network namespaces that are connected by a veth pair: the host on which a test runs, and another one
 * in which the test opens sockets; or one namespace alone, in which no other program uses a port. Needs no privileges
 * and no other programs.
 */
#ifndef CHECK_TWONETS_H
#define CHECK_TWONETS_H

#include <check.h>
#include <stdbool.h>

#define TWONETS_NEAR "10.9.0.1" /* with /24 */
#define TWONETS_FAR "10.9.0.2"
#define TWONETS_NEAR6 "fd09::1" /* with /64 */
#define TWONETS_FAR6 "fd09::2"

/* Moves the process to a new network. Returns false, and sets errno, if this user may not. */
bool twonets_make(void);
/* The same with a loopback interface only. */
bool twonets_alone(void);
/* Replaces the IPv4 addresses of both hosts by these. Returns false, and sets errno, if there is no IPv6. */
bool twonets_by_ipv6_alone(void);
/* New sockets of this thread belong to the far host, or to the near one. */
void twonets_enter(bool far);

/* main() of such a program. Returns 77 if this user may not create network namespaces. */
int twonets_main(bool (*make)(void), Suite *(*suite)(void));

#endif
