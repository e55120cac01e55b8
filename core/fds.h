/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fds.h - which descriptors of the process are the library's own.
 *
 * A forked child must not keep them: a peer learns that a process died by its connections being closed, and a
 * copy in a child would hide that. So every descriptor that EXS or the embedded device opens passes through
 * fds_own, and the child closes them all.
 */
#ifndef XS_FDS_H
#define XS_FDS_H

/* Remember fd as the library's; returns it. -1 passes through with errno kept. */
int fds_own(int fd);
/* Forget and close. */
int fds_close(int fd);
/* Forget: somebody else closes it. */
void fds_disown(int fd);
/* Close all of them; async-signal-safe, for the child of a fork. */
void fds_close_all(void);

#endif
