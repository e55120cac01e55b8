/* SPDX-License-Identifier: BSD-2-Clause */
/* domain.c - the protection domain of a connection, and its bounce buffers. See domain.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "domain.h"
#include "memory.h"

#define CHUNK_BUFFERS 32 /* bounce buffers registered together */

struct bounce_chunk {
    SLIST_ENTRY(bounce_chunk) link;
    uint8_t *data;
    struct ibv_mr *mr;
    struct bounce buffers[CHUNK_BUFFERS];
};

int xs_domain_open(struct domain *domain, struct nic *nic)
{
    *domain = (struct domain){.nic = nic, .pd = nic->device->alloc_pd(nic->context)};
    return domain->pd != NULL ? 0 : -1;
}

void xs_domain_close(struct domain *domain)
{
    const struct device *device = domain->nic->device;
    struct bounce_chunk *chunk;

    xs_memory_forget(domain);
    while ((chunk = SLIST_FIRST(&domain->chunks)) != NULL) {
        SLIST_REMOVE_HEAD(&domain->chunks, link);
        device->dereg_mr(chunk->mr);
        munmap(chunk->data, (size_t)CHUNK_BUFFERS * BOUNCE_SIZE);
        free(chunk);
    }
    device->dealloc_pd(domain->pd);
}

/* ---- Bounce buffers --------------------------------------------------------------------------------- */

static int more_bounces(struct domain *domain)
{
    struct bounce_chunk *chunk = calloc(1, sizeof(*chunk));
    size_t size = (size_t)CHUNK_BUFFERS * BOUNCE_SIZE;

    if (chunk == NULL)
        return -1;
    chunk->data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk->data == MAP_FAILED) {
        errno = ENOMEM; /* also for EAGAIN: mlockall() is in effect, and RLIMIT_MEMLOCK is exceeded */
        goto free_chunk;
    }
    chunk->mr = xs_register(domain, chunk->data, size, IBV_ACCESS_LOCAL_WRITE);
    if (chunk->mr == NULL)
        goto unmap;
    for (int i = 0; i < CHUNK_BUFFERS; i++)
        xs_bounce_add(domain, &chunk->buffers[i], chunk->data + (size_t)i * BOUNCE_SIZE, chunk->mr);
    SLIST_INSERT_HEAD(&domain->chunks, chunk, link);
    return 0;
unmap:
    munmap(chunk->data, size);
free_chunk:
    free(chunk);
    return -1;
}

void xs_bounce_add(struct domain *domain, struct bounce *bounce, uint8_t *data, struct ibv_mr *mr)
{
    bounce->data = data;
    bounce->mr = mr;
    SLIST_INSERT_HEAD(&domain->bounces, bounce, link);
}

struct bounce *xs_bounce_get(struct domain *domain)
{
    if (SLIST_EMPTY(&domain->bounces) && more_bounces(domain) < 0)
        return NULL;
    struct bounce *bounce = SLIST_FIRST(&domain->bounces);

    SLIST_REMOVE_HEAD(&domain->bounces, link);
    return bounce;
}

void xs_bounce_put(struct domain *domain, struct bounce *bounce)
{
    SLIST_INSERT_HEAD(&domain->bounces, bounce, link);
}
