/* SPDX-License-Identifier: BSD-2-Clause */
/* bodies.h - for the files with tests: the list of groups, and functions that several files use. */
#ifndef BODIES_H
#define BODIES_H

#include "trial.h"

/* The groups in the order in which they run: that of section 3 of the thesis, in which the prerequisites of a test
 * precede it. Functions that are not in the thesis follow. One group per line, so that concurrent changes which add
 * functions do not conflict. */
#define FOR_EACH_GROUP(GROUP)                                                                                  \
    GROUP(init)                                                                                                \
    GROUP(socket)                                                                                              \
    GROUP(qcreate)                                                                                             \
    GROUP(qdelete)                                                                                             \
    GROUP(qdequeue)                                                                                            \
    GROUP(mregister)                                                                                           \
    GROUP(mderegister)                                                                                         \
    GROUP(bind)                                                                                                \
    GROUP(listen)                                                                                              \
    GROUP(connect)                                                                                             \
    GROUP(blocking_connect)                                                                                    \
    GROUP(accept)                                                                                              \
    GROUP(blocking_accept)                                                                                     \
    GROUP(send)                                                                                                \
    GROUP(recv)                                                                                                \
    GROUP(sendfile)                                                                                            \
    GROUP(blocking_send)                                                                                       \
    GROUP(blocking_recv)                                                                                       \
    GROUP(read)                                                                                                \
    GROUP(write)                                                                                               \
    GROUP(blocking_sendfile)                                                                                   \
    GROUP(shutdown)                                                                                            \
    GROUP(close)                                                                                               \
    GROUP(blocking_close)                                                                                      \
    GROUP(qstatus)                                                                                             \
    GROUP(qmodify)                                                                                             \
    GROUP(getsockopt)                                                                                          \
    GROUP(sendmsg)                                                                                             \
    GROUP(recvmsg)                                                                                             \
    GROUP(blocking_sendmsg)                                                                                    \
    GROUP(blocking_recvmsg)                                                                                    \
    GROUP(getstats)                                                                                            \
    GROUP(getdevices)                                                                                          \
    GROUP(cancel)                                                                                              \
    GROUP(connect_host)                                                                                        \
    GROUP(blocking_connect_host)                                                                               \
    GROUP(poll)                                                                                                \
    GROUP(recvfile)                                                                                            \
    GROUP(blocking_recvfile)                                                                                   \
    GROUP(setsockopt)                                                                                          \
    GROUP(mexport)                                                                                             \
    GROUP(munexport)                                                                                           \
    GROUP(rread)                                                                                               \
    GROUP(rwrite)                                                                                              \
    GROUP(getsockname)                                                                                         \
    GROUP(getpeername)                                                                                         \
    GROUP(getdevice)                                                                                           \
    GROUP(fcntl)                                                                                               \
    GROUP(qfd)                                                                                                 \
    GROUP(qpoll)                                                                                               \
    GROUP(qprepare)                                                                                            \
    GROUP(strevent)                                                                                            \
    GROUP(version_string)                                                                                      \
    GROUP(init_config)                                                                                         \
    GROUP(errmsg)                                                                                              \
    GROUP(fini)

#define DECLARE(name) extern const struct group group_##name;
FOR_EACH_GROUP(DECLARE)
#undef DECLARE

/* Continues the test in a forked child; the parent exits with the child's status. */
void in_child(struct trial *trial);
/* Lowers the limit on descriptors, so that the process can open no more. */
void use_up_descriptors(struct trial *trial);
/* signals_come() starts a periodic signal, so that its handler runs while a call blocks; signals_end() stops it and
 * preserves errno. */
void signals_come(struct trial *trial);
void signals_end(void);
/* Set trial.server to an address from which no answer arrives (server_silent), or on which no socket listens
 * (server_absent). */
void server_silent(struct trial *trial);
void server_absent(struct trial *trial);
/* Returns a descriptor that is not an EXS socket. */
int foreign_fd(struct trial *trial);

#endif
