/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * preload.h - the library that exs-soft-run puts in front of rdma-core: programs written for that find the
 * embedded device beside what rdma-core has.
 *
 * It defines the symbols of libibverbs and librdmacm. Objects tell whose they are by their context: calls on
 * the embedded device's go to core/soft, all others to rdma-core. Connections by librdmacm's calls are the
 * embedded device's throughout, since an identifier belongs to no device when it is made.
 */
#ifndef PRELOAD_H
#define PRELOAD_H

#include <stdatomic.h>
#include <infiniband/verbs.h>
#include "core/device.h"
#include "core/soft/cm/cm.h"
#include "core/soft/service/home.h"
#include "core/soft/verbs/verbs.h"

/* What the headers make macros of: here the functions behind them are meant. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define EXPORT __attribute__((visibility("default")))

/* Rdma-core's own function of that name; NULL where it isn't installed or has none. */
void *preload_find(const char *name);
/* The same, but ends the process with a message rather than to return NULL. */
void *preload_real(const char *name);

/* Rdma-core's function, with its type; looked up once. */
#define real(name)                                                                                             \
    ({                                                                                                         \
        static _Atomic(void *) found_;                                                                         \
        if (atomic_load_explicit(&found_, memory_order_relaxed) == NULL)                                       \
            atomic_store_explicit(&found_, preload_real(#name), memory_order_relaxed);                         \
        (__typeof__(name) *)atomic_load_explicit(&found_, memory_order_relaxed);                               \
    })

/* A call on the embedded device's object, or on another's. */
#define dispatch(context, ours, name, ...)                                                                     \
    (soft_is_ours(context) ? (ours)(__VA_ARGS__) : real(name)(__VA_ARGS__))

#endif
