/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_pass.h - unix sockets: abstract addresses, and messages with up to three descriptors. No function here blocks. */
#ifndef SOFT_SHM_PASS_H
#define SOFT_SHM_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define SHM_PASS_FDS 3

/* Fills in the address of an abstract name of at most 107 bytes. Returns its length. */
socklen_t shm_pass_address(struct sockaddr_un *un, const char *name);
/* Returns whether the process at the other end (for a client: the process that called listen()) has the user of this
 * process, whose real, effective and saved user must be the same. False and errno. */
bool shm_pass_is_ours(int fd);
/* Sends one message. The caller still owns the descriptors. False and errno on failure. */
bool shm_pass_send(int fd, const void *bytes, size_t length, const int *fds, size_t count);
/* Receives one message of exactly `length` bytes with `least` to `most` descriptors, which the caller then owns; the
 * other entries of `fds` are -1. False and errno if there is no such message; the descriptors of another message are
 * closed. */
bool shm_pass_receive(int fd, void *bytes, size_t length, int *fds, size_t least, size_t most);
/* Closes the descriptors that are not -1. */
void shm_pass_close(const int *fds, size_t count);

#endif
