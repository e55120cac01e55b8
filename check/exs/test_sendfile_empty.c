/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_sendfile_empty.c - exs_sendfile with empty elements: empty files and memory without bytes, alone,
 * before, between and behind other elements, in every mode, on streams and packets.
 */
#include "check/support/support.h"

#define MARK "the bytes between"
#define MARK_LENGTH (sizeof MARK - 1)

static FILE *empty, *full; /* of the running test, made by the fixture; full contains MARK */
static char names[2][40];  /* their names under /proc/self/fd */
static exs_mhandle_t region;
static char memory[] = MARK;

static void files_open(void)
{
    init_library();
    empty = tmpfile();
    full = tmpfile();
    ck_assert(empty != NULL && full != NULL);
    ck_assert(fputs(MARK, full) >= 0 && fflush(full) == 0);
    snprintf(names[0], sizeof names[0], "/proc/self/fd/%d", fileno(empty));
    snprintf(names[1], sizeof names[1], "/proc/self/fd/%d", fileno(full));
    region = exs_mregister(memory, sizeof memory, EXS_MRF_RECV_DISABLE);
    ck_assert_ptr_ne(region, EXS_MHANDLE_INVALID);
}

static void files_close(void)
{
    must(exs_mderegister(region, 0));
    fclose(empty);
    fclose(full);
}

/* ---- Vectors ------------------------------------------------------------------------- */

/* the kind of an element, with or without bytes */
enum source { DESCRIPTOR, PATH, REGISTERED, UNREGISTERED, SOURCES };

static exs_xferfile_t element(enum source source, bool filled)
{
    exs_xferfile_t new = {.exs_xfv_type = source == DESCRIPTOR ? EXS_FDVEC
                                          : source == PATH     ? EXS_PATHVEC
                                                               : EXS_IOVEC};

    if (source == DESCRIPTOR)
        new.exs_xfv.exs_fdv.exs_fildes = fileno(filled ? full : empty);
    else if (source == PATH)
        new.exs_xfv.exs_pathv.exs_path = names[filled];
    else
        new.exs_xfv.exs_iov = (exs_iovec_t){.exs_base = memory,
                                            .exs_length = filled ? MARK_LENGTH : 0,
                                            .exs_mhandle = source == REGISTERED ? region : NULL};
    return new;
}

/* The elements of a vector: 0 is an empty one, 1 one with bytes. */
static const char *const shapes[] = {"0", "00", "01", "10", "101", "010", "0010001000"};

#define ELEMENTS_MAX 10

struct vector {
    exs_xferfile_t elements[ELEMENTS_MAX];
    int count;
    size_t length; /* bytes */
};

static void vector_fill(struct vector *vector, const char *shape, enum source hollow, enum source solid)
{
    *vector = (struct vector){.count = (int)strlen(shape)};
    for (int i = 0; i < vector->count; i++) {
        bool filled = shape[i] == '1';

        vector->elements[i] = element(filled ? solid : hollow, filled);
        vector->length += filled ? MARK_LENGTH : 0;
    }
}

/* ---- Modes --------------------------------------------------------------------------- */

enum mode { EVENT, SILENT, BLOCK, BLOCKING, MODES };

static void send_vector(struct pair *pair, struct vector *v, enum mode mode)
{
    exs_qhandle_t queue = pair->client_box->queue;

    if (mode == EVENT)
        must(exs_sendfile(pair->client, v->elements, v->count, 0, queue, v));
    else if (mode == SILENT)
        must(exs_sendfile(pair->client, v->elements, v->count, EXS_UNSIGNALED, NULL, NULL));
    else if (mode == BLOCK)
        must(exs_sendfile(pair->client, v->elements, v->count, EXS_BLOCK, NULL, NULL));
    else
        must(exs_blocking_sendfile(pair->client, v->elements, v->count, 0));
}

