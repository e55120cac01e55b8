/* SPDX-License-Identifier: BSD-2-Clause */
/* wrap.h - between the calls and what decides about them; see fail.h. */
#ifndef TORTURE_WRAP_H
#define TORTURE_WRAP_H

#include "calls.h"
#include "fail.h"

enum {
#define CALL(name, lasting, passing) CALL_##name,
    TORTURE_CALLS(CALL)
#undef CALL
        CALLS
};

/* The errno with which this call from this place is to fail; 0: it is to be made. */
int fail_now(int call, const void *place);

#endif
