/* SPDX-License-Identifier: BSD-2-Clause */
/* Files for exs_sendfile: checking the vector, and windows over its elements. See file.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>
#include "fds.h"
#include "file.h"
#include "fragile.h"
#include "library.h"
#include "memory.h"
#include "op.h"

#define WINDOW_SIZE (UINT64_C(4) << 20) /* bytes */
#define WINDOWS_MAX 3                   /* of one operation at a time */

struct element {
    int fd;                /* -1: memory */
    uint64_t offset;       /* bytes, in the file */
    uint64_t length;       /* bytes */
    uint8_t *base;         /* memory */
    struct memory *memory; /* the user's region */
};

struct window {
    TAILQ_ENTRY(window) link;
    const struct element *element;
    uint8_t *data;
    uint64_t length, posted, acked; /* bytes */
    uint64_t end;                   /* bytes: where it ends in the file */
    void *map;
    size_t map_size;
    struct ibv_mr *mr;
    bool own_mr;
    struct bounce *bounce; /* a copy, where that costs less than mapping */
};

struct files {
    int count, current; /* elements; the one that the next window is over */
    uint64_t position;  /* bytes, from the current element's start on, that have had a window */
    TAILQ_HEAD(window_list, window) windows;
    int window_count;
    struct element elements[];
};

/* ---- Checking -------------------------------------------------------------------------------------- */

static int fails(int error)
{
    errno = error;
    return -1;
}

static int open_path(const char *path)
{
    int fd;

    if (path == NULL || *path == 0)
        return xs_invalid("exs_path is %s", path == NULL ? "NULL" : "empty");
    do { /* a file system that works in a process waits for it, and a signal ends that */
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return fails(errno == ENXIO ? ENODEV : errno); /* a local socket's name */
    return fds_own(fd);
}

/* Only what can be mapped. */
static int check_kind(const exs_xferfile_t *from, mode_t mode)
{
    if (S_ISREG(mode))
        return 0;
    return fails(S_ISDIR(mode) && from->exs_xfv_type == EXS_PATHVEC ? EISDIR : ENODEV);
}

/* The range of a file that is sent, into an element whose descriptor is open. */
static int check_range(struct element *element, const exs_xferfile_t *from, off_t offset, size_t length,
                       int flags)
{
    struct stat status;

    /* It is open: where this fails, the file system can't say. */
    if (fstat(element->fd, &status) < 0 || check_kind(from, status.st_mode) < 0)
        return -1;
    uint64_t size = (uint64_t)status.st_size;

    if (offset < 0 || (uint64_t)offset > size || length > size - (uint64_t)offset)
        return xs_invalid("exs_offset %lld with exs_length %zu is not within the file's %llu bytes",
                          (long long)offset, length, (unsigned long long)size);
    element->offset = (uint64_t)offset;
    element->length = length != 0 ? length : size - (uint64_t)offset;
    if (element->length > EXS_FILE_MAX && !(flags & EXS_BIGFILE))
        return fails(EFBIG);
    return 0;
}

/* Fill in one element; *shut: its EXS_SHUT_WR. */
static int check_element(struct element *element, const exs_xferfile_t *from, int flags, bool *shut)
{
    const union exs_xfvec *v = &from->exs_xfv;
    int element_flags = 0, result = -1;

    element->fd = -1;
    switch (from->exs_xfv_type) {
    case EXS_FDVEC:
        element_flags = v->exs_fdv.exs_flags;
        element->fd = fds_own(fcntl(v->exs_fdv.exs_fildes, F_DUPFD_CLOEXEC, 0));
        if (element->fd < 0)
            return errno == EBADF ? xs_invalid("exs_fildes %d is not open", v->exs_fdv.exs_fildes) : -1;
        result = check_range(element, from, v->exs_fdv.exs_offset, v->exs_fdv.exs_length, flags);
        break;
    case EXS_PATHVEC:
        element_flags = v->exs_pathv.exs_flags;
        element->fd = open_path(v->exs_pathv.exs_path);
        if (element->fd < 0)
            return -1;
        result = check_range(element, from, v->exs_pathv.exs_offset, v->exs_pathv.exs_length, flags);
        break;
    case EXS_IOVEC:
        element_flags = v->exs_iov.exs_flags;
        element->base = v->exs_iov.exs_base;
        element->length = v->exs_iov.exs_length;
        if (element->base == NULL || element->length > EXS_MSG_MAX)
            return element->base == NULL ? xs_invalid("exs_base is NULL") : xs_too_long(element->length);
        result = xs_memory_use(v->exs_iov.exs_mhandle, element->base, element->length, EXS_MRF_SEND_DISABLE,
                               &element->memory);
        break;
    default:
        return xs_invalid("exs_xfv_type %d is none", from->exs_xfv_type);
    }
    if (result == 0 && (element_flags & ~EXS_SHUT_WR))
        return xs_bad_flags(element_flags, EXS_SHUT_WR);
    *shut = (element_flags & EXS_SHUT_WR) != 0;
    return result;
}

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
        if (*last) { /* nothing can be sent behind the end */
            xs_invalid("element %d of sendvec comes after EXS_SHUT_WR", i);
            goto fail;
        }
        if (check_element(&files->elements[i], &vector[i], flags, last) < 0)
            goto fail;
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
    for (int i = 0; i < files->count; i++) {
        if (files->elements[i].fd >= 0)
            fds_close(files->elements[i].fd);
        if (files->elements[i].memory != NULL)
            xs_memory_unuse(files->elements[i].memory);
    }
    free(files);
    errno = saved;
}

