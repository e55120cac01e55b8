/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * preload.h - the library that exs-soft-run preloads, so that programs written for rdma-core find the software device
 * in addition to rdma-core's devices.
 *
 * It defines the symbols of libibverbs and librdmacm. The context of an object decides: calls on objects of the
 * software device go to soft, all others to rdma-core. librdmacm's calls always use the software device, because
 * an identifier belongs to no device when it is created.
 */
#ifndef PRELOAD_H
#define PRELOAD_H

#include <stdatomic.h>
#include <infiniband/verbs.h>
#include "core/device/device.h"
#include "soft/cm/cm.h"        /* export */
#include "soft/service/home.h" /* export */
#include "soft/verbs/verbs.h"  /* export */

/* The headers define these as macros; this library needs the functions. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define EXPORT __attribute__((visibility("default")))

/* Returns rdma-core's function of that name; NULL if rdma-core is not installed or has no such function. */
void *preload_find(const char *name);
/* Like preload_find(), but prints a message and aborts instead of returning NULL. */
void *preload_real(const char *name);

/* Evaluates to rdma-core's function of this name (or the C library's), with its type. It is looked up once. Relaxed:
 * every thread finds the same address, so the atomic pairs with nothing. */
#define real(name)                                                                                             \
    ({                                                                                                         \
        static _Atomic(void *) found_;                                                                         \
        if (atomic_load_explicit(&found_, memory_order_relaxed) == NULL)                                       \
            atomic_store_explicit(&found_, preload_real(#name), memory_order_relaxed);                         \
        (__typeof__(name) *)atomic_load_explicit(&found_, memory_order_relaxed);                               \
    })

/* Calls `ours` if the context is the software device's, and rdma-core's function otherwise. */
#define dispatch(context, ours, name, ...)                                                                     \
    (soft_is_ours(context) ? (ours)(__VA_ARGS__) : real(name)(__VA_ARGS__))

#endif
