/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_errors_transfer.c - every error that can be returned by a call that transfers data or that uses memory regions
 * or queues, blocking or not. Otherwise like test_errors.c.
 */
#include "check/support/rows.h"

#include <sys/mman.h>

/* ---- Transfers ----------------------------------------------------------------------- */

static size_t length_of(const struct row *row)
{
    return row->number == 99 ? 0 : row->length ? row->length : 100;
}

static long call_recv(const struct row *row, int socket, int flags)
{
    return exs_recv(socket, row->null ? NULL : world.bytes, length_of(row), flags, queue_of(row, flags), NULL,
                    NULL);
}

static long call_blocking_recv(const struct row *row, int socket, int flags)
{
    return exs_blocking_recv(socket, row->null ? NULL : world.bytes, length_of(row), flags, NULL);
}

static long call_read(const struct row *row, int socket, int flags)
{
    (void)flags;
    return exs_read(socket, row->null ? NULL : world.bytes, length_of(row));
}

START_TEST(recv_errors)
{
    const struct row rows[] = {
        BAD_TRANSFERS,
        BAD_QUEUES(CONNECTED),
        BAD_RECEIVE_FLAGS(CONNECTED, EOPNOTSUPP),
        ROW("0 bytes", EINVAL, .number = 99),
        ROW("EXS_UNSIGNALED", EOPNOTSUPP, .mode = ASYNC, .flags = EXS_UNSIGNALED),
    };
    const struct row blocking[] = {
        BAD_TRANSFERS,
        BAD_RECEIVE_FLAGS(CONNECTED, EOPNOTSUPP),
        ROW("0 bytes", EINVAL, .number = 99),
    };
    const struct row plain[] = {
        BAD_TRANSFERS,
        ROW("0 bytes", EINVAL, .number = 99),
    };

    try_rows("exs_recv", call_recv, rows, COUNT(rows));
    try_rows("exs_blocking_recv", call_blocking_recv, blocking, COUNT(blocking));
    try_rows("exs_read", call_read, plain, COUNT(plain));
}
END_TEST

static long call_send(const struct row *row, int socket, int flags)
{
    return exs_send(socket, row->null ? NULL : world.bytes, length_of(row), flags, queue_of(row, flags), NULL,
                    NULL);
}

static long call_blocking_send(const struct row *row, int socket, int flags)
{
    return exs_blocking_send(socket, row->null ? NULL : world.bytes, length_of(row), flags, NULL);
}

static long call_write(const struct row *row, int socket, int flags)
{
    (void)flags;
    return exs_write(socket, row->null ? NULL : world.bytes, length_of(row));
}

START_TEST(send_errors)
{
    const struct row rows[] = {
        BAD_TRANSFERS,
        BAD_QUEUES(CONNECTED),
        BAD_FLAGS(CONNECTED, EOPNOTSUPP),
        ROW("MSG_WAITALL", EOPNOTSUPP, .flags = MSG_WAITALL),
        ROW("unsignaled, and an invalid queue", EINVAL, .mode = ASYNC, .queue = INVALID_QUEUE,
            .flags = EXS_UNSIGNALED),
        ROW("unsignaled and blocking", EINVAL, .mode = BLOCKING, .flags = EXS_UNSIGNALED),
        ROW("after a shutdown", EPIPE, .socket = SHUT),
        ROW("after a shutdown, unsignaled", EPIPE, .mode = ASYNC, .socket = SHUT, .flags = EXS_UNSIGNALED),
    };
    const struct row blocking[] = {
        BAD_TRANSFERS,
        BAD_FLAGS(CONNECTED, EOPNOTSUPP),
        ROW("unsignaled", EINVAL, .flags = EXS_UNSIGNALED),
        ROW("after a shutdown", EPIPE, .socket = SHUT),
    };
    const struct row plain[] = {
        BAD_TRANSFERS,
        ROW("after a shutdown", EPIPE, .socket = SHUT),
    };

    try_rows("exs_send", call_send, rows, COUNT(rows));
    try_rows("exs_blocking_send", call_blocking_send, blocking, COUNT(blocking));
    try_rows("exs_write", call_write, plain, COUNT(plain));
}
END_TEST

/* row->length is the type of the elements; 0 means EXS_IOVEC. */
static void elements_of(const struct row *row, exs_xferfile_t *elements, int count)
{
    for (int i = 0; i < count; i++) {
        elements[i].exs_xfv_type = row->length ? (int)row->length : EXS_IOVEC;
        elements[i].exs_xfv.exs_iov = (exs_iovec_t){.exs_base = world.bytes, .exs_length = 1};
    }
}

