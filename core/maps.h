/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * maps.h - whether memory may be used by a device: checked against the kernel's map of this process.
 *
 * Memory with good pages at both ends may have a page between them that is not mapped, not readable, read-only, or
 * behind the end of a file. The kernel's map (/proc/self/maps) tells for each mapping which rights it has, and whether
 * it is private anonymous memory, which stays until this process itself takes it away; pages of a file and of shared
 * memory any process may take away by truncating the file. One query for each mapping in the range is enough, however
 * long it is, and no page is brought into memory but the last one of each mapping of a file: those behind the end of a
 * file are always the last.
 *
 * Kernels before 6.11 have only the text, which is read up to the end of the range. Where /proc is not mounted, or no
 * descriptor is left, the first and the last page are probed, and the range counts as fragile (fragile.h).
 */
#ifndef XS_MAPS_H
#define XS_MAPS_H

#include <stdbool.h>
#include <stddef.h>

/* May `length` bytes, one at least, be read, or, if `write`, be written? 0; EFAULT: not all of them; ENOMEM: there is
 * no memory for a page. *fragile, which may be NULL: copies have to be fault-safe, since a page may vanish; with
 * EXS_CHECK always. */
int maps_check(const void *start, size_t length, bool write, bool *fragile);

/* Is the page that holds this byte there, and may it be written (or read)? 0 or an errno, as above. */
int maps_probe_page(const void *at, bool write);

#endif
