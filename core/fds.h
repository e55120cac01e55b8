/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fds.h - which descriptors of the process are the library's own.
 *
 * A forked child must not keep them: a peer learns that a process died by its connections being closed, and a
 * copy in a child would hide that. So every descriptor that EXS or the embedded device opens passes through
 * fds_own, and the child closes them all. A fork in another thread waits until a descriptor that is being made has
 * been noted.
 *
 * And what is closed must have left every epoll that it was in. The kernel takes it out by itself only with its
 * last copy, and a child that is just being started (posix_spawn, vfork) has copies until it has become another
 * program: events would come meanwhile for what is closed, and free. So fds_watch remembers, and fds_close sees
 * to it. An epoll and what is in it are guarded by their owner's lock.
 *
 * A program may close what is not its own, by a number that it has from exs_socket or exs_qfd, and get the
 * number again for a file of its own. So nothing is closed here that is not what it was; as far as that can be
 * told, since all eventfds and epolls look the same.
 */
#ifndef XS_FDS_H
#define XS_FDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

/* Remember the descriptor that `call` makes as the library's. Returns it, or, where it is a standard one, another: a
 * program may have those closed, and what it prints all the same must not go to a peer. -1 passes through with errno
 * kept. No fork happens between the call and the note, so the call must not wait. */
#define fds_own(call) (fds_hold_fork(), fds_own_held(call))
/* The same of one that programs are never shown, and that the library reads and writes: it gets a high number. A
 * program that closes all numbers, or one that is not its own, gets low numbers for what it opens next; what the library
 * then writes must not go there, and to ask the kernel before each write would cost as much as the write. */
#define fds_own_private(call) (fds_hold_fork(), fds_own_private_held(call))
/* The same of one that has come in a message, between fds_hold_fork and fds_let_fork. */
int fds_own_passed(int fd);
void fds_hold_fork(void);
void fds_let_fork(void);
int fds_own_held(int fd);         /* only for the macros */
int fds_own_private_held(int fd); /* likewise */
/* The handlers of pthread_atfork; in the child all of the library's descriptors are closed. */
void fds_before_fork(void);
void fds_after_fork(void);
void fds_after_fork_in_child(void);
/* The same of one that somebody else has opened and closes, whose number must stay. */
void fds_note(int fd);
/* Does the number still stand for what fds_own was told of? */
bool fds_is_own(int fd);
/* Tells files apart: what the number stands for now; 0: nothing. Where the kernel can't tell, another number.
 */
uint64_t fds_identity(int fd);
/* Does it stand for that still, as far as can be told? */
bool fds_is(int fd, uint64_t identity);
/* Take out of every epoll that fds_watch put it into, forget, and close; what has taken the number meanwhile
 * stays open (-1, EBADF). */
int fds_close(int fd);
/* The same, but somebody else closes it. */
void fds_disown(int fd);
/* A new epoll, the library's own. -1 and errno. */
int fds_epoll(void);
/* The same of one that programs are never shown. See fds_own_private. */
int fds_epoll_private(void);
/* EPOLL_CTL_ADD, _MOD and _DEL. 0, or -1 and errno. */
int fds_watch(int epoll, int fd, struct epoll_event *event);
int fds_rewatch(int epoll, int fd, struct epoll_event *event);
int fds_unwatch(int epoll, int fd);
/* EPOLL_CTL_ADD of a descriptor that is the program's: nobody takes it out. 0, or -1 and errno. */
int fds_watch_foreign(int epoll, int fd, struct epoll_event *event);
/* Close all of them; async-signal-safe, for the child of a fork. */
void fds_close_all(void);

/* The beginning of a file of /proc, as a string of at most size - 1 characters; empty where that can't be read.
 */
void fds_read_text(const char *name, char *text, size_t size);

/* An eighth of the descriptors that the process may open now, but at least and at most these numbers: how many
 * one kind of peer may make it hold. */
unsigned fds_share(unsigned least, unsigned most);
/* How many private descriptors may have lower numbers than this one, which is private: the lowest free number is the
 * next one's. */
unsigned fds_rank(int fd);

/* setsockopt of an int. */
int fds_set_option(int fd, int level, int option, int value);
/* Of a TCP socket: the congestion control of this name. 0, or -1 and errno. */
int fds_set_congestion(int fd, const char *name);

/* An eventfd as a flag, readable while it is up: put it up, or down. A signal does not keep it from that; false
 * when it was there already and can't go further. */
bool fds_flag(int fd, bool up);
/* Put it down: how often it was put up before. 0: it was down. */
uint64_t fds_flag_take(int fd);

#endif
