/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * twonets.h - two network namespaces with a cable between them: a host that a test runs on, and another, where
 * the test opens sockets; or one alone, where nobody else has a port. Needs neither privilege nor programs.
 */
#ifndef CHECK_TWONETS_H
#define CHECK_TWONETS_H

#include <check.h>
#include <stdbool.h>

#define TWONETS_NEAR "10.9.0.1" /* with /24 */
#define TWONETS_FAR "10.9.0.2"
#define TWONETS_NEAR6 "fd09::1" /* with /64 */
#define TWONETS_FAR6 "fd09::2"

/* From now on the process is in a network of its own. False, and errno, where this user may not. */
bool twonets_make(void);
/* The same with nothing but a loopback. */
bool twonets_alone(void);
/* The hosts have no IPv4 addresses any more, but these instead. False, and errno: there is no IPv6. */
bool twonets_by_ipv6_alone(void);
/* The thread's new sockets are the far host's, or the near one's. */
void twonets_enter(bool far);

/* What main() does of a program whose tests run there: 77 where this user may not. */
int twonets_main(bool (*make)(void), Suite *(*suite)(void));

#endif
