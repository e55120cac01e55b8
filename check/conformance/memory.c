/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.c - tests of exs_mregister (5.2.5) and exs_mderegister (5.2.4). */
#include <sys/mman.h>
#include <unistd.h>
#include "bodies.h"

static const char *const init_needs[] = {"exs_init", NULL};

/* ---- exs_mregister --------------------------------------------------------------------------- */

static void registered(struct trial *trial, void *address, size_t size, int flags)
{
    exs_mhandle_t region = exs_mregister(address, size, flags);

    outcome(trial, region == EXS_MHANDLE_INVALID ? -1 : 0);
    require(trial, region != NULL && region != EXS_MHANDLE_UNREGISTERED, "the handle is no handle of a region");
}

static void mregister_uninitialized(struct trial *trial)
{
    registered(trial, trial->buffer, BUFSIZE, 0);
}

static void mregister_uninitialized_bad(struct trial *trial)
{
    registered(trial, NULL, 0, -1);
}

static void mregister_no_size(struct trial *trial)
{
    ok_init(trial);
    registered(trial, trial->buffer, 0, 0);
}

static void mregister_flag(struct trial *trial)
{
    ok_init(trial);
    registered(trial, trial->buffer, BUFSIZE, 1 << 30);
    registered(trial, trial->buffer, BUFSIZE, -1);
}

static void mregister_nowhere(struct trial *trial)
{
    ok_init(trial);
    registered(trial, NULL, BUFSIZE, 0);
}

static void mregister_wraps(struct trial *trial)
{
    ok_init(trial);
    registered(trial, (void *)(UINTPTR_MAX - 100), 200, 0);
}

static void mregister_too_long(struct trial *trial)
{
    ok_init(trial);
    registered(trial, trial->buffer, EXS_MSG_MAX + 1, 0);
    registered(trial, trial->buffer, SIZE_MAX, 0);
}

static void mregister(struct trial *trial)
{
    ok_init(trial);
    registered(trial, trial->buffer, BUFSIZE, 0);
}

static void mregister_flags(struct trial *trial)
{
    ok_init(trial);
    registered(trial, trial->buffer, BUFSIZE, EXS_MRF_SHARED | EXS_MRF_RECV_DISABLE | EXS_MRF_SEND_DISABLE);
}

static void *memory(struct trial *trial, int protection)
{
    void *pages = mmap(NULL, 65536, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED)
        broken(trial, "mmap");
    return pages;
}

static void mregister_no_access(struct trial *trial)
{
    ok_init(trial);
    registered(trial, memory(trial, PROT_NONE), 65536, 0);
}

static void mregister_read_only(struct trial *trial)
{
    ok_init(trial);
    registered(trial, memory(trial, PROT_READ), 65536, 0);
}

static void mregister_partly(struct trial *trial)
{
    char *pages = memory(trial, PROT_READ | PROT_WRITE);

    mprotect(pages + 32768, 32768, PROT_NONE);
    ok_init(trial);
    registered(trial, pages, 65536, 0);
    munmap(pages + 32768, 32768);
    registered(trial, pages, 65536, 0);
    registered(trial, pages + 32768, 1, 0);
}

static void mregister_rest(struct trial *trial)
{
    char *pages = memory(trial, PROT_READ | PROT_WRITE);

    mprotect(pages, 32768, PROT_NONE);
    ok_init(trial);
    registered(trial, pages, 65536, 0);
    registered(trial, pages, 65536, EXS_MRF_RECV_DISABLE);
}

static void mregister_send_only(struct trial *trial)
{
    ok_init(trial);
    registered(trial, memory(trial, PROT_READ), 65536, EXS_MRF_RECV_DISABLE);
}

static void mregister_forked(struct trial *trial)
{
    ok_init(trial);
    in_child(trial);
    registered(trial, trial->buffer, BUFSIZE, 0);
}

