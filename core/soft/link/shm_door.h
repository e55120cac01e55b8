/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm_door.h - the unix sockets at which the two ends of a connection within a host meet to share memory.
 *
 * A listener has two of them. One is a file in a directory that only its user can write: the first of
 *     /run/user/UID/exs, /run/exs-UID, /tmp/exs-UID, /dev/shm/exs-UID
 * that exists with the right owner and mode, or can be created. The other has an abstract name, for clients that see
 * another file system, as in a container that shares only the network. A client tries the directories in this order,
 * and the abstract name last. Neither looks at the environment, which may differ between them, and which a program
 * with more rights than its user must not trust.
 *
 * Names contain the address and port of the listener: one of a single address is found before one of all addresses of
 * the family, and this before one of all IPv6 addresses, which may accept IPv4 connections, too. Files also contain
 * what identifies the network namespace, since two namespaces can share a file system.
 *
 * Another user can take the abstract name, or the name of a directory in /tmp. Both ends ask the kernel who owns what
 * they find, use only what is their own user's, try the next one, and report it once.
 */
#ifndef SOFT_SHM_DOOR_H
#define SOFT_SHM_DOOR_H

#include <sys/un.h>
#include "core/soft/engine/wire.h"

enum { SHM_DOOR_FILE, SHM_DOOR_ABSTRACT, SHM_DOORS };

struct shm_door {
    int fd;                /* listens; -1: there is none */
    struct sockaddr_un at; /* of a file */
};

/* The caller listens at this address by TCP and has the port for itself, so a file of this name is a dead process's,
 * and is replaced. Returns the number of doors. */
int shm_doors_open(struct shm_door doors[SHM_DOORS], const union soft_addr *local);
/* Before the caller gives up its port. */
void shm_doors_close(struct shm_door doors[SHM_DOORS]);
/* A socket that is connected to a door of the listener at this address, of this process's user. -1 and errno:
 * ECONNREFUSED without a door, EPERM where only another user has one, EAGAIN where its queue is full. */
int shm_door_visit(const union soft_addr *remote);

#endif
