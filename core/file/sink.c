/* SPDX-License-Identifier: BSD-2-Clause */
/* sink.c - the files that a receive fills. See sink.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/base/log.h"
#include "core/base/fsize_guard.h"
#include "core/memory/memory.h"
#include "core/queue/op.h"
#include "element.h"
#include "grown.h"
#include "sink.h"

#define SINK_WINDOW_SIZE (UINT64_C(4) << 20) /* bytes */
/* The first window of a receive without a length; each later one is as long as all bytes before it. */
#define FIRST_WINDOW_SIZE (UINT64_C(64) << 10)

struct sink_window {
    const struct element *element; /* NULL: there is no window */
    uint64_t start, end;           /* bytes, relative to the element */
    uint8_t *data;                 /* address of byte `start` */
    void *map;
    size_t map_size;
    struct ibv_mr *mr;
};

struct sink {
    int count;
    bool copies; /* copy all bytes, open no window */
    struct sink_window window;
    struct piece *pieces;
    struct element elements[];
};

/* ---- The vector ------------------------------------------------------------------------------------ */

static struct sink *new_sink(int count)
{
    struct sink *sink = calloc(1, sizeof(*sink) + (size_t)count * sizeof(sink->elements[0]));

    if (sink == NULL)
        return NULL;
    sink->pieces = calloc((size_t)count, sizeof(*sink->pieces));
    if (sink->pieces != NULL)
        return sink;
    free(sink); /* free() preserves errno */
    return NULL;
}

static void free_sink(struct sink *sink)
{
    int saved = errno;

    for (int i = 0; i < sink->count; i++) {
        struct element *element = &sink->elements[i];

        if (element->grown != NULL)
            grown_leave(element->grown, element->fd);
        xs_element_close(element);
    }
    free(sink->pieces);
    free(sink);
    errno = saved;
}

/* Check an element that depends on its position in the vector. */
static int check_place(const struct element *element, int index, int count, bool is_stream)
{
    if (!element->is_open_ended)
        return 0;
    if (!is_stream)
        return xs_invalid("exs_length of element %d is 0: must be the number of bytes in a message", index);
    return index == count - 1
               ? 0
               : xs_invalid("exs_length of element %d is 0, which must be the last element", index);
}

/* The event reports the number of bytes as an off_t, so the sum must fit. */
static int check_length(struct sink *sink)
{
    uint64_t length = 0;

    for (int i = 0; i < sink->count; i++) {
        struct element *element = &sink->elements[i];
        uint64_t most = (uint64_t)INT64_MAX - length;

        if (element->length > most && !element->is_open_ended)
            return xs_invalid("the elements have more bytes than fit in an off_t");
        if (element->length > most)
            element->length = most;
        length += element->length;
    }
    return length > 0 ? 0 : xs_invalid("the elements have no bytes");
}

static void set_pieces(struct sink *sink)
{
    for (int i = 0; i < sink->count; i++) {
        const struct element *element = &sink->elements[i];

        sink->pieces[i] =
            (struct piece){.base = element->base, .length = element->length, .memory = element->memory};
    }
}

struct sink *xs_sink_new(const exs_xferfile_t *vector, int count, bool is_stream, int flags)
{
    struct sink *sink = new_sink(count);

    if (sink == NULL)
        return NULL;
    while (sink->count < count) {
        int i = sink->count++;
        struct element *element = &sink->elements[i];

        if (xs_element_open(element, &vector[i], TO_FILL, flags) < 0 ||
            check_place(element, i, count, is_stream) < 0 ||
            (element->fd >= 0 && (element->grown = grown_join(element->fd)) == NULL))
            goto fail;
    }
    if (check_length(sink) == 0) {
        set_pieces(sink);
        return sink;
    }
fail:
    free_sink(sink);
    return NULL;
}

struct piece *xs_sink_pieces(struct sink *sink)
{
    return sink->pieces;
}

bool xs_sink_is_open_ended(const struct sink *sink)
{
    return sink->elements[sink->count - 1].is_open_ended;
}

bool xs_sink_is_file(const struct sink *sink, uint32_t piece)
{
    return sink->elements[piece].fd >= 0;
}

/* ---- Windows --------------------------------------------------------------------------------------- */

/* RLIMIT_FSIZE. No window may lie beyond this limit, not even in a file that is long enough: a copy could not
 * be written there. */
static uint64_t size_limit(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : INT64_MAX;
}

/* Like fallocate(), but restarts after a signal, and does not let SIGXFSZ (RLIMIT_FSIZE) kill the process. */
static int allocate_blocks(int fd, uint64_t start, uint64_t end)
{
    struct fsize_guard fsize_guard;
    int result;

    fsize_guard_begin(&fsize_guard);
    do {
        result = fallocate(fd, 0, (off_t)start, (off_t)(end - start));
    } while (result < 0 && errno == EINTR);
    fsize_guard_end(&fsize_guard, result < 0 ? errno : 0);
    return result;
}

/* Allocate blocks for the window, and extend the file if necessary. -1 and errno. */
static int allocate_window(const struct sink_window *window)
{
    int fd = window->element->fd;
    uint64_t start = window->element->offset + window->start, end = window->element->offset + window->end;
    struct stat status;

    if (end > size_limit()) {
        errno = EFBIG;
        return -1;
    }
    if (fstat(fd, &status) < 0)
        return -1;
    uint64_t before = (uint64_t)status.st_size;

    if (allocate_blocks(fd, start, end) == 0) {
        if (end > before)
            grown_by(window->element->grown, end);
        return 0;
    }
    int saved = errno; /* it may have allocated the first blocks before it failed */

    if (fstat(fd, &status) == 0 && (uint64_t)status.st_size > before && (uint64_t)status.st_size <= end)
        grown_by(window->element->grown, (uint64_t)status.st_size);
    errno = saved;
    return -1;
}