/* ---- Windows ---------------------------------------------------------------------------------------- */

static bool truncated(const struct window *window)
{
    struct stat status;

    return window->element->fd >= 0 &&
           (fstat(window->element->fd, &status) < 0 || (uint64_t)status.st_size < window->end);
}

/* Map the window's piece of a file; mmap wants an offset at a page. -1 and errno. */
static int map_file(struct window *window, const struct element *element, uint64_t offset, int sharing)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t start = offset / page * page;

    window->map_size = (size_t)(offset - start + window->length);
    window->map = mmap(NULL, window->map_size, PROT_READ, sharing, element->fd, (off_t)start);
    if (window->map == MAP_FAILED) {
        window->map = NULL;
        errno = errno == EAGAIN ? ENOMEM : errno; /* it would have to be locked, and the limit forbids that */
        return -1;
    }
    window->data = (uint8_t *)window->map + (offset - start);
    window->end = offset + window->length;
    return 0;
}

/* Map and register. Kernels before 6.2 register every page as if it were written, which a shared mapping of a
 * file refuses and a private one answers with a copy of the page. -1 and errno. */
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

/* A few bytes are copied: that is cheaper than a mapping and a registration. -1 and errno. */
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

/* So are short pieces of memory that nobody registered, with those behind them that fit in, each from its
 * start. -1 and errno. */
static int copy_memory(struct window *window, const struct files *files, struct domain *domain)
{
    window->bounce = xs_bounce_get(domain);
    if (window->bounce == NULL)
        return -1;
    window->data = window->bounce->data;
    window->mr = window->bounce->mr;
    window->length = 0;
    for (int i = files->current; i < files->count && files->elements[i].fd < 0; i++) {
        const struct element *element = &files->elements[i];
        uint64_t bytes = element->length;

        if (bytes > BOUNCE_SIZE - window->length)
            break;
        if (bytes > 0 && !fragile_take(window->data + window->length, element->base, bytes)) {
            errno = EACCES; /* as if it could not be registered */
            return -1;
        }
        window->length += bytes;
    }
    return 0;
}

static int fill_window(struct window *window, const struct files *files, struct domain *domain)
{
    const struct element *element = &files->elements[files->current];
    uint64_t position = files->position;

    window->element = element;
    window->length = element->length - position;
    if (element->fd < 0) {
        window->data = element->base + position;
        if (element->memory != NULL) {
            window->mr = xs_memory_mr(element->memory, domain);
            return window->mr != NULL ? 0 : -1;
        }
        if (window->length <= BOUNCE_SIZE)
            return copy_memory(window, files, domain);
    } else if (window->length <= BOUNCE_SIZE) {
        return copy_file(window, element, element->offset + position, domain);
    } else {
        if (window->length > WINDOW_SIZE)
            window->length = WINDOW_SIZE;
        return register_file(window, element, element->offset + position, domain);
    }
    window->mr = xs_register(domain, window->data, window->length, 0);
    window->own_mr = window->mr != NULL;
    return window->own_mr ? 0 : -1;
}

/* Put a window over the next piece. NULL and errno. */
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

int xs_files_span(struct files *files, struct domain *domain, uint8_t **addr, uint64_t *length, uint32_t *lkey,
                  struct window **window, int *error)
{
    struct window *w = TAILQ_LAST(&files->windows, window_list);

    if (w == NULL || w->posted == w->length) {
        if (files->window_count == WINDOWS_MAX)
            return 0;
        w = open_window(files, domain);
        if (w == NULL) {
            *error = errno == EACCES ? EIO : errno; /* pages that are not there any more can't be registered */
            return -1;
        }
    }
    if (truncated(w)) {
        xs_log("a file became shorter while it was being sent");
        *error = EIO;
        return -1;
    }
    *addr = w->data + w->posted;
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
    int result = truncated(window) ? -1 : 0;

    TAILQ_REMOVE(&files->windows, window, link);
    files->window_count--;
    close_window(window, domain);
    return result;
}
