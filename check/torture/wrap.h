/* SPDX-License-Identifier: BSD-2-Clause */
/* wrap.h - between the replaced functions and fail.c, which decides whether they fail; see fail.h. */
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

/* Returns the errno with which this call from this place must fail, or 0. */
int fail_now(int call, const void *place);

#endif
