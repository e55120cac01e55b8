/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_errmsg.c - exs_errmsg explains the last failure of the calling thread: by the text that the call has recorded,
 * or else by errno and the name of the call. The conformance suite checks that the text of each error
 * names the call.
 */
#include "check/support/support.h"

#define HAS(words)                                                                                             \
    do {                                                                                                       \
        const char *text_ = exs_errmsg();                                                                      \
        ck_assert_msg(strstr(text_, words) != NULL, "%s has no %s", text_, words);                             \
    } while (0)

START_TEST(before_init)
{
    ck_assert_str_eq(exs_errmsg(), "no call of this thread has failed");
    must_fail(exs_init(77), ENOTSUP);
    ck_assert_str_eq(exs_errmsg(), "exs_init: unknown version 77: pass EXS_VERSION");
    must_fail(exs_socket(PF_INET, SOCK_STREAM, 0), EPERM);
    HAS("exs_socket: Operation not permitted: call exs_init first");
    ck_assert_int_eq(setenv("EXS_LINK", "string\033[2J", 1), 0);
    must_fail(exs_init(EXS_VERSION), EINVAL);
    ck_assert_str_eq(exs_errmsg(),
                     "exs_init: EXS_LINK=string?[2J is not a link: set it to auto, shm, tcp or udp");
}
END_TEST

/* A recorded text has the value and what is allowed. It stays the same until the next failure. */
START_TEST(recorded)
{
    exs_qhandle_t queue = exs_qcreate(1);
    int socket = exs_socket(PF_INET, SOCK_STREAM, 0);

    must_fail(exs_setsockopt(socket, SOL_SOCKET, SO_LINGER, &(struct linger){1, -9}, sizeof(struct linger)),
              EDOM);
    HAS("exs_setsockopt on socket");
    HAS("-9 s");
    char before[512];
    snprintf(before, sizeof(before), "%s", exs_errmsg());
    ck_assert_str_eq(exs_errmsg(), before);
    must_fail(exs_qdequeue(queue, NULL, 1, NULL), EFAULT);
    HAS("exs_qdequeue: ");
    must_fail(exs_qdequeue(queue, NULL, 1, &(struct timeval){.tv_usec = 1000001}), EFAULT);
    HAS("1000001 us");
    must(exs_blocking_close(socket));
    must(exs_qdelete(queue));
}
END_TEST

/* An error without a text does not return the text of an earlier error with the same errno. */
START_TEST(not_the_one_before)
{
    struct pair pair;
    char byte = 1;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    must_fail(exs_send(pair.client, &byte, 1, 0, EXS_QHANDLE_INVALID, NULL, NULL), EINVAL);
    HAS("exs_send on socket");
    HAS("qhandle");
    must_fail(exs_recv(pair.client, &byte, 1, MSG_DONTWAIT, pair.client_box->queue, NULL, NULL), EAGAIN);
    HAS("exs_recv on socket");
    HAS("would have to wait");
    must_fail(exs_connect_host(pair.client, NULL, "1", 0, NULL, pair.client_box->queue, NULL), EINVAL);
    HAS("exs_connect_host on socket");
    must_fail(exs_qdelete(pair.client_box->queue), EBUSY);
    HAS("exs_qdelete: ");
    HAS("still in use");
    must_fail(exs_send(-1, &byte, 1, EXS_BLOCK, NULL, NULL, NULL), EBADF);
    HAS("exs_send: ");
    pair_close(&pair);
}
END_TEST

static void *other_thread(void *unused)
{
    ck_assert_str_eq(exs_errmsg(), "no call of this thread has failed");
    must_fail(exs_qfd(NULL), EINVAL);
    HAS("exs_qfd: ");
    return unused;
}

START_TEST(of_each_thread)
{
    must_fail(exs_qdelete(NULL), EINVAL);
    thread_join(thread_start(other_thread, NULL));
    errno = EINVAL;
    HAS("exs_qdelete: ");
}
END_TEST

/* Each error that exs(7) lists has an explanation in addition to strerror(). */
START_TEST(each_errno)
{
    static const int errors[] = {
        EACCES,       EADDRINUSE,   EADDRNOTAVAIL,   EAFNOSUPPORT, EAGAIN,  EBADF,  EBUSY,           ECANCELED,
        ECHILD,       ECONNABORTED, ECONNREFUSED,    ECONNRESET,   EDOM,    EDQUOT, EFAULT,          EFBIG,
        EHOSTUNREACH, EINTR,        EINVAL,          EIO,          EISCONN, EISDIR, ELOOP,           EMFILE,
        EMSGSIZE,     ENAMETOOLONG, ENETUNREACH,     ENFILE,       ENOBUFS, ENODEV, ENOENT,          ENOMEM,
        ENOPROTOOPT,  ENOSPC,       ENOTCONN,        ENOTDIR,      ENOTSUP, ENXIO,  EOPNOTSUPP,      EPERM,
        EPIPE,        EPROTO,       EPROTONOSUPPORT, EPROTOTYPE,   ERANGE,  EROFS,  ESOCKTNOSUPPORT, ETIMEDOUT,
    };

    for (int i = 0; i < COUNT(errors); i++) {
        must_fail(exs_qfd(NULL), EINVAL);
        exs_strevent(0);
        exs_qhandle_t queue = exs_qcreate(1); /* succeeds, so the text of the failed call is discarded */

        ck_assert_ptr_ne(queue, EXS_QHANDLE_INVALID);
        errno = errors[i];
        char start[100];
        size_t length = (size_t)snprintf(start, sizeof(start), "exs_qcreate: %s: ", strerror(errors[i]));
        const char *text = exs_errmsg();

        ck_assert_msg(strncmp(text, start, length) == 0 && strlen(text) > length, "%s", text);
        ck_assert_int_eq(errno, errors[i]);
        must(exs_qdelete(queue));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("errmsg");
    TCase *tcase = add_case(suite, "errmsg", 10);

    tcase_add_test(add_bare_case(suite, "exs_init", 5), before_init);
    tcase_add_test(tcase, recorded);
    tcase_add_test(tcase, not_the_one_before);
    tcase_add_test(tcase, of_each_thread);
    tcase_add_test(tcase, each_errno);
    return run_suite(suite);
}
