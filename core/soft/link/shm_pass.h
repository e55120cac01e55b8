/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_pass.h - one message on a unix socket, with up to three descriptors, and such a socket's address. Nothing here
 * waits. */
#ifndef SOFT_SHM_PASS_H
#define SOFT_SHM_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define SHM_PASS_FDS 3

/* That of an abstract name of at most 107 bytes. Returns its length. */
socklen_t shm_pass_address(struct sockaddr_un *un, const char *name);
/* The process at the other end, now or when it began to listen, is of our user, and we are of no other one. False and
 * errno. */
bool shm_pass_is_ours(int fd);
/* The descriptors stay the caller's. False and errno. */
bool shm_pass_send(int fd, const void *bytes, size_t length, const int *fds, size_t count);
/* Just this many bytes, and at least and at most so many descriptors, which are then the caller's; those that
 * didn't come are -1. False and errno: other than that. */
bool shm_pass_receive(int fd, void *bytes, size_t length, int *fds, size_t least, size_t most);
/* Those that are not -1. */
void shm_pass_close(const int *fds, size_t count);

#endif
