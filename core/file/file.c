/* SPDX-License-Identifier: BSD-2-Clause */
/* file.c - the source of the bytes of exs_sendfile: windows over the elements of its vector. See file.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/base/nofault.h"
#include "core/base/log.h"
#include "core/base/settings.h"
#include "core/memory/memory.h"
#include "core/queue/op.h"
#include "element.h"
#include "file.h"

#define WINDOW_SIZE (UINT64_C(4) << 20) /* bytes */
#define WINDOWS_MAX 3                   /* windows of one operation at a time */
#define COPIED_OF_REGION UINT64_C(1024) /* bytes: a longer element of registered memory is never copied */

struct window {
    TAILQ_ENTRY(window) link;
    const struct element *element;
    uint8_t *data;                  /* NULL: the device reads from the file itself */
    uint64_t length, posted, acked; /* bytes */
    uint64_t end;                   /* offset in the file at which the window ends, bytes */
    void *map;
    size_t map_size;
    struct ibv_mr *mr;
    bool own_mr;
    struct bounce *bounce; /* the copy, if copying is cheaper than mapping */
};

struct files {
    int count, current; /* number of elements; the element of the next window */
    uint64_t position;  /* bytes, from the start of the current element, that have had a window */
    TAILQ_HEAD(window_list, window) windows;
    int window_count;
    struct element elements[];
};

/* ---- Elements -------------------------------------------------------------------------------------- */

static struct files *new_files(int count)
{
    struct files *files = calloc(1, sizeof(*files) + (size_t)count * sizeof(files->elements[0]));

    if (files == NULL)
        return NULL;
    TAILQ_INIT(&files->windows);
    for (int i = 0; i < count; i++)
        files->elements[i].fd = -1;
    files->count = count;
    return files;
}

struct files *xs_files_new(const exs_xferfile_t *vector, int count, int flags, uint64_t *length, bool *last)
{
    struct files *files = new_files(count);

    if (files == NULL)
        return NULL;
    *length = 0;
    *last = false;
    for (int i = 0; i < count; i++) {
        if (*last) { /* nothing can be sent after the end of the stream */
            xs_invalid("element %d of sendvec comes after EXS_SHUT_WR", i);
            goto fail;
        }
        if (xs_element_open(&files->elements[i], &vector[i], TO_SEND, flags) < 0)
            goto fail;
        *last = (files->elements[i].flags & EXS_SHUT_WR) != 0;
        if (files->elements[i].length > (uint64_t)INT64_MAX - *length) {
            xs_invalid("the elements have more bytes than fit in an off_t");
            goto fail;
        }
        *length += files->elements[i].length;
    }
    return files;
fail:
    xs_files_free(files, NULL);
    return NULL;
}

struct files *xs_files_of_memory(const struct piece *pieces, int count)
{
    struct files *files = new_files(count);

    for (int i = 0; files != NULL && i < count; i++) {
        files->elements[i].base = pieces[i].base;
        files->elements[i].length = pieces[i].length;
        files->elements[i].memory = pieces[i].memory;
    }
    return files;
}

static void close_window(struct window *window, struct domain *domain)
{
    if (window->own_mr)
        domain->nic->device->dereg_mr(window->mr);
    if (window->map != NULL)
        munmap(window->map, window->map_size);
    if (window->bounce != NULL)
        xs_bounce_put(domain, window->bounce);
    free(window);
}

void xs_files_free(struct files *files, struct domain *domain)
{
    int saved = errno;
    struct window *window;

    while ((window = TAILQ_FIRST(&files->windows)) != NULL) {
        TAILQ_REMOVE(&files->windows, window, link);
        close_window(window, domain);
    }
    for (int i = 0; i < files->count; i++)
        xs_element_close(&files->elements[i]);
    free(files);
    errno = saved;
}

/* ---- Windows ---------------------------------------------------------------------------------------- */

