/* SPDX-License-Identifier: BSD-2-Clause */
/* sending.c - see sending.h. */
#include "sending.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>

struct pair pair;
char folder[100], path[200];
int file, map_errno;

__attribute__((visibility("default"))) void *mmap(void *addr, size_t length, int protection, int flags, int fd,
                                                  off_t offset)
{
    void *(*own)(void *, size_t, int, int, int, off_t);

    *(void **)&own = dlsym(RTLD_NEXT, "mmap");
    if (fd == -1 || map_errno == 0)
        return own(addr, length, protection, flags, fd, offset);
    errno = map_errno;
    return MAP_FAILED;
}

int new_file(const char *name, off_t length)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    must(fd);
    must(ftruncate(fd, length));
    return fd;
}

void folder_open(void)
{
    const char *where = getenv("TMPDIR");
    char *bytes = new_buffer(FILE_LENGTH);

    init_library();
    snprintf(folder, sizeof folder, "%s/exs-check-XXXXXX", where && strlen(where) < 50 ? where : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    file = new_file("file", 0);
    pattern_fill(bytes, FILE_LENGTH, FILE_SEED, 0);
    ck_assert_int_eq(write(file, bytes, FILE_LENGTH), FILE_LENGTH);
    free(bytes);
    pair_open(&pair, AF_INET, SOCK_STREAM);
}

/* Makes the software device map files, too. By default it reads them. */
void folder_open_mapped(void)
{
    setenv("EXS_MAP", "1", 1);
    folder_open();
}

void folder_remove(void)
{
    close(file);
    unlink(path);
    snprintf(path, sizeof path, "%s/file", folder);
    unlink(path);
    must(rmdir(folder));
}

void folder_close(void)
{
    inbox_quiet(pair.client_box, QUIET_MS); /* calls that failed have left no event */
    pair_close(&pair);
    folder_remove();
}

void post_file(exs_xferfile_t *vector, int count, int flags)
{
    must(exs_sendfile(pair.client, vector, count, flags, pair.client_box->queue, vector));
}

void file_was_sent(const exs_xferfile_t *vector, int count, off_t length)
{
    exs_event_t event = take_good(pair.client_box, EXS_EVT_SENDFILE, pair.client);
    const exs_evt_xferfile_t *done = &event.exs_evt_union.exs_evt_xferfile;

    ck_assert_ptr_eq(event.exs_evt_ahandle, vector);
    ck_assert_ptr_eq(done->exs_evt_vec, vector);
    ck_assert_int_eq(done->exs_evt_vec_cnt, count);
    ck_assert_int_eq(done->exs_evt_length, length);
}

char *receive(size_t length)
{
    char *in = new_buffer(length + 1);

    must(exs_recv(pair.server, in, length, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, length);
    return in;
}

void receive_part(uint64_t at, size_t length)
{
    char *in = receive(length);

    pattern_check(in, length, FILE_SEED, at);
    free(in);
}
