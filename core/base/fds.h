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
 * that it opens. Therefore fds_close() closes only what is still the library's file, as far as that can be detected:
 * all eventfds and epolls look the same.
 */
#ifndef XS_FDS_H
#define XS_FDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

/* Records the descriptor that `call` makes as the library's, and returns it. A standard one (0 to 2) is replaced by
 * another: the program may have closed those, and its output must not go to a peer. -1 is returned as it is, and
 * errno kept. No fork happens between the call and the record, so the call must not block. */
#define fds_own(call) (fds_hold_fork(), fds_own_held(call))
/* Like fds_own(), for a descriptor that the application never gets and that the library reads and writes: it gets a
 * high number, from half of RLIMIT_NOFILE on, or from 512 if that is less. A program that closes all numbers, or a
 * wrong one, gets low numbers for the files that it opens next. The library must not write to these, and asking the
 * kernel before each write would cost as much as the write. */
#define fds_own_private(call) (fds_hold_fork(), fds_own_private_held(call))
/* Like fds_own(), for a descriptor that was received in a message (SCM_RIGHTS). Called between fds_hold_fork() and
 * fds_let_fork(). */
int fds_own_passed(int fd);
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
/* Returns a number that identifies the file that a descriptor stands for now; 0: none is open; another value if the
 * kernel can't tell. */
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
/* EPOLL_CTL_ADD, _MOD and _DEL. Return 0, or -1 and errno. */
int fds_watch(int epoll, int fd, struct epoll_event *event);
int fds_rewatch(int epoll, int fd, struct epoll_event *event);
int fds_unwatch(int epoll, int fd);
/* EPOLL_CTL_ADD of a descriptor that the application owns; fds_close() does not remove it. Returns 0, or -1 and
 * errno. */
int fds_watch_foreign(int epoll, int fd, struct epoll_event *event);
/* Closes all recorded descriptors; async-signal-safe, for a forked child. */
void fds_close_all(void);
/* If this is a listening socket, closes the connections to it among the descriptors below `most`. New connections have
 * low numbers until they are recorded. Async-signal-safe, for a forked child. */
void fds_close_accepted(int listener, int most);

/* Reads the beginning of a file in /proc, at most size - 1 bytes, as a string; empty if it can't be read. */
void fds_read_text(const char *name, char *text, size_t size);

/* Returns an eighth of the process's descriptor limit, but at least `least` and at most `most`: how many one kind of
 * peer may make the process hold. */
unsigned fds_share(unsigned least, unsigned most);
/* Returns how many private descriptors may have lower numbers than this private one; a new one gets the lowest free
 * number. */
unsigned fds_rank(int fd);

/* setsockopt() with an int. */
int fds_set_option(int fd, int level, int option, int value);
/* Sets the congestion control of a TCP socket by its name. Returns 0, or -1 and errno. */
int fds_set_congestion(int fd, const char *name);

/* Sets (`up`) or clears an eventfd that is used as a flag: it is readable while it is set. Continues after a signal.
 * Returns false if that was not possible: the counter is 0 already, or at its maximum. */
bool fds_flag(int fd, bool up);
/* Clears the flag and returns how often it was set since it was last cleared; 0: it was not set. */
uint64_t fds_flag_take(int fd);

#endif
