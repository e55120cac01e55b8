/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * every_call.h - calls every public function that can fail, to check that all of them fail alike if the library is not
 * available.
 */
#ifndef CHECK_EVERY_CALL_H
#define CHECK_EVERY_CALL_H

/* Calls each function, blocking and not, with arguments that are also wrong, and expects this errno. Returns how many
 * results differ, and reports these on standard error. */
int every_call_but(int error);

#endif
