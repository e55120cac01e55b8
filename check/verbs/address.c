/* SPDX-License-Identifier: BSD-2-Clause */
/* address.c - finds an address of the device under test by its GIDs. */
#include "address.h"

#include <errno.h>
#include <string.h>

union address own_address(struct rig *r)
{
    union address own = {.room.ss_family = AF_UNSPEC};
    struct ibv_gid_entry entry;

    for (int i = 0; i < r->port.gid_tbl_len; i++) {
        struct in6_addr gid;

        if (ibv_query_gid_ex(r->context, 1, (uint32_t)i, &entry, 0) != 0)
            continue;
        memcpy(&gid, &entry.gid, sizeof gid);
        if (IN6_IS_ADDR_V4MAPPED(&gid)) {
            own = (union address){.room.ss_family = AF_INET};
            memcpy(&own.ipv4.sin_addr, gid.s6_addr + 12, 4);
        } else if (!IN6_IS_ADDR_LINKLOCAL(&gid)) {
            own = (union address){.room.ss_family = AF_INET6};
            own.ipv6.sin6_addr = gid;
        }
    }
    if (own.any.sa_family == AF_UNSPEC)
        give_up("GID", ENOENT);
    return own;
}
