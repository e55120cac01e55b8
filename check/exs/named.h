/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * named.h - name resolution under the test's control: getaddrinfo is defined here, in place of the C library's, and
 * returns when the test lets it.
 */
#ifndef CHECK_NAMED_H
#define CHECK_NAMED_H

#include <netdb.h>
#include <semaphore.h>
#include <stdatomic.h>
#include "check/support/support.h"

#define ADDRESSES_MAX 3

/* What getaddrinfo returns for any name; set before it is called. */
extern struct named {
    int error, system_error;
    struct address addresses[ADDRESSES_MAX];
    int count;
    bool waits; /* wait for a post of `go` */
} answer;
/* Posted by getaddrinfo when it starts, by the test to let it return, and by freeaddrinfo. */
extern sem_t asked, go, freed;
extern atomic_int asks;
extern int family_asked;

void await(sem_t *semaphore);
void name_leads_to(const struct address *address);
/* Connects by name; the event's ahandle is &answer. */
void connect_host(int socket, struct inbox *box);

TCase *named_case(Suite *suite, const char *name);

#endif
