/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm_listener.h - the unix sockets on which an RDMA listener waits for clients of the same host that offer shared
 * memory.
 *
 * An RDMA listener has two such sockets. One is a file in a directory that only its user can write: the first of
 *     /run/user/UID/exs, /run/exs-UID, /tmp/exs-UID, /dev/shm/exs-UID
 * that exists with the right owner and mode, or can be created. The other has an abstract name, for clients that see
 * another file system, as in a container that shares only the network. A client tries the directories in this order,
 * and the abstract name last. Neither side reads the environment: it may differ between the two, and a program with
 * more rights than its user must not trust it.
 *
 * A name contains the address and port of the RDMA listener. A client first tries the name with the address that it
 * connects to, then the one with the family's wildcard address, then the one with IPv6's wildcard address, whose
 * listener may accept IPv4 connections, too. The name of a file also contains a number that identifies the network
 * namespace, because two namespaces can share a file system.
 *
 * Another user can take the abstract name, or the name of a directory in /tmp. Both sides therefore ask the kernel
 * which user owns a directory or a socket, and use only those of their own user. Otherwise they try the next name, and
 * log that once.
 */
#ifndef SOFT_SHM_LISTENER_H
#define SOFT_SHM_LISTENER_H

#include <sys/un.h>
#include "soft/engine/wire.h"

enum { SHM_LISTENER_FILE, SHM_LISTENER_ABSTRACT, SHM_LISTENERS };

struct shm_listener {
    int fd;                /* a listening socket; -1: there is none */
    struct sockaddr_un at; /* its address, if it is a file */
};

/* Opens the sockets of an RDMA listener at this address. The caller must have bound the TCP port exclusively, so a file
 * of this name belongs to a dead process, and is replaced. Returns the number of sockets that could be opened. */
int shm_listeners_open(struct shm_listener listeners[SHM_LISTENERS], const union soft_addr *local);
/* Closes the sockets and removes the file. Called before the caller closes its TCP socket, while no other process can
 * use the names. */
void shm_listeners_close(struct shm_listener listeners[SHM_LISTENERS]);
/* Connects to the listener at this address, if it is a process of this user. Returns the socket, or -1 and errno:
 * ECONNREFUSED if there is no such socket, EPERM if only another user has one, EAGAIN if its backlog is full. */
int shm_listener_visit(const union soft_addr *remote);

#endif