static void was_sent(struct pair *pair, struct vector *v)
{
    exs_event_t event = take_good(pair->client_box, EXS_EVT_SENDFILE, pair->client);

    ck_assert_ptr_eq(event.exs_evt_ahandle, v);
    ck_assert_int_eq(event.exs_evt_union.exs_evt_xferfile.exs_evt_length, v->length);
}

static void receive_post(struct pair *pair, char *in, size_t room)
{
    must(exs_recv(pair->server, in, room, MSG_WAITALL, pair->server_box->queue, NULL, NULL));
}

static void was_received(struct pair *pair, const char *in, size_t length)
{
    exs_event_t event = take_good(pair->server_box, EXS_EVT_RECV, pair->server);

    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, length);
    for (size_t at = 0; at < length; at += MARK_LENGTH)
        ck_assert_mem_eq(in + at, MARK, MARK_LENGTH);
}

/* ---- The tests ----------------------------------------------------------------------- */

/* An empty vector sends an empty packet, or nothing on a stream. */
static void go_across(struct pair *pair, struct vector *v, enum mode mode, bool packets)
{
    char in[ELEMENTS_MAX * MARK_LENGTH];
    bool comes = packets || v->length > 0;

    if (comes)
        receive_post(pair, in, packets ? sizeof in : v->length);
    send_vector(pair, v, mode);
    if (mode == EVENT)
        was_sent(pair, v);
    if (comes)
        was_received(pair, in, v->length);
}

static void every_vector(int type)
{
    struct pair pair;
    struct vector v;

    pair_open(&pair, AF_INET, type);
    for (int mode = 0; mode < MODES; mode++)
        for (int shape = 0; shape < COUNT(shapes); shape++)
            for (int source = 0; source < SOURCES * SOURCES; source++) {
                vector_fill(&v, shapes[shape], source % SOURCES, source / SOURCES);
                go_across(&pair, &v, mode, type == SOCK_SEQPACKET);
            }
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 10, 1);
    pair_close(&pair);
}

START_TEST(on_a_stream)
{
    every_vector(SOCK_STREAM);
}
END_TEST

START_TEST(on_packets)
{
    every_vector(SOCK_SEQPACKET);
}
END_TEST

/* The send is posted before the receive. */
START_TEST(before_the_receive)
{
    struct pair pair;
    struct vector v;
    char in[ELEMENTS_MAX * MARK_LENGTH];

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    for (int shape = 0; shape < COUNT(shapes); shape++)
        for (int source = 0; source < SOURCES; source++) {
            vector_fill(&v, shapes[shape], source, source);
            send_vector(&pair, &v, EVENT);
            receive_post(&pair, in, sizeof in);
            was_received(&pair, in, v.length);
            was_sent(&pair, &v);
        }
    pair_close(&pair);
}
END_TEST

/* An empty element with EXS_SHUT_WR ends the stream. */
START_TEST(shut_down_behind_it)
{
    struct pair pair;
    struct vector v;
    char in[1];
    int type = _i ? SOCK_SEQPACKET : SOCK_STREAM;

    pair_open(&pair, AF_INET, type);
    vector_fill(&v, "0", DESCRIPTOR, DESCRIPTOR);
    v.elements[0].exs_xfv.exs_fdv.exs_flags = EXS_SHUT_WR;
    for (int ends = 0; ends < (type == SOCK_SEQPACKET ? 2 : 1); ends++) /* the packet, and the end of stream */
        receive_post(&pair, in, sizeof in);
    send_vector(&pair, &v, EVENT);
    was_sent(&pair, &v);
    for (int ends = 0; ends < (type == SOCK_SEQPACKET ? 2 : 1); ends++)
        was_received(&pair, in, 0);
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exs_sendfile, empty");
    TCase *all = add_bare_case(suite, "nothing in it", 30);

    tcase_add_checked_fixture(all, files_open, files_close);
    tcase_add_test(all, on_a_stream);
    tcase_add_test(all, on_packets);
    tcase_add_test(all, before_the_receive);
    tcase_add_loop_test(all, shut_down_behind_it, 0, 2);
    return run_suite(suite);
}
