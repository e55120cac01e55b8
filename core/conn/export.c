/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export.c - exported memory: what a connection's peer may read or write by one-sided operations.
 *
 * Each export is a separate registration of exactly these bytes with exactly these rights, so that the device
 * enforces them whatever the peer's token or library says. It ends with exs_munexport or with the connection.
 */
#include <stdlib.h>
#include <string.h>
#include "core/base/log.h"
#include "core/memory/memory.h"
#include "conn.h"

struct export
{ /* owned by its connection */
    LIST_ENTRY(export) link;
    struct memory *memory; /* in use as long as it is exported */
    struct ibv_mr *mr;
    exs_token_t token;
};

static int device_access(int access)
{
    return (access & EXS_REMOTE_READ ? IBV_ACCESS_REMOTE_READ : 0) |
           (access & EXS_REMOTE_WRITE ? IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE : 0);
}

static int forbidden_flags(int access)
{
    return (access & EXS_REMOTE_READ ? EXS_MRF_SEND_DISABLE : 0) |
           (access & EXS_REMOTE_WRITE ? EXS_MRF_RECV_DISABLE : 0);
}

static void end_export(struct conn *conn, struct export *export)
{
    LIST_REMOVE(export, link);
    conn->device->dereg_mr(export->mr);
    xs_memory_unuse(export->memory);
    free(export);
}

void xs_export_end_all(struct conn *conn)
{
    while (!LIST_EMPTY(&conn->onesided.exports))
        end_export(conn, LIST_FIRST(&conn->onesided.exports));
}

int xs_export_add(struct conn *conn, exs_mhandle_t mhandle, void *addr, size_t length, int access,
                  exs_token_t *token)
{
    struct export *export = calloc(1, sizeof(*export));

    if (export == NULL)
        return -1;
    if (xs_memory_use(mhandle, addr, length, forbidden_flags(access), &export->memory) < 0)
        goto free_export;
    export->mr = xs_register(&conn->domain, addr, length, device_access(access));
    if (export->mr == NULL)
        goto unuse;
    const struct token there = {
        .access = (uint32_t)access,
        .recv_ring_rkey = conn->ring.initial_mr->rkey,
        .recv_ring_addr = conn->ring.iova,
        .rkey = export->mr->rkey,
        .addr = (uintptr_t)addr,
        .length = length,
    };

    xs_token_pack(&there, &export->token);
    *token = export->token;
    LIST_INSERT_HEAD(&conn->onesided.exports, export, link);
    return 0;
unuse:
    xs_memory_unuse(export->memory);
free_export:
    free(export);
    return -1;
}

int xs_export_drop(struct conn *conn, const exs_token_t *token)
{
    struct export *export;

    LIST_FOREACH (export, &conn->onesided.exports, link) {
        if (memcmp(&export->token, token, sizeof(*token)) != 0)
            continue;
        end_export(conn, export);
        return 0;
    }
    return xs_invalid("token is not exported on this connection");
}
