/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * named.h - names that are the program's own: its getaddrinfo stands before the system's, and answers when the
 * test lets it.
 */
#ifndef CHECK_NAMED_H
#define CHECK_NAMED_H

#include <netdb.h>
#include <semaphore.h>
#include <stdatomic.h>
#include "check/support/support.h"

#define ADDRESSES_MAX 3

/* What getaddrinfo says to any name; set before it is asked. */
extern struct named {
    int error, system_error;
    struct address addresses[ADDRESSES_MAX];
    int count;
    bool waits; /* for a post of `go` */
} answer;
extern sem_t asked, go, freed; /* asked: posted by who asks; freed: when he has given the list back */
extern atomic_int asks;
extern int family_asked;

void await(sem_t *semaphore);
void name_leads_to(const struct address *address);
/* By a name; the event's handle is &answer. */
void connect_host(int socket, struct inbox *box);

TCase *named_case(Suite *suite, const char *name);

#endif
