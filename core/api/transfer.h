/* SPDX-License-Identifier: BSD-2-Clause */
/* transfer.h - the functions that start transfers. xs_start() calls the one for the type of the request. Each returns
 * 0, or -1 and errno. */
#ifndef XS_TRANSFER_H
#define XS_TRANSFER_H

struct ask;

int xs_start_send(const struct ask *ask);
int xs_start_recv(const struct ask *ask);
int xs_start_sendmsg(const struct ask *ask);
int xs_start_recvmsg(const struct ask *ask);
int xs_start_recvfile(const struct ask *ask);
int xs_start_sendfile(const struct ask *ask);
int xs_start_onesided(const struct ask *ask);
/* Checks the arguments that all transfers have. Returns 0, or -1 and EINVAL. */
int xs_check_transfer(const struct ask *ask);

#endif
