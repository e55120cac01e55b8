/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_pass.h - messages with up to three descriptors on a unix socket, and its address. No function here blocks. */
#ifndef SOFT_SHM_PASS_H
#define SOFT_SHM_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define SHM_PASS_FDS 3

/* Fills in the address of an abstract name of at most 107 bytes. Returns its length. */
socklen_t shm_pass_address(struct sockaddr_un *un, const char *name);
/* Whether the process at the other end (for a client: the one that called listen()) has this process's user, which must
 * be the real, effective and saved one. False and errno. */
bool shm_pass_is_ours(int fd);
/* Sends one message. The descriptors stay the caller's. False and errno. */
bool shm_pass_send(int fd, const void *bytes, size_t length, const int *fds, size_t count);
/* Receives one message of exactly `length` bytes with `least` to `most` descriptors, which are then the caller's; the
 * others of `most` are -1. False and errno: no such message, and its descriptors are closed. */
bool shm_pass_receive(int fd, void *bytes, size_t length, int *fds, size_t least, size_t most);
/* Closes those that are not -1. */
void shm_pass_close(const int *fds, size_t count);

#endif
