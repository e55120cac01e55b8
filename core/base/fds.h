/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fds.h - the descriptors that the library has opened.
 *
 * A forked child must not keep them: a peer detects that a process died when the kernel closes its connections, and a
 * copy in a child would keep them open. Therefore every descriptor that EXS or the software device opens passes
 * through fds_own(), and the child closes them all. A fork in another thread waits until a descriptor that is being
 * opened has been recorded.
 *
 * A descriptor must be removed from every epoll before it is closed. The kernel removes it only with its last copy,
 * and a child that is being started (posix_spawn, vfork) has copies until it executes another program: until then
 * there would be events for a descriptor that is closed, whose object may be freed. Therefore fds_watch() records in
 * which epolls a descriptor is, and fds_close() removes it. An epoll and its contents are guarded by their owner's
 * lock.
 *
 * A program may by mistake close a number that it has from exs_socket or exs_qfd, and get the number again for a file
 * that it opens. Therefore fds_close() compares the device and inode number of the file with those that were recorded,
 * and closes only the library's file. It can't detect every exchange: all eventfds and epolls have the same numbers.
 */
#ifndef XS_FDS_H
#define XS_FDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

/* Evaluates `call`, which returns a new descriptor, and records the descriptor as the library's. Returns it, or -1 and
 * the errno of `call`. A descriptor from 0 to 2 is replaced by a higher one: the program may have closed its standard
 * streams, and its output must not go to a peer. No fork happens between the call and the record, so the call must not
 * block. */
#define fds_own(call) (fds_hold_fork(), fds_own_held(call))
/* Like fds_own(), for a private descriptor, which the application never gets and which the library reads and writes. If
 * possible its number is at least 512, or at least half of RLIMIT_NOFILE if that is less. A program that closes all
 * numbers, or a wrong one, gets low numbers for the files that it opens next. The library must not write to these
 * files, and to ask the kernel before each write would cost as much as the write. */
#define fds_own_private(call) (fds_hold_fork(), fds_own_private_held(call))
/* Like fds_own(), for a descriptor that was received in a message (SCM_RIGHTS). Called between fds_hold_fork() and
 * fds_let_fork(). */
int fds_own_passed(int fd);
/* Keep other threads from forking, and let them fork again. A fork waits for one second at most. */
void fds_hold_fork(void);
void fds_let_fork(void);
int fds_own_held(int fd);         /* only for the macros */
int fds_own_private_held(int fd); /* only for the macros */
/* The handlers for pthread_atfork(); the child's closes all of the library's descriptors. */
void fds_before_fork(void);
void fds_after_fork(void);
void fds_after_fork_in_child(void);
/* Records a descriptor that another library opens and closes, and whose number must not change. */
void fds_note(int fd);
/* Returns true if the number still stands for the file that was recorded. */
bool fds_is_own(int fd);
/* Returns a number that identifies the file that a descriptor stands for now. 0: the descriptor is not open. 1: fstat()
 * failed, so the file is unknown; fds_is() then takes it for any file. */
uint64_t fds_identity(int fd);
/* Returns true if the descriptor still stands for the file with this identity, as far as can be detected. */
bool fds_is(int fd, uint64_t identity);
/* Removes the descriptor from every epoll that fds_watch() added it to, forgets it, and closes it. If the number
 * stands for another file now, that stays open (-1 and EBADF). */
int fds_close(int fd);
/* Like fds_close(), for a descriptor that another library closes. */
void fds_disown(int fd);
/* Makes an epoll and records it. Returns -1 and errno on failure. */
int fds_epoll(void);
/* Like fds_epoll(), for an epoll that the application never gets, see fds_own_private(). */
int fds_epoll_private(void);
/* epoll_ctl() with EPOLL_CTL_ADD, _MOD and _DEL, which records the epolls that contain `fd`. Return 0, or -1 and
 * errno. */
int fds_watch(int epoll, int fd, struct epoll_event *event);
int fds_rewatch(int epoll, int fd, struct epoll_event *event);
int fds_unwatch(int epoll, int fd);
/* EPOLL_CTL_ADD of a descriptor that the application owns; fds_close() does not remove it. Returns 0, or -1 and
 * errno. */
int fds_watch_foreign(int epoll, int fd, struct epoll_event *event);
/* Closes all recorded descriptors; async-signal-safe, for a forked child. */
void fds_close_all(void);
/* Called in a forked child if another thread of the parent may have been accepting a connection that is not recorded
 * yet. If `listener` is a listening socket, closes each descriptor below `most` that is a connection with the
 * listener's address; an accepted connection has such a low number until it is recorded. Async-signal-safe. */
void fds_close_accepted(int listener, int most);

/* Reads the beginning of a file in /proc, at most size - 1 bytes, as a string; empty if it can't be read. */
void fds_read_text(const char *name, char *text, size_t size);

/* Returns an eighth of the process's descriptor limit, but at least `least` and at most `most`. It is used as the
 * maximum number of descriptors for something that peers can cause, such as half-open connections. */
unsigned fds_share(unsigned least, unsigned most);
/* Returns the position of this private descriptor among the numbers for private descriptors, counted from 0. A new
 * descriptor gets the lowest free number, so a high position means that many were in use when it was made. */
unsigned fds_rank(int fd);

/* setsockopt() with an int. */
int fds_set_option(int fd, int level, int option, int value);
/* Sets the congestion control of a TCP socket by its name. Returns 0, or -1 and errno. */
int fds_set_congestion(int fd, const char *name);

/* Writes 1 to an eventfd (`up`), which is readable then, or reads it, which resets its counter to 0. Continues after a
 * signal. Returns false on failure: the counter is at its maximum (write), or 0 already (read). */
bool fds_flag(int fd, bool up);
/* Reads a nonblocking eventfd. Returns its counter, which is the number of writes since the last read; 0: none. */
uint64_t fds_flag_take(int fd);

#endif
