/* SPDX-License-Identifier: BSD-2-Clause */
/* bodies.h - for the files with the tests: the groups that they define, and what several of them do. */
#ifndef BODIES_H
#define BODIES_H

#include "trial.h"

/* The groups in the order in which they run: as section 3 of the thesis, so that what a test needs has been tested before it.
 * The functions that the thesis does not have follow. A line each, so that two changes that add a function do not meet. */
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
    GROUP(errmsg)                                                                                              \
    GROUP(fini)

#define DECLARE(name) extern const struct group group_##name;
FOR_EACH_GROUP(DECLARE)
#undef DECLARE

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