static bool is_truncated(const struct window *window)
{
    struct stat status;

    return window->element->fd >= 0 &&
           (fstat(window->element->fd, &status) < 0 || (uint64_t)status.st_size < window->end);
}

/* Map the window's part of a file, from the start of a page, as mmap() requires. -1 and errno: ENOMEM, EIO. */
static int map_file(struct window *window, const struct element *element, uint64_t offset, int sharing)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t start = offset / page * page;

    window->map_size = (size_t)(offset - start + window->length);
    window->map = mmap(NULL, window->map_size, PROT_READ, sharing, element->fd, (off_t)start);
    if (window->map == MAP_FAILED) {
        window->map = NULL;
        /* EAGAIN: mlockall() is in effect, and RLIMIT_MEMLOCK is exceeded. Other errors concern the
         * descriptor. */
        errno = errno == EAGAIN || errno == ENOMEM ? ENOMEM : EIO;
        return -1;
    }
    window->data = (uint8_t *)window->map + (offset - start);
    window->end = offset + window->length;
    return 0;
}

/* Map and register. Kernels before 6.2 pin every page for writing: that fails for a shared read-only mapping of
 * a file, and copies the pages of a private one. -1 and errno. */
static int register_file(struct window *window, const struct element *element, uint64_t offset,
                         struct domain *domain)
{
    if (!domain->nic->copies_files) {
        if (map_file(window, element, offset, MAP_SHARED) < 0)
            return -1;
        window->mr = xs_register(domain, window->data, window->length, 0);
        if (window->mr != NULL || errno != EACCES)
            goto out;
        munmap(window->map, window->map_size);
    }
    if (map_file(window, element, offset, MAP_PRIVATE) < 0)
        return -1;
    window->mr = xs_register(domain, window->data, window->length, 0);
    domain->nic->copies_files = window->mr != NULL;
out:
    window->own_mr = window->mr != NULL;
    return window->own_mr ? 0 : -1;
}

/* Let the device read the file itself. -1 and errno: it can't. */
static int give_file(struct window *window, const struct element *element, uint64_t offset,
                     struct domain *domain)
{
    const struct device *device = domain->nic->device;

    if (device->reg_file == NULL || !element->is_readable || settings()->map_always) {
        errno = EOPNOTSUPP;
        return -1;
    }
    window->mr = device->reg_file(domain->pd, element->fd, offset, window->length);
    window->own_mr = window->mr != NULL;
    window->end = offset + window->length;
    return window->own_mr ? 0 : -1;
}

/* Copy a few bytes, which is cheaper than to map and register them. -1 and errno. */
static int copy_file(struct window *window, const struct element *element, uint64_t offset,
                     struct domain *domain)
{
    window->bounce = xs_bounce_get(domain);
    if (window->bounce == NULL)
        return -1;
    ssize_t got;

    do {
        got = pread(element->fd, window->bounce->data, window->length, (off_t)offset);
    } while (got < 0 && errno == EINTR);
    if (got < 0 || (uint64_t)got != window->length) {
        errno = EIO;
        return -1;
    }
    window->data = window->bounce->data;
    window->mr = window->bounce->mr;
    window->end = offset + window->length;
    return 0;
}

/* Is the element copied together with its neighbours? Unregistered memory is, if it fits into the bounce
 * buffer; registered memory, if a copy costs less than a separate request. */
static bool is_short(const struct element *element)
{
    return element->fd < 0 && element->length <= (element->memory != NULL ? COPIED_OF_REGION : BOUNCE_SIZE);
}

static bool has_short_neighbour(const struct files *files)
{
    return files->current + 1 < files->count && is_short(&files->elements[files->current]) &&
           is_short(&files->elements[files->current + 1]);
}

/* Gather short elements of memory, from the current one on, into a bounce buffer, as many as fit. -1 and
 * errno. */
