/* SPDX-License-Identifier: BSD-2-Clause */
/* every_call.h - every public call that can fail, for what all of them have to answer when the library is not
 * there. */
#ifndef CHECK_EVERY_CALL_H
#define CHECK_EVERY_CALL_H

/* Make each, blocking and not, with arguments that are wrong as well: this errno comes first. How many answered
 * otherwise, which standard error tells. */
int every_call_but(int error);

#endif
