/* SPDX-License-Identifier: BSD-2-Clause */
/* inside.h - EXS's connections from inside, for tests that look at what no call tells. */
#ifndef CHECK_INSIDE_H
#define CHECK_INSIDE_H

#include "check/support/support.h"
#include "core/conn.h"

struct conn *conn_of(int socket);
/* From now on as on a device that takes no longer requests than this. */
void cut_requests(const struct pair *pair, uint32_t bytes);

#endif