static const struct row mregister_rows[] = {
    {1, EPERM, "exs_mregister(buf, BUFSIZE, 0) [no exs_init]", BOTH, THESIS, mregister_uninitialized,
     "The thesis has -1 here; as in the tests beside it the result is EXS_MHANDLE_INVALID."},
    {3, EINVAL, "exs_mregister(buf, ZERO_SIZE, 0)", BOTH, THESIS, mregister_no_size, NULL},
    {4, EINVAL, "exs_mregister(buf, BUFSIZE, BAD_FLAG)", BOTH, THESIS, mregister_flag, NULL},
    {5, EINVAL, "exs_mregister(NULL_ADDR, BUFSIZE, 0)", BOTH, THESIS, mregister_nowhere, NULL},
    {6, 0, "exs_mregister(buf, BUFSIZE, 0)", BOTH, THESIS, mregister, NULL},
    {7, EACCES, "exs_mregister(PROT_NONE_BUF, BUFSIZE, 0)", BOTH, UNIMPLEMENTED, mregister_no_access, NULL},
    {8, EACCES, "exs_mregister(READ_ONLY_BUF, BUFSIZE, 0)", BOTH, UNIMPLEMENTED, mregister_read_only, NULL},
    {9, EACCES, "exs_mregister(BUF_WITHOUT_END, BUFSIZE, 0)", BOTH, UNIMPLEMENTED, mregister_partly, NULL},
    {10, EACCES, "exs_mregister(BUF_WITHOUT_START, BUFSIZE, 0)", BOTH, UNIMPLEMENTED, mregister_rest, NULL},
    {11, 0, "exs_mregister(READ_ONLY_BUF, BUFSIZE, EXS_MRF_RECV_DISABLE)", BOTH, OURS, mregister_send_only,
     NULL},
    {12, EINVAL, "exs_mregister(UINTPTR_MAX - 100, 200, 0)", BOTH, OURS, mregister_wraps, NULL},
    {13, EINVAL, "exs_mregister(buf, EXS_MSG_MAX + 1, 0)", BOTH, OURS, mregister_too_long, NULL},
    {14, 0, "exs_mregister(buf, BUFSIZE, every flag)", BOTH, OURS, mregister_flags, NULL},
    {15, EPERM, "exs_mregister(NULL, 0, -1) [no exs_init]", BOTH, OURS, mregister_uninitialized_bad, NULL},
    {16, ECHILD, "exs_mregister(buf, BUFSIZE, 0) [in a forked child]", BOTH, OURS, mregister_forked, NULL},
};
const struct group group_mregister = {"exs_mregister", "5.2.5", init_needs, ROWS(mregister_rows)};

/* ---- exs_mderegister ------------------------------------------------------------------------- */

static void mderegister_uninitialized(struct trial *trial)
{
    outcome(trial, exs_mderegister(NULL, 0));
}

static void mderegister_null(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_mderegister(NULL, 0));
}

static void mderegister_invalid(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_mderegister(EXS_MHANDLE_INVALID, 0));
    outcome(trial, exs_mderegister((exs_mhandle_t)(void *)trial->buffer, 0));
}

static void mderegister_unregistered(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_mderegister(EXS_MHANDLE_UNREGISTERED, 0));
}

static void mderegister(struct trial *trial)
{
    ok_init(trial);
    exs_mhandle_t region = ok_mregister(trial, trial->buffer, BUFSIZE, 0);

    outcome(trial, exs_mderegister(region, 0));
    require(trial, exs_mderegister(region, 0) == -1 && errno == EINVAL, "the region is still registered");
}

static void mderegister_flags(struct trial *trial)
{
    ok_init(trial);
    exs_mhandle_t region = ok_mregister(trial, trial->buffer, BUFSIZE, 0);

    outcome(trial, exs_mderegister(region, 1));
    outcome(trial, exs_mderegister(region, BAD_FLAG));
    require(trial, exs_mderegister(region, 0) == 0, "the region is gone in spite of the error");
}

static void mderegister_busy(struct trial *trial)
{
    ok_accepted(trial);
    exs_mhandle_t region = ok_mregister(trial, trial->buffer, BUFSIZE, 0);

    require(trial, exs_recv(trial->fd, trial->buffer, 2, MSG_WAITALL, trial->queue, trial, region) == 0,
            "exs_recv failed");
    trial->connected = false;
    outcome(trial, exs_mderegister(region, 0));
    peer_do(trial, PEER_SEND, 1);
    outcome(trial, exs_mderegister(region, 0));
    peer_tell(trial, PEER_SEND, 1);
    ok_event(trial, trial->queue, EXS_EVT_RECV, trial);
    peer_hear(trial);
    require(trial, exs_mderegister(region, 0) == 0, "the transfer is over, and the region still in use");
}

static void mderegister_forked(struct trial *trial)
{
    ok_init(trial);
    exs_mhandle_t region = ok_mregister(trial, trial->buffer, BUFSIZE, 0);

    in_child(trial);
    outcome(trial, exs_mderegister(region, 0));
}

static const struct row mderegister_rows[] = {
    {1, EPERM, "exs_mderegister(mh, 0) [no exs_init]", BOTH, THESIS, mderegister_uninitialized, NULL},
    {2, EINVAL, "exs_mderegister(NULL, 0)", BOTH, THESIS, mderegister_null, NULL},
    {3, EINVAL, "exs_mderegister(EXS_MHANDLE_INVALID, 0)", BOTH, THESIS, mderegister_invalid, NULL},
    {4, EINVAL, "exs_mderegister(EXS_MHANDLE_UNREGISTERED, 0)", BOTH, THESIS, mderegister_unregistered, NULL},
    {5, 0, "exs_mderegister(mh, 0)", BOTH, THESIS, mderegister, NULL},
    {6, EINVAL, "exs_mderegister(mh, BAD_FLAG)", BOTH, OURS, mderegister_flags, NULL},
    {7, EBUSY, "exs_mderegister(mh, 0) [a receive into it in progress]", NONBLOCKING, OURS, mderegister_busy,
     NULL},
    {8, ECHILD, "exs_mderegister(mh, 0) [in a forked child]", BOTH, OURS, mderegister_forked, NULL},
};
const struct group group_mderegister = {"exs_mderegister", "5.2.4", init_needs, ROWS(mderegister_rows)};
