/* SPDX-License-Identifier: BSD-2-Clause */
/* preload.c - finds rdma-core's functions; code that runs when the library is loaded and when its process forks. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/fds.h"
#include "soft/lock.h"
#include "soft/soft.h"
#include "preload.h"

/* Looks a function up in a library that the program itself may not be linked to, but only a plug-in that it loads. */
static void *find_in(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);

    return handle == NULL ? NULL : dlsym(handle, name);
}

void *preload_find(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    if (found == NULL)
        found = find_in(strncmp(name, "rdma_", 5) == 0 ? "librdmacm.so.1" : "libibverbs.so.1", name);
    return found;
}

void *preload_real(const char *name)
{
    void *found = preload_find(name);

    if (found != NULL)
        return found;
    fprintf(
        stderr,
        "exs-soft-run: this host's rdma-core has no %s, which the program calls on a device other than soft0\n",
        name);
    abort();
}

/* In the child of a fork, as EXS does: closes the copies of the device's descriptors, so that peers notice when the
 * parent dies. The child may open the device again. */
static void handle_fork_in_child(void)
{
    fds_after_fork_in_child();
    soft_forked();
}

__attribute__((constructor)) static void init_preload(void)
{
    soft_share_context();
    soft_defer_cancellation();
    pthread_atfork(fds_before_fork, fds_after_fork, handle_fork_in_child);
}
