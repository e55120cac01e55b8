/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sge.c - scatter/gather lists: finds the memory of a range of a message, and copies to it.
 *
 * A list is checked against its regions each time it is used, and not only when it is posted: a region may be
 * deregistered within a message, and its memory must not be accessed after that. Memory of a registered region may
 * still have vanished, if it belongs to a file: nofault.h.
 */
#include "core/base/copy.h"
#include "core/base/nofault.h"
#include "engine.h"

inline uint64_t soft_sge_length(const struct ibv_sge *sge, int count)
{
    uint64_t length = 0;

    for (int i = 0; i < count; i++)
        length += sge[i].length;
    return length;
}

bool soft_sge_check(struct soft_context *context, struct ibv_pd *pd, const struct ibv_sge *sge, int count,
                    int access)
{
    for (int i = 0; i < count; i++)
        if (sge[i].length > 0 &&
            soft_mr_check(context, pd, sge[i].lkey, sge[i].addr, sge[i].length, access) == NULL)
            return false;
    return true;
}

static bool is_files(const struct soft_mr *nofault)
{
    return nofault != NULL && nofault->is_file;
}

int soft_sge_slice(struct soft_context *context, struct ibv_pd *pd, const struct ibv_sge *sge, int count,
                   uint64_t offset, uint64_t length, int access, struct iovec slice[SOFT_MAX_SGE],
                   const struct soft_mr **nofault)
{
    const struct soft_mr *mr;
    int pieces = 0;

    for (int i = 0; i < count && length > 0; i++) {
        uint64_t take = sge[i].length;

        if (offset >= take) {
            offset -= take;
            continue;
        }
        mr = soft_mr_check(context, pd, sge[i].lkey, sge[i].addr, sge[i].length, access);
        if (mr == NULL)
            return -1;
        if (mr->nofault && !is_files(*nofault))
            *nofault = mr;
        take -= offset;
        if (take > length)
            take = length;
        slice[pieces++] = (struct iovec){soft_mr_at(mr, sge[i].addr + offset), take};
        offset = 0;
        length -= take;
    }
    return length == 0 && (pieces <= 1 || !is_files(*nofault)) ? pieces : -1;
}

static bool scatter_nofault(const struct iovec *to, int count, const void *from)
{
    struct iovec source = {(void *)(uintptr_t)from, 0};

    for (int i = 0; i < count; i++)
        source.iov_len += to[i].iov_len;
    return nofault_copyv(to, (unsigned)count, &source, 1, source.iov_len);
}

/* Separate from the fast path. */
static __attribute__((noinline)) bool place_otherwise(const struct soft_packet *packet, const struct iovec *to,
                                                      int count, bool nofault)
{
    struct soft_target *target = packet->target;

    if (target == NULL)
        return packet->where == SOFT_PAYLOAD_PLACED;
    memcpy(target->memory, to, (size_t)count * sizeof *to);
    target->count = count;
    target->nofault = nofault;
    return true;
}

bool soft_place_payload(const struct soft_packet *packet, const struct iovec *to, int count, bool nofault)
{
    if (packet->target != NULL || packet->where != SOFT_PAYLOAD_HERE)
        return place_otherwise(packet, to, count, nofault);
    return soft_scatter(to, count, packet->payload, nofault);
}

bool soft_target_write(const struct soft_target *target, uint32_t offset, const uint8_t *from, uint32_t length)
{
    for (int i = 0; i < target->count && length > 0; i++) {
        size_t size = target->memory[i].iov_len, take;
        struct iovec to;

        if (offset >= size) {
            offset -= (uint32_t)size;
            continue;
        }
        take = size - offset < length ? size - offset : length;
        to = (struct iovec){(uint8_t *)target->memory[i].iov_base + offset, take};
        if (!soft_scatter(&to, 1, from, target->nofault))
            return false;
        from += take;
        length -= (uint32_t)take;
        offset = 0;
    }
    return true;
}

bool soft_scatter(const struct iovec *to, int count, const void *from, bool nofault)
{
    const uint8_t *at = from;

    if (nofault)
        return scatter_nofault(to, count, from);
    for (int i = 0; i < count; i++) {
        copy_near(to[i].iov_base, at, to[i].iov_len);
        at += to[i].iov_len;
    }
    return true;
}
