/* SPDX-License-Identifier: BSD-2-Clause */
/* inside.h - access to the library's connection structs, for tests of state that no function of the API returns. */
#ifndef CHECK_INSIDE_H
#define CHECK_INSIDE_H

#include "check/support/support.h"
#include "core/conn/conn.h"
#include "soft/service/service.h"

struct conn *conn_of(int socket);
/* The service thread's record of the socket's device (software device only). The socket must be open. */
struct service_member *service_of(int socket);
/* From now on the connection's device takes work requests of at most this length. */
void cut_requests(const struct pair *pair, uint32_t bytes);

#endif