static int copy_memory(struct window *window, const struct files *files, struct domain *domain)
{
    struct gather gather;
    bool copied = true;

    window->bounce = xs_bounce_get(domain);
    if (window->bounce == NULL)
        return -1;
    window->data = window->bounce->data;
    window->mr = window->bounce->mr;
    window->length = 0;
    gather_begin(&gather, window->data);
    for (int i = files->current; i < files->count && is_short(&files->elements[i]) && copied; i++) {
        const struct element *element = &files->elements[i];

        if (element->length > BOUNCE_SIZE - window->length)
            break;
        copied = gather_add(&gather, element->base, element->length, xs_memory_lasts(element->memory));
        window->length += element->length;
    }
    if (copied && gather_end(&gather))
        return 0;
    errno = EACCES; /* the same errno as for memory that can't be registered */
    return -1;
}

static int fill_window(struct window *window, const struct files *files, struct domain *domain)
{
    const struct element *element = &files->elements[files->current];
    uint64_t position = files->position;

    window->element = element;
    window->length = element->length - position;
    if (element->fd < 0) {
        window->data = element->base + position;
        if (element->memory != NULL && !has_short_neighbour(files)) {
            window->mr = xs_memory_mr(element->memory, domain, MEMORY_LOCAL);
            return window->mr != NULL ? 0 : -1;
        }
        if (window->length <= BOUNCE_SIZE)
            return copy_memory(window, files, domain);
    } else if (window->length <= BOUNCE_SIZE && element->is_readable) {
        return copy_file(window, element, element->offset + position, domain);
    } else {
        if (window->length > WINDOW_SIZE)
            window->length = WINDOW_SIZE;
        if (give_file(window, element, element->offset + position, domain) == 0)
            return 0;
        return register_file(window, element, element->offset + position, domain);
    }
    window->mr = xs_register(domain, window->data, window->length, 0);
    window->own_mr = window->mr != NULL;
    return window->own_mr ? 0 : -1;
}

/* Open a window over the next bytes. NULL and errno. */
static struct window *open_window(struct files *files, struct domain *domain)
{
    while (files->current < files->count - 1 && files->position >= files->elements[files->current].length) {
        files->position -= files->elements[files->current].length;
        files->current++;
    }
    struct window *window = calloc(1, sizeof(*window));

    if (window == NULL)
        return NULL;
    if (fill_window(window, files, domain) < 0) {
        int saved = errno;

        close_window(window, domain);
        errno = saved;
        return NULL;
    }
    files->position += window->length;
    TAILQ_INSERT_TAIL(&files->windows, window, link);
    files->window_count++;
    return window;
}

int xs_files_span(struct files *files, struct domain *domain, uint64_t *addr, uint64_t *length, uint32_t *lkey,
                  struct window **window, int *error)
{
    struct window *w = TAILQ_LAST(&files->windows, window_list);

    if (w == NULL || w->posted == w->length) {
        if (files->window_count == WINDOWS_MAX && files->elements[files->current].fd >= 0)
            return 0;
        w = open_window(files, domain);
        if (w == NULL) {
            *error = errno == EACCES ? EIO : errno; /* a page that is gone can't be registered */
            return -1;
        }
    }
    if (is_truncated(w)) {
        xs_log("a file became shorter while it was being sent");
        *error = EIO;
        return -1;
    }
    *addr = (uintptr_t)w->data + w->posted;
    *length = w->length - w->posted;
    *lkey = w->mr->lkey;
    *window = w;
    return 1;
}

void xs_window_posted(struct window *window, uint64_t bytes)
{
    window->posted += bytes;
}

int xs_window_acked(struct files *files, struct window *window, uint64_t bytes, struct domain *domain)
{
    window->acked += bytes;
    if (window->acked < window->length)
        return 0;
    int result = is_truncated(window) ? -1 : 0;

    TAILQ_REMOVE(&files->windows, window, link);
    files->window_count--;
    close_window(window, domain);
    return result;
}