/* Map the window, from the start of a page, as mmap() requires. -1 and errno. */
static int map_window(struct sink_window *window)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), offset = window->element->offset + window->start;
    uint64_t lead = offset % page;

    window->map_size = (size_t)(lead + window->end - window->start);
    window->map = mmap(NULL, window->map_size, PROT_READ | PROT_WRITE, MAP_SHARED, window->element->fd,
                       (off_t)(offset - lead));
    if (window->map == MAP_FAILED) {
        window->map = NULL;
        return -1;
    }
    window->data = (uint8_t *)window->map + lead;
    return 0;
}

static uint64_t size_at(const struct sink_window *window)
{
    struct stat status;

    return fstat(window->element->fd, &status) == 0 ? (uint64_t)status.st_size : 0;
}

/* Close the window. Only the bytes before `at`, relative to the element, were written. Returns 0, or EIO if the
 * file became shorter. */
static int close_sink_window(struct sink_window *window, uint64_t at, struct domain *domain)
{
    uint64_t filled = window->element->offset + at;

    if (window->mr != NULL)
        domain->nic->device->dereg_mr(window->mr);
    if (window->map != NULL)
        munmap(window->map, window->map_size);
    uint64_t size = size_at(window);
    bool cut = at > window->start && size < filled;

    if (cut)
        xs_log("a file became shorter while it was being filled");
    else if (at > window->start)
        grown_keep(window->element->grown, filled);
    window->element = NULL;
    return cut ? EIO : 0;
}

static uint64_t window_size(const struct element *element, uint64_t at)
{
    uint64_t size = SINK_WINDOW_SIZE, rest = element->length - at;

    if (element->is_open_ended && at < SINK_WINDOW_SIZE)
        size = at > FIRST_WINDOW_SIZE ? at : FIRST_WINDOW_SIZE;
    return size < rest ? size : rest;
}

static int open_sink_window(struct sink_window *window, const struct element *element, uint64_t at,
                            struct domain *domain)
{
    *window = (struct sink_window){.element = element, .start = at, .end = at + window_size(element, at)};
    if (!element->is_mappable) {
        errno = EACCES;
    } else if (allocate_window(window) == 0 && map_window(window) == 0) {
        window->mr = xs_register(domain, window->data, window->end - window->start,
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        if (window->mr != NULL)
            return 0;
    }
    int saved = errno;

    xs_log("cannot map a file, so data that arrives is copied: %s", strerror(saved));
    close_sink_window(window, at, domain);
    errno = saved;
    return -1;
}

void xs_sink_copy_all(struct sink *sink)
{
    sink->copies = true;
}

bool xs_sink_may_map(const struct sink *sink, uint32_t piece, uint64_t bytes)
{
    return bytes > BOUNCE_SIZE && !sink->copies && sink->elements[piece].is_mappable;
}

int xs_sink_window(struct sink *sink, uint32_t piece, uint64_t at, struct domain *domain, struct place *place)
{
    struct sink_window *window = &sink->window;

    if (window->element == NULL && open_sink_window(window, &sink->elements[piece], at, domain) < 0) {
        sink->copies = true;
        return -1;
    }
    *place = (struct place){
        .addr = window->data + (at - window->start), .length = window->end - at, .rkey = window->mr->rkey};
    return 0;
}

int xs_sink_filled(struct sink *sink, uint64_t at, struct domain *domain)
{
    struct sink_window *window = &sink->window;

    return window->element != NULL && at >= window->end ? close_sink_window(window, at, domain) : 0;
}

bool xs_sink_is_cut(const struct sink *sink)
{
    const struct sink_window *window = &sink->window;

    return window->element != NULL && size_at(window) < window->element->offset + window->end;
}

/* ---- Writing --------------------------------------------------------------------------------------- */

/* Write all bytes with pwrite(). Returns 0 or an errno; *written is set in both cases. */
static int write_all(int fd, const uint8_t *from, uint64_t length, uint64_t offset, uint64_t *written)
{
    for (*written = 0; *written < length;) {
        ssize_t part = pwrite(fd, from + *written, length - *written, (off_t)(offset + *written));

        if (part == 0 || (part < 0 && errno != EINTR))
            return part == 0 ? EIO : errno;
        *written += part > 0 ? (uint64_t)part : 0;
    }
    return 0;
}

int xs_sink_write(const struct sink *sink, uint32_t piece, uint64_t at, const uint8_t *from, uint64_t *bytes)
{
    const struct element *element = &sink->elements[piece];
    struct fsize_guard fsize_guard;

    grown_keep(element->grown, element->offset + at + *bytes);
    fsize_guard_begin(&fsize_guard);
    int error = write_all(element->fd, from, *bytes, element->offset + at, bytes);

    fsize_guard_end(&fsize_guard, error);
    return error;
}

int xs_sink_end(struct sink *sink, uint64_t at, struct domain *domain)
{
    int error = sink->window.element != NULL ? close_sink_window(&sink->window, at, domain) : 0;

    free_sink(sink);
    return error;
}
