/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fragile.h - copying to and from memory that may vanish.
 *
 * Bytes of a file that is mapped, or of shared memory, can be taken away by anybody who may truncate the file;
 * a buffer that nobody registered may never have been there. Touching such memory is SIGBUS or SIGSEGV, in the
 * application's thread or, worse, in the device's own. So it is the kernel who touches it: process_vm_readv of
 * ourselves copies, and says EFAULT where a page is not there.
 *
 * Why not a handler of SIGBUS and SIGSEGV: there is one for a whole process, and it belongs to the program, its
 * runtime, its sanitizer or its crash reporter; whoever installs his later takes ours away. Why not ask whether
 * the pages are there, and then copy: they may go between.
 *
 * Where a file is at hand itself (fragile_read), nothing need be mapped, and the same holds: what is not there
 * is not read.
 *
 * Such a copy costs a system call, about a microsecond, so memory that can't vanish is copied as ever. What was
 * registered is checked once, against the kernel's map of the process (maps.h). What was not registered must not
 * cost even that: the caller's stack, the heap below the break and the program's own image are known without asking
 * (fragile_never), and all else counts as fragile.
 *
 * A real device, the kernel's rxe included, pins the pages of what is registered, and they stay, whatever
 * becomes of the file: nothing is guarded there, nor could it be. What EXS itself copies is guarded on every
 * device. Where a sandbox forbids process_vm_readv, all is copied as if it could not vanish.
 */
#ifndef XS_FRAGILE_H
#define XS_FRAGILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Is it mapped, without a hole? */
bool fragile_mapped(const void *start, size_t length);

/* Is it known, without asking the kernel, that these bytes are there and stay? */
bool fragile_never(const void *start, size_t length, bool write);

/* Copy between memory either of which may have gone. False: some of it has; some bytes may have been copied. */
bool fragile_copy(void *to, const void *from, size_t length);
/* The same of `total` bytes on both sides. */
bool fragile_copyv(const struct iovec *to, unsigned tos, const struct iovec *from, unsigned froms,
                   size_t total);

/* `total` bytes of a file from `place` on, all that `to` has room for. False: the file has not got them any
 * more, or can't be read; some bytes may have been. */
bool fragile_read(int file, struct iovec *to, unsigned tos, uint64_t place, size_t total);

/* Copy from and to the application's memory of which nothing is known: as cheap as may be. False as above. */
bool fragile_take(void *to, const void *from, size_t length);
bool fragile_give(void *to, const void *from, size_t length);

/* The same from many pieces, one behind the other, in few calls of the kernel. */
#define GATHER_PIECES 128 /* of one call */

struct gather {
    uint8_t *to;
    bool only_looks; /* nothing is kept, and `to` has GATHER_PIECES bytes */
    unsigned count; /* of the pieces that wait to be copied, and their bytes */
    size_t bytes;
    struct iovec from[GATHER_PIECES];
};

static inline void gather_begin(struct gather *gather, void *to)
{
    gather->to = (uint8_t *)to;
    gather->only_looks = false;
    gather->count = 0;
    gather->bytes = 0;
}

/* One more piece; `lasting`: it is known to stay. False as above. */
bool gather_add(struct gather *gather, const void *from, size_t length, bool lasting);
/* One byte of each page of a piece. False as above. */
bool gather_look(struct gather *gather, const void *from, size_t length);
/* All of them are copied then. False as above. */
bool gather_end(struct gather *gather);

/* Could they be taken? */
bool fragile_readable(const void *start, size_t length);

#endif
