/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nofault.c - memory that may be unmapped: copying it by the kernel, and telling it from memory that can't be. See
 * nofault.h.
 */
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "copy.h"
#include "fds.h"
#include "nofault.h"

#define SEGMENTS_MAX 8
#define INTERRUPTIONS_MAX 1000 /* per read, before it counts as failed */

/* ---- Copying -------------------------------------------------------------------------------------------- */

/* Set once the kernel has refused process_vm_readv(), as in a sandbox. */
static _Atomic bool forbidden; /* the kernel's answer does not change: pairs with nothing */

/* Cached process ID; 0: unknown. A forked child resets it (pthread_atfork); if that handler can't be installed,
 * the ID is not cached. Pairs with nothing: all threads compute the same value. */
static _Atomic pid_t self;
static bool forks_are_told;

static void forget_self(void)
{
    atomic_store_explicit(&self, 0, memory_order_relaxed);
}

static void hear_of_forks(void)
{
    forks_are_told = pthread_atfork(NULL, NULL, forget_self) == 0;
}

static pid_t find_self(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pid_t pid = getpid();

    pthread_once(&once, hear_of_forks);
    if (forks_are_told)
        atomic_store_explicit(&self, pid, memory_order_relaxed);
    return pid;
}

static inline pid_t own_pid(void)
{
    pid_t known = atomic_load_explicit(&self, memory_order_relaxed);

    return known != 0 ? known : find_self();
}

static void copy_plainly(const struct iovec *to, const struct iovec *from, size_t total)
{
    size_t to_at = 0, from_at = 0;

    while (total > 0) {
        size_t here = to->iov_len - to_at, there = from->iov_len - from_at;
        size_t bytes = here < there ? here : there;

        copy_near((uint8_t *)to->iov_base + to_at, (const uint8_t *)from->iov_base + from_at, bytes);
        total -= bytes;
        to_at += bytes;
        from_at += bytes;
        if (to_at == to->iov_len) {
            to++;
            to_at = 0;
        }
        if (from_at == from->iov_len) {
            from++;
            from_at = 0;
        }
    }
}

bool nofault_copyv(const struct iovec *to, unsigned tos, const struct iovec *from, unsigned froms, size_t total)
{
    if (!atomic_load_explicit(&forbidden, memory_order_relaxed)) {
        int saved = errno;
        ssize_t copied = process_vm_readv(own_pid(), to, tos, from, froms, 0);
        bool refused = copied < 0 && (errno == EPERM || errno == ENOSYS);

        errno = saved;
        if (!refused)
            return copied == (ssize_t)total;
        atomic_store_explicit(&forbidden, true, memory_order_relaxed);
    }
    copy_plainly(to, from, total);
    return true;
}

/* Remove from the list what a call has filled. */
static void skip_filled(struct iovec **to, unsigned *tos, size_t bytes)
{
    while (*tos > 0 && bytes >= (*to)->iov_len) {
        bytes -= (*to)->iov_len;
        ++*to;
        --*tos;
    }
    if (bytes > 0) {
        (*to)->iov_base = (uint8_t *)(*to)->iov_base + bytes;
        (*to)->iov_len -= bytes;
    }
}

/* A signal may end a call early, or interrupt it before it begins if the file system runs in user space (FUSE).
 * The caller may hold locks, so the number of EINTR results is limited. */
bool nofault_read(int file, struct iovec *to, unsigned tos, uint64_t place, size_t total)
{
    int saved = errno, interruptions = 0;
    ssize_t got = 0;

    while (total > 0) {
        got = preadv(file, to, (int)tos, (off_t)place);
        if (got < 0 && errno == EINTR && interruptions++ < INTERRUPTIONS_MAX)
            continue;
        if (got <= 0)
            break;
        skip_filled(&to, &tos, (size_t)got);
        place += (uint64_t)got;
        total -= (size_t)got;
    }
    errno = saved;
    return total == 0;
}

bool nofault_copy(void *to, const void *from, size_t length)
{
    struct iovec target = {to, length}, source = {(void *)(uintptr_t)from, length};

    return nofault_copyv(&target, 1, &source, 1, length);
}

bool nofault_take(void *to, const void *from, size_t length)
{
    if (!nofault_never(from, length, false))
        return nofault_copy(to, from, length);
    copy_near(to, from, length);
    return true;
}

bool nofault_give(void *to, const void *from, size_t length)
{
    if (!nofault_never(to, length, true))
        return nofault_copy(to, from, length);
    copy_near(to, from, length);
    return true;
}

/* ---- Gathering several elements
 * ------------------------------------------------------------------------------ */

bool gather_end(struct gather *gather)
{
    struct iovec to = {gather->to, gather->bytes};
    bool copied = gather->count == 0 || nofault_copyv(&to, 1, gather->from, gather->count, gather->bytes);

    if (!gather->only_looks)
        gather->to += gather->bytes;
    gather->count = 0;
    gather->bytes = 0;
    return copied;
}

/* If earlier elements are pending, this one is added to them, because each is copied to where the one before it
 * ends. */
bool gather_add(struct gather *gather, const void *from, size_t length, bool lasting)
{
    if (length == 0)
        return true;
    if (gather->count == 0 && (lasting || nofault_never(from, length, false))) {
        copy_near(gather->to, from, length);
        gather->to += length;
        return true;
    }
    gather->from[gather->count++] = (struct iovec){(void *)(uintptr_t)from, length};
    gather->bytes += length;
    return gather->count < GATHER_PIECES || gather_end(gather);
}

