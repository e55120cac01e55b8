/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * maps.h - checks in the kernel's map of this process whether a device may use a range of memory.
 *
 * A range whose first and last page are good may contain pages that are not mapped, not readable, read-only, or
 * behind the end of a file. The kernel's map (/proc/self/maps) says for each mapping which rights it has and whether
 * it is private anonymous memory, which stays until this process itself unmaps it. Any process may take away pages of
 * a file or of shared memory by truncating the file. One query for each mapping in the range is enough, whatever its
 * length. No page is brought into memory except the last one of each mapping of a file, since pages behind the end of
 * a file are always the last ones.
 *
 * Kernels before 6.11 provide only the text of the map, which is read up to the end of the range. If /proc is not
 * mounted or no descriptor is free, the first and the last page are probed, and copies of the range must be fault-safe
 * (nofault.h).
 */
#ifndef XS_MAPS_H
#define XS_MAPS_H

#include <stdbool.h>
#include <stddef.h>

/* Checks that `length` bytes, at least one, can be read or, if `write`, written. Returns 0 or an errno: EFAULT if not
 * all of them can, ENOMEM if the kernel has no memory for a page. `nofault` may be NULL; otherwise *nofault is set to
 * true if copies must be fault-safe, because a page may become unmapped, or because EXS_CHECK is set. */
int maps_check(const void *start, size_t length, bool write, bool *nofault);

/* Checks the page that contains this byte. Returns 0 or an errno as above. */
int maps_probe_page(const void *at, bool write);

#endif