static int element_count(const struct row *row)
{
    return row->number == 99 ? 0 : row->number ? row->number : 1;
}

static long call_sendfile(const struct row *row, int socket, int flags)
{
    exs_xferfile_t elements[EXS_XFV_MAX + 1];

    elements_of(row, elements, COUNT(elements));
    return exs_sendfile(socket, row->null ? NULL : elements, element_count(row), flags, queue_of(row, flags),
                        NULL);
}

static long call_blocking_sendfile(const struct row *row, int socket, int flags)
{
    exs_xferfile_t elements[EXS_XFV_MAX + 1];

    elements_of(row, elements, COUNT(elements));
    return exs_blocking_sendfile(socket, row->null ? NULL : elements, element_count(row), flags);
}

START_TEST(sendfile_errors)
{
    const struct row rows[] = {
        BAD_FILES,
        BAD_QUEUES(CONNECTED),
        BAD_FLAGS(CONNECTED, EINVAL),
        ROW("MSG_WAITALL", EINVAL, .flags = MSG_WAITALL),
        ROW("unsignaled and blocking", EINVAL, .mode = BLOCKING, .flags = EXS_UNSIGNALED),
    };
    const struct row blocking[] = {
        BAD_FILES,
        BAD_FLAGS(CONNECTED, EINVAL),
        ROW("unsignaled", EINVAL, .flags = EXS_UNSIGNALED),
    };

    try_rows("exs_sendfile", call_sendfile, rows, COUNT(rows));
    try_rows("exs_blocking_sendfile", call_blocking_sendfile, blocking, COUNT(blocking));
}
END_TEST

/* ---- Memory -------------------------------------------------------------------------- */

START_TEST(register_errors)
{
    exs_mhandle_t none = EXS_MHANDLE_INVALID;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *map = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(map, MAP_FAILED);
    must_fail(exs_mregister(world.bytes, 0, 0), EINVAL);
    must_fail(exs_mregister(NULL, 100, 0), EINVAL);
    must_fail(exs_mregister(world.bytes, 100, 0x40000000), EINVAL);
    must_fail(exs_mregister(world.bytes, 100, -1), EINVAL);
    must_fail(exs_mregister(map, 2 * page, 0), EACCES);
    ck_assert_msg(exs_mregister(world.bytes, SIZE_MAX, 0) == none, "a region as large as all memory");
    exs_mhandle_t readable = exs_mregister(map, 2 * page, EXS_MRF_RECV_DISABLE);
    ck_assert_msg(readable != none, "read-only memory to send from: %s", strerror(errno));
    must(exs_mderegister(readable, 0));
    must(mprotect(map, page, PROT_NONE));
    must_fail(exs_mregister(map, 2 * page, EXS_MRF_RECV_DISABLE), EACCES);
    must(mprotect(map, page, PROT_READ | PROT_WRITE));
    must(munmap(map + page, page));
    must_fail(exs_mregister(map, 2 * page, 0), EACCES); /* the second page is not mapped */
    must_fail(exs_mregister(map + page, 1, 0), EACCES); /* no page is mapped */
    munmap(map, page);
}
END_TEST

START_TEST(deregister_errors)
{
    exs_mhandle_t region = exs_mregister(world.bytes, 100, 0);

    ck_assert_ptr_ne(region, EXS_MHANDLE_INVALID);
    must_fail(exs_mderegister(NULL, 0), EINVAL);
    must_fail(exs_mderegister(EXS_MHANDLE_INVALID, 0), EINVAL);
    must_fail(exs_mderegister(EXS_MHANDLE_UNREGISTERED, 0), EINVAL);
    must_fail(exs_mderegister((exs_mhandle_t)(void *)world.bytes, 0), EINVAL);
    must_fail(exs_mderegister(region, BAD_FLAG), EINVAL);
    must(exs_mderegister(region, 0));
    must_fail(exs_mderegister(region, 0), EINVAL);
}
END_TEST

START_TEST(region_in_use)
{
    struct pair *pair = &world.pair;
    exs_mhandle_t region = exs_mregister(world.bytes, 100, 0);

    ck_assert_ptr_ne(region, EXS_MHANDLE_INVALID);
    must(exs_recv(pair->client, world.bytes, 100, MSG_WAITALL, world.box.queue, NULL, region));
    must_fail(exs_mderegister(region, 0), EBUSY);
    must(exs_send(pair->server, "the first half of a hundred bytes, and then the rest of them......", 50,
                  EXS_UNSIGNALED, NULL, NULL, NULL));
    must_fail(exs_mderegister(region, 0), EBUSY);
    must(exs_send(pair->server, "the second half of a hundred bytes, and then nothing more.........", 50,
                  EXS_UNSIGNALED, NULL, NULL, NULL));
    world.box.beside = pair->server_box;
    take_good(&world.box, EXS_EVT_RECV, pair->client);
    must(exs_mderegister(region, 0));
}
END_TEST

