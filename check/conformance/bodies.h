/* SPDX-License-Identifier: BSD-2-Clause */
/* bodies.h - for the files with the tests: the groups that they define, and what several of them do. */
#ifndef BODIES_H
#define BODIES_H

#include "trial.h"

extern const struct group group_accept, group_bind, group_blocking_accept, group_blocking_close,
    group_blocking_connect, group_blocking_recv, group_blocking_send, group_blocking_sendfile, group_close,
    group_connect, group_fini, group_getsockopt, group_init, group_listen, group_mderegister, group_mregister,
    group_qcreate, group_qdelete, group_qdequeue, group_qmodify, group_qstatus, group_read, group_recv,
    group_send, group_sendfile, group_shutdown, group_socket, group_write, group_sendmsg, group_recvmsg,
    group_blocking_sendmsg, group_blocking_recvmsg, group_cancel, group_recvfile, group_blocking_recvfile,
    group_setsockopt, group_connect_host, group_blocking_connect_host, group_getstats, group_getdevices,
    group_poll, group_getsockname, group_getpeername, group_getdevice, group_fcntl, group_qfd, group_strevent,
    group_version_string, group_mexport, group_munexport, group_rread, group_rwrite,
    group_errmsg;

/* Go on in a forked child; the parent takes over how that ends. */
void in_child(struct trial *trial);
/* Leave the process no descriptor. */
void use_up_descriptors(struct trial *trial);
/* A signal comes again and again, so that its handler runs while a call waits; and the end of that, which
 * leaves errno. */
void signals_come(struct trial *trial);
void signals_end(void);
/* trial.server is where nobody answers, and where somebody would but nobody listens. */
void server_silent(struct trial *trial);
void server_absent(struct trial *trial);
/* A descriptor of the process that is no socket of EXS. */
int foreign_fd(struct trial *trial);

#endif
