/* SPDX-License-Identifier: BSD-2-Clause */
/* inside.h - EXS's connections from inside, for tests that look at what no call tells. */
#ifndef CHECK_INSIDE_H
#define CHECK_INSIDE_H

#include "check/support/support.h"
#include "core/conn/conn.h"
#include "soft/service/service.h"

struct conn *conn_of(int socket);
/* Its device's, on the embedded one; not when it is closed. */
struct service_member *service_of(int socket);
/* From now on as on a device that takes no longer requests than this. */
void cut_requests(const struct pair *pair, uint32_t bytes);

#endif