bool gather_look(struct gather *gather, const void *from, size_t length)
{
    uintptr_t at = (uintptr_t)from, end = at + length, page = (uintptr_t)sysconf(_SC_PAGESIZE);

    if (length == 0 || nofault_never(from, length, false))
        return true;
    if (end < at)
        return false;
    for (; at < end; at = (at / page + 1) * page) {
        gather->from[gather->count++] = (struct iovec){(void *)at, 1};
        gather->bytes++;
        if (gather->count == GATHER_PIECES && !gather_end(gather))
            return false;
    }
    return true;
}

bool nofault_readable(const void *start, size_t length)
{
    uint8_t bytes[GATHER_PIECES];
    struct gather gather;

    gather_begin(&gather, bytes);
    gather.only_looks = true;
    return gather_look(&gather, start, length) && gather_end(&gather);
}

/* ---- What the kernel knows about memory
 * ---------------------------------------------------------------------- */

/* msync() with MS_ASYNC only checks for holes. */
bool nofault_mapped(const void *start, size_t length)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)start % page;
    int saved = errno;
    bool there;

    if (length > SIZE_MAX - before - page) /* the length rounded up to pages would wrap around */
        return false;
    there = msync((uint8_t *)(uintptr_t)start - before, before + length, MS_ASYNC) == 0 || errno != ENOMEM;

    errno = saved;
    return there;
}

/* ---- Memory that needs no check
 * ------------------------------------------------------------------------------ */

struct range { /* from low to high - 1; empty if low >= high */
    uintptr_t low, high;
};

static bool range_holds(const struct range *range, uintptr_t start, size_t length)
{
    return start >= range->low && start < range->high && length <= range->high - start;
}

/* The executable's own segments, and the part of them that becomes read-only after relocation (RELRO). */
static struct {
    unsigned count;
    struct range read_only[SEGMENTS_MAX], writable[SEGMENTS_MAX], relocated;
    uintptr_t heap; /* initial program break */
} program;

static int note_segments(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    for (int i = 0; i < info->dlpi_phnum && program.count < SEGMENTS_MAX; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t low = (uintptr_t)(info->dlpi_addr + segment->p_vaddr);
        struct range range = {low, low + segment->p_memsz};

        if (segment->p_type == PT_GNU_RELRO)
            program.relocated = range;
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_R))
            continue;
        program.read_only[program.count] = segment->p_flags & PF_W ? (struct range){0, 0} : range;
        program.writable[program.count++] = segment->p_flags & PF_W ? range : (struct range){0, 0};
    }
    return 1; /* stop after the first entry, which is the executable */
}

/* The start of the heap: field 47 of /proc/self/stat. UINTPTR_MAX if unknown: no heap. */
static uintptr_t find_heap(void)
{
    char text[1024], *field;

    fds_read_text("/proc/self/stat", text, sizeof text);
    field = strrchr(text, ')'); /* after field 2, the process name, which may contain any character */
    for (int number = 2; field != NULL && number < 47; number++)
        field = strchr(field + 1, ' ');
    uintptr_t start = field != NULL ? (uintptr_t)strtoull(field + 1, NULL, 10) : 0;

    return start != 0 ? start : UINTPTR_MAX;
}

static void find_program(void)
{
    int saved = errno;

    dl_iterate_phdr(note_segments, NULL);
    program.heap = find_heap();
    uintptr_t end = (uintptr_t)sbrk(0);

    /* Under valgrind the program break is not the kernel's, and the memory in between belongs to other
     * mappings. */
    if (program.heap < end && !nofault_mapped((void *)program.heap, end - program.heap))
        program.heap = UINTPTR_MAX;
    errno = saved;
}

static bool in_program(uintptr_t start, size_t length, bool write)
{
    for (unsigned i = 0; i < program.count; i++)
        if (range_holds(&program.writable[i], start, length))
            return !write || start >= program.relocated.high || start + length <= program.relocated.low;
    for (unsigned i = 0; i < program.count && !write; i++)
        if (range_holds(&program.read_only[i], start, length))
            return true;
    return false;
}

static bool in_heap(uintptr_t start, size_t length)
{
    struct range heap = {program.heap, (uintptr_t)sbrk(0)};

    return range_holds(&heap, start, length);
}

/* The calling thread's stack; empty if unknown. */
static struct range find_stack(void)
{
    struct range stack = {0, 0};
    int saved = errno;
    pthread_attr_t attributes;
    size_t size;
    void *low;

    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &low, &size) == 0)
            stack = (struct range){(uintptr_t)low, (uintptr_t)low + size};
        pthread_attr_destroy(&attributes);
    }
    errno = saved;
    return stack;
}

/* Memory above this frame is used by the callers, so it can't vanish. A coroutine may run on another stack. */
static bool in_stack(uintptr_t start, size_t length)
{
    static _Thread_local struct range stack;
    static _Thread_local bool known;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);

    if (!known) {
        stack = find_stack();
        known = true;
    }
    struct range callers = {here, stack.high};

    return here >= stack.low && here < stack.high && range_holds(&callers, start, length);
}

bool nofault_never(const void *start, size_t length, bool write)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (in_stack((uintptr_t)start, length))
        return true;
    pthread_once(&once, find_program);
    return in_heap((uintptr_t)start, length) || in_program((uintptr_t)start, length, write);
}
