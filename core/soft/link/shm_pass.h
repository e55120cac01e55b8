/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_pass.h - one message on a unix socket, with one or two descriptors. Nothing here waits. */
#ifndef SOFT_SHM_PASS_H
#define SOFT_SHM_PASS_H

#include <stdbool.h>
#include <stddef.h>

/* Whoever is at the other end, now or when it began to listen, is of our user. False and errno. */
bool shm_pass_is_ours(int fd);
/* The descriptors stay the caller's. False and errno. */
bool shm_pass_send(int fd, const void *bytes, size_t length, const int *fds, size_t count);
/* Just this many bytes and descriptors, which are then the caller's. False and errno: other than that. */
bool shm_pass_receive(int fd, void *bytes, size_t length, int *fds, size_t count);
/* Those that are not -1. */
void shm_pass_close(const int *fds, size_t count);

#endif
