/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * turn_out.h - closing connections to sockets that have a name: anybody may come there.
 *
 * A stranger can put descriptors of his into the queue of a connection that nobody has read. To close it closes
 * them, too, and of a TCP socket that lingers, or of a file in a file system of his, that takes as long as he
 * likes. So it is done in a thread that has nothing else to do.
 */
#ifndef SOFT_TURN_OUT_H
#define SOFT_TURN_OUT_H

#include <stdbool.h>

/* Few are being closed at present. Else let nobody in. */
bool turn_out_has_room(void);
/* Close a connection; where there is no memory for that, here. */
void turn_out(int guest);

/* At a door like this nobody is to bring descriptors. Linux sees to that since 6.16; where it does, who comes
 * there is closed at once, and those who linger at other doors keep nobody from it. */
void turn_out_guard(int door);
bool turn_out_guard_has_room(void);
void turn_out_guarded(int guest);

/* Close a socket that listens, with those who wait at it. Its name is free then. */
void turn_out_door(int door);
/* In a forked child, which has no such thread. */
void turn_out_forget(void);

#endif
