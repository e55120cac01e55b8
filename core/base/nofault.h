/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nofault.h - fault-safe copies: copying to and from memory that may be unmapped.
 *
 * Any process that may truncate a file can take away pages of a mapping of it, or of shared memory; and an
 * unregistered buffer may never have been valid. Access to such memory raises SIGBUS or SIGSEGV, in the application's
 * thread or in the device's. Therefore the kernel accesses it: process_vm_readv() with this process's own ID copies the
 * bytes, and fails with EFAULT if a page is missing.
 *
 * A handler for SIGBUS and SIGSEGV is no alternative: a process has only one, which belongs to the program, its
 * runtime, its sanitizer or its crash reporter, and a handler that is installed later replaces it. Nor is checking the
 * pages before the copy, since they may be unmapped in between.
 *
 * If the source is a file, nofault_read() reads it without a mapping, and fails if the file has become shorter.
 *
 * Such a copy costs a system call, about a microsecond, so memory that can't be unmapped by others is copied
 * directly. Registered memory is checked once, against the kernel's map of the process (maps.h). For unregistered
 * memory even one query would be too expensive: the caller's stack, the heap below the break and the program's own
 * image are known without one (nofault_never()), and all other memory is copied fault-safe.
 *
 * A real device, including the kernel's rxe, pins the pages of registered memory, which stay whatever happens to the
 * file; its accesses need no protection. Copies that EXS makes are fault-safe on every device. If a sandbox forbids
 * process_vm_readv(), all memory is copied directly.
 */
#ifndef XS_NOFAULT_H
#define XS_NOFAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Returns true if all of the range is mapped. */
bool nofault_mapped(const void *start, size_t length);

/* Returns true if these bytes are known, without a system call, to be mapped, writable if `write`, and to stay so. */
bool nofault_never(const void *start, size_t length, bool write);

/* Copies between two memory ranges. Returns false if a part of either is unmapped; some bytes may have been copied
 * then. */
bool nofault_copy(void *to, const void *from, size_t length);
/* Like nofault_copy(), for lists of ranges with `total` bytes each. */
bool nofault_copyv(const struct iovec *to, unsigned tos, const struct iovec *from, unsigned froms,
                   size_t total);

/* Reads `total` bytes of a file, from offset `place` on, into the `tos` ranges of `to`, whose sizes must add up to
 * `total`. Changes `to`. Returns false if the file is shorter or can't be read; some bytes may have been read then. */
bool nofault_read(int file, struct iovec *to, unsigned tos, uint64_t place, size_t total);

/* nofault_take() copies from unregistered memory of the application, nofault_give() copies to it: directly if
 * nofault_never() is true for it, else fault-safe. They return false like nofault_copy(). */
bool nofault_take(void *to, const void *from, size_t length);
bool nofault_give(void *to, const void *from, size_t length);

#define GATHER_PIECES 128 /* maximum number of pieces that one system call copies */

/* A copy like that of nofault_take(), from many pieces of memory to consecutive bytes, with few system calls. Owned by
 * the caller. */
struct gather {
    uint8_t *to; /* where the next piece is copied to */
    /* The pieces are only checked, by reading one byte of each page; `to` has GATHER_PIECES bytes and is
     * overwritten. */
    bool only_looks;
    /* The pieces that have not been copied yet: their number, and how many bytes they have together. */
    unsigned count;
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

/* These functions return false like nofault_copy(). */

/* Adds a piece; `lasting`: it is known to stay mapped. */
bool gather_add(struct gather *gather, const void *from, size_t length, bool lasting);
/* Adds one byte of each page of a piece that is only to be checked (`only_looks`). */
bool gather_look(struct gather *gather, const void *from, size_t length);
/* Copies the pieces that have not been copied yet. */
bool gather_end(struct gather *gather);

/* Returns true if the bytes can be read. */
bool nofault_readable(const void *start, size_t length);

#endif