static long send_from(exs_mhandle_t region, char *bytes)
{
    return exs_send(world.pair.client, bytes, 100, 0, world.box.queue, NULL, region);
}

static long recv_into(exs_mhandle_t region, char *bytes)
{
    return exs_recv(world.pair.client, bytes, 100, 0, world.box.queue, NULL, region);
}

START_TEST(wrong_regions)
{
    char memory[400] = {0};
    exs_mhandle_t region = exs_mregister(memory + 100, 200, 0);
    exs_mhandle_t out = exs_mregister(memory, 400, EXS_MRF_RECV_DISABLE);
    exs_mhandle_t in = exs_mregister(memory, 400, EXS_MRF_SEND_DISABLE);

    ck_assert(region != EXS_MHANDLE_INVALID && in != EXS_MHANDLE_INVALID && out != EXS_MHANDLE_INVALID);
    for (int i = 0; i < 2; i++) {
        long (*call)(exs_mhandle_t, char *) = i ? send_from : recv_into;
        must_fail(call(EXS_MHANDLE_INVALID, memory), EINVAL);
        must_fail(call(region, memory), EINVAL);
        must_fail(call(region, memory + 99), EINVAL);
        must_fail(call(region, memory + 201), EINVAL);
        ck_assert_int_eq(call(i ? in : out, memory), -1);
        ck_assert(is_either(errno, EACCES, EINVAL));
    }
    must(exs_mderegister(region, 0));
    must(exs_mderegister(in, 0));
    must(exs_mderegister(out, 0));
}
END_TEST

/* ---- Queues -------------------------------------------------------------------------- */

START_TEST(queue_errors)
{
    exs_event_t events[2];
    struct timeval now = {0, 0}, never = {0, -1};
    exs_qhandle_t queue = exs_qcreate(0),
                  nothings[] = {NULL, EXS_QHANDLE_INVALID, (exs_qhandle_t)(void *)events, 0};

    ck_assert_ptr_ne(queue, EXS_QHANDLE_INVALID);
    must_fail(exs_qcreate(-1), EINVAL);
    must_fail(exs_qcreate(EXS_QDEPTH_MAX + 1), EINVAL);
    must_fail(exs_qdequeue(queue, events, 0, &now), EINVAL);
    must_fail(exs_qdequeue(queue, events, -1, &now), EINVAL);
    must_fail(exs_qdequeue(queue, events, EXS_EVTVEC_MAX + 1, &now), EINVAL);
    must_fail(exs_qdequeue(queue, NULL, 2, &now), EFAULT);
    must_fail(exs_qdequeue(queue, events, 2, &never), EFAULT);
    must(exs_qdelete(queue));
    nothings[3] = queue;
    for (int i = 0; i < COUNT(nothings); i++) {
        must_fail(exs_qdelete(nothings[i]), EINVAL);
        must_fail(exs_qfd(nothings[i]), EINVAL);
        must_fail(exs_qdequeue(nothings[i], events, 2, &now), EINVAL);
    }
}
END_TEST

START_TEST(queue_in_use)
{
    struct pair *pair = &world.pair;
    exs_event_t event;

    must_fail(exs_qdelete(pair->client_box->queue), EBUSY); /* it is the home queue of a connection */
    must(exs_recv(pair->client, world.bytes, 100, 0, world.box.queue, NULL, NULL));
    must_fail(exs_qdelete(world.box.queue), EBUSY);
    must(exs_send(pair->server, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
    world.box.beside = pair->server_box;
    event = take_good(&world.box, EXS_EVT_RECV, pair->client);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 1);
}
END_TEST

int main(void)
{
    const TTest *transfers[] = {recv_errors, send_errors, sendfile_errors};
    const TTest *memory[] = {register_errors, deregister_errors, region_in_use, wrong_regions};
    const TTest *queues[] = {queue_errors, queue_in_use};
    Suite *suite = suite_create("errors_transfer");

    add_world_case(suite, "transfers", transfers, COUNT(transfers));
    add_world_case(suite, "memory", memory, COUNT(memory));
    add_world_case(suite, "queues", queues, COUNT(queues));
    return run_suite(suite);
}
