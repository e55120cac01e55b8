/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_config.c - exs_init_config: each field has the effect of its environment variable, which takes precedence; the
 * size of the struct; a later call that agrees or does not; and the program's own log. test_setuid.c has the programs
 * that ignore the environment, test_ring.c and test_incoming.c the limits exs_ring_bytes and exs_half_open.
 */
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/wait.h>
#include "check/support/support.h"
#include "core/base/settings.h"

/* ---- A log ------------------------------------------------------------------------------------------ */

static struct log {
    char text[1 << 16]; /* "LEVEL TEXT\n" for each line */
    size_t length;
    int calls;
    bool is_inside;
} taken;

static void take_line(void *context, int level, const char *text)
{
    struct log *log = context;

    ck_assert(!log->is_inside); /* one thread at a time */
    log->is_inside = true;
    log->calls++;
    if (log->length < sizeof(log->text) - 1024)
        log->length += (size_t)snprintf(log->text + log->length, 1024, "%d %s\n", level, text);
    errno = EPROTO; /* which no caller of the library gets to see */
    log->is_inside = false;
}

static bool has_line(const char *line)
{
    return strstr(taken.text, line) != NULL;
}

/* Nothing of this environment has an effect. */
static void no_environment(void)
{
    static const char *const names[] = {"EXS_LINK", "EXS_TCP_CONGESTION", "EXS_ROCE",  "EXS_SPIN",
                                        "EXS_MAP",  "EXS_IMMEDIATE",      "EXS_DEBUG", "EXS_CHECK"};

    for (int i = 0; i < COUNT(names); i++)
        must(unsetenv(names[i]));
}

/* Starts the library, and forgets which devices it logs. */
static void start(const exs_config_t *config)
{
    must(exs_init_config(EXS_VERSION, config));
    taken.calls = 0;
}

static exs_config_t logged(int debug)
{
    exs_config_t config = EXS_CONFIG_INIT;

    no_environment();
    config.exs_debug = debug;
    config.exs_log = take_line;
    config.exs_log_context = &taken;
    return config;
}

/* ---- Fields ------------------------------------------------------------------------------------------ */

START_TEST(nothing_configured)
{
    exs_config_t config = EXS_CONFIG_INIT;

    no_environment();
    ck_assert_int_eq(exs_init_config(EXS_VERSION, _i ? &config : NULL), 0);
    ck_assert(settings()->shm && settings()->tcp && settings()->immediate && !settings()->roce_wanted);
    ck_assert(!settings()->debug && !settings()->check && !settings()->map_always && !settings()->map_never);
    ck_assert_uint_eq(settings()->spin_us, 50);
    ck_assert_str_eq(settings()->congestion, "");
    must(exs_fini());
}
END_TEST

START_TEST(each_field)
{
    exs_config_t config = logged(2);

    config.exs_link = "udp";
    config.exs_tcp_congestion = "reno";
    config.exs_roce = "auto";
    config.exs_spin_us = _i ? EXS_CONFIG_OFF : 1000000;
    config.exs_map = _i ? EXS_CONFIG_OFF : 1;
    config.exs_immediate = _i ? EXS_CONFIG_OFF : 1;
    config.exs_check = _i ? EXS_CHECK_ABORT : 1;
    must(exs_init_config(EXS_VERSION, &config));
    ck_assert(!settings()->shm && !settings()->tcp && settings()->roce_wanted && !settings()->roce_needed);
    ck_assert_str_eq(settings()->congestion, "reno");
    ck_assert_uint_eq(settings()->spin_us, _i ? 0 : 1000000);
    ck_assert(settings()->map_always == !_i && settings()->map_never == (_i == 1));
    ck_assert(settings()->immediate == !_i);
    ck_assert(settings()->debug && settings()->trace);
    ck_assert(settings()->check && settings()->check_aborts == (_i == 1));
    must(exs_fini());
}
END_TEST

/* A variable that is set takes precedence, an empty one does not. */
START_TEST(the_environment_first)
{
    exs_config_t config = logged(1);

    config.exs_link = "udp";
    config.exs_spin_us = 7;
    config.exs_immediate = EXS_CONFIG_OFF;
    config.exs_check = 1;
    must(setenv("EXS_LINK", "tcp", 1));
    must(setenv("EXS_SPIN", "0", 1));
    must(setenv("EXS_IMMEDIATE", "", 1));
    must(setenv("EXS_CHECK", "0", 1));
    must(setenv("EXS_DEBUG", "0", 1));
    must(exs_init_config(EXS_VERSION, &config));
    ck_assert(!settings()->shm && settings()->tcp && !settings()->immediate && !settings()->check);
    ck_assert_uint_eq(settings()->spin_us, 0);
    must_fail(exs_qfd(NULL), EINVAL);
    ck_assert_int_eq(taken.calls, 0);
    must(exs_fini());
}
END_TEST

/* SO_RCVBUF and SO_SNDBUF of new sockets, which exs_setsockopt can change. */
START_TEST(buffers)
{
    exs_config_t config = EXS_CONFIG_INIT;
    int value = 0, bytes = 9000;

    config.exs_rcvbuf = 100000;
    config.exs_sndbuf = 12345;
    must(exs_init_config(EXS_VERSION, &config));
    for (int i = 0; i < COUNT(kinds); i++) {
        int socket = exs_socket(kinds[i].family, kinds[i].type, 0);
        bool is_stream = kinds[i].type == SOCK_STREAM;

        must(exs_getsockopt(socket, SOL_SOCKET, SO_RCVBUF, &value, &(socklen_t){sizeof(value)}));
        ck_assert_int_eq(value, is_stream ? 131072 : 0);
        must(exs_getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &value, &(socklen_t){sizeof(value)}));
        ck_assert_int_eq(value, 12345);
        must(exs_setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)));
        must(exs_getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &value, &(socklen_t){sizeof(value)}));
        ck_assert_int_eq(value, bytes);
        must(exs_blocking_close(socket));
    }
    must(exs_fini());
    config.exs_rcvbuf = config.exs_sndbuf = INT_MAX;
    must(exs_init_config(EXS_VERSION, &config));
    int socket = exs_socket(AF_INET, SOCK_STREAM, 0);

    must(exs_getsockopt(socket, SOL_SOCKET, SO_RCVBUF, &value, &(socklen_t){sizeof(value)}));
    ck_assert_int_eq(value, 64 << 20);
    must(exs_getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &value, &(socklen_t){sizeof(value)}));
    ck_assert_int_eq(value, INT_MAX);
    must(exs_blocking_close(socket));
    must(exs_fini());
}
END_TEST

/* ---- Values that are not valid ---------------------------------------------------------------------------- */

#define TEXT(field, value, error, why)                                                                         \
    {                                                                                                          \
        offsetof(exs_config_t, field), value, 0, error, #field "=" value why                                   \
    }
#define NUMBER(field, value, why)                                                                              \
    {                                                                                                          \
        offsetof(exs_config_t, field), NULL, value, EINVAL, #field "=" #value why                              \
    }

static const struct {
    size_t at;
    const char *text;
    int number, error;
    const char *message;
} wrong[] = {
    TEXT(exs_link, "rope", EINVAL, " is not a link: set it to auto, shm, tcp or udp"),
    TEXT(exs_tcp_congestion, "warp", EINVAL, " is unavailable"),
    TEXT(exs_roce, "sometimes", EINVAL, " is not known: set it to off, on, auto or only"),
    TEXT(exs_device, "no-such-device-0", ENODEV, " is not a device"),
    NUMBER(exs_spin_us, 1000001, " is not a number of microseconds"),
    NUMBER(exs_spin_us, -2, " is not a number of microseconds"),
    NUMBER(exs_map, 2, " is not known: set it to 0 or 1"),
    NUMBER(exs_immediate, -2, " is not known: set it to 0 or 1"),
    NUMBER(exs_debug, 3, " is not known: set it to 0, 1 or 2"),
    NUMBER(exs_check, 3, " is not known: set it to 0, 1 or abort"),
    NUMBER(exs_rcvbuf, -1, " is less than 0"),
    NUMBER(exs_sndbuf, -1, " is less than 0"),
    NUMBER(exs_half_open, -1, " is less than 0"),
};

/* The error names the field. It changes nothing: another configuration can be used then. */
START_TEST(wrong_value)
{
    exs_config_t config = logged(1);

    must(unsetenv("EXS_DEVICE"));
    if (wrong[_i].text != NULL)
        memcpy((char *)&config + wrong[_i].at, &wrong[_i].text, sizeof(wrong[_i].text));
    else
        memcpy((char *)&config + wrong[_i].at, &wrong[_i].number, sizeof(wrong[_i].number));
    must_fail(exs_init_config(EXS_VERSION, &config), wrong[_i].error);
    const char *text = exs_errmsg();

    ck_assert_msg(strncmp(text, "exs_init_config: ", 17) == 0 &&
                      strncmp(text + 17, wrong[_i].message, strlen(wrong[_i].message)) == 0,
                  "%s", text);
    if (wrong[_i].at != offsetof(exs_config_t, exs_debug))
        ck_assert_int_eq(taken.calls, 1);
    must_fail(exs_qfd(NULL), EPERM);
    must(exs_init(EXS_VERSION));
    must(exs_fini());
}
END_TEST

/* The same value in the environment: the error names the variable. */
START_TEST(wrong_variable)
{
    exs_config_t config = logged(1);

    config.exs_link = "tcp";
    must(setenv("EXS_LINK", "rope", 1));
    must_fail(exs_init_config(EXS_VERSION, &config), EINVAL);
    ck_assert_ptr_nonnull(strstr(exs_errmsg(), "EXS_LINK=rope is not a link"));
}
END_TEST

/* ---- The size -------------------------------------------------------------------------------------------- */

/* Of a program that was compiled with a later version: unknown fields must not be set. */
START_TEST(larger_struct)
{
    struct {
        exs_config_t config;
        char more[200];
    } later = {.config = EXS_CONFIG_INIT};
    size_t at = (size_t[]){0, 100, 199}[_i];

    no_environment();
    later.config.exs_size = sizeof(later);
    later.config.exs_link = "tcp";
    later.more[at] = 1;
    must_fail(exs_init_config(EXS_VERSION, &later.config), EINVAL);
    char byte[32];

    snprintf(byte, sizeof(byte), "byte %zu ", sizeof(exs_config_t) + at);
    ck_assert_msg(strstr(exs_errmsg(), byte) != NULL, "%s", exs_errmsg());
    later.more[at] = 0;
    must(exs_init_config(EXS_VERSION, &later.config));
    ck_assert(settings()->tcp && !settings()->shm);
    must(exs_fini());
}
END_TEST

/* 3.0.0 has the shortest struct. One that ends within a field would have half a pointer. */
START_TEST(no_size)
{
    static const size_t sizes[] = {0, sizeof(size_t), 12, sizeof(exs_config_t) - 1, 4097, SIZE_MAX};
    exs_config_t config = EXS_CONFIG_INIT;

    config.exs_size = sizes[_i];
    must_fail(exs_init_config(EXS_VERSION, &config), EINVAL);
    ck_assert_ptr_nonnull(strstr(exs_errmsg(), "EXS_CONFIG_INIT"));
    must_fail(exs_qfd(NULL), EPERM);
}
END_TEST

/* ---- Another call ---------------------------------------------------------------------------------------- */

/* A field that is not set agrees with every value, and one that is set with the same value. The strings of the
 * first call may be gone. */
START_TEST(agreeing_calls)
{
    exs_config_t config = logged(1), none = EXS_CONFIG_INIT, part = EXS_CONFIG_INIT;
    char link[] = "tcp";

    config.exs_link = link;
    config.exs_spin_us = 5;
    start(&config);
    memset(link, 'x', 3);
    part.exs_link = "tcp";
    config.exs_link = "tcp";
    must(exs_init_config(EXS_VERSION, &part));
    must(exs_init_config(EXS_VERSION, &config));
    must(exs_init_config(EXS_VERSION, &none));
    must(exs_init_config(EXS_VERSION, NULL));
    must(exs_init(EXS_VERSION));
    must_fail(exs_init_config(EXS_VERSION + 1, &part), ENOTSUP);
    for (int i = 0; i < 6; i++) {
        must_fail(exs_qfd(NULL), EINVAL);
        must(exs_fini());
    }
    must_fail(exs_fini(), EPERM);
    ck_assert_int_eq(taken.calls, 7);
}
END_TEST

static void take_other(void *context, int level, const char *text)
{
    (void)context, (void)level, (void)text;
}

START_TEST(other_calls)
{
    exs_config_t first = logged(0);

    first.exs_link = "tcp";
    first.exs_spin_us = 5;
    if (_i)
        must(exs_init_config(EXS_VERSION, &first));
    else
        must(exs_init(EXS_VERSION));
    for (int i = 0; i < 15; i++) {
        static const char *const names[] = {
            "exs_device",    "exs_link",   "exs_tcp_congestion", "exs_roce",  "exs_spin_us",
            "exs_map",       "exs_debug",  "exs_immediate",      "exs_check", "exs_rcvbuf",
            "exs_half_open", "exs_sndbuf", "exs_ring_bytes",     "exs_log",   "exs_log",
        };
        exs_config_t other = EXS_CONFIG_INIT;

        other.exs_device = i == 0 ? "soft" : NULL;
        other.exs_link = i == 1 ? "shm" : "";
        other.exs_tcp_congestion = i == 2 ? "reno" : NULL;
        other.exs_roce = i == 3 ? "auto" : NULL;
        other.exs_spin_us = 6 * (i == 4);
        other.exs_map = i == 5;
        other.exs_debug = i == 6;
        other.exs_immediate = i == 7;
        other.exs_check = i == 8;
        other.exs_rcvbuf = i == 9;
        other.exs_half_open = i == 10;
        other.exs_sndbuf = i == 11;
        other.exs_ring_bytes = i == 12;
        other.exs_log = i == 13 ? take_other : i == 14 ? take_line : NULL;
        must_fail(exs_init_config(EXS_VERSION, &other), EALREADY);
        ck_assert_msg(strncmp(exs_errmsg(), "exs_init_config: ", 17) == 0 &&
                          strstr(exs_errmsg(), names[i]) != NULL,
                      "%s", exs_errmsg());
    }
    must(exs_fini()); /* none of them counts */
    must_fail(exs_fini(), EPERM);
}
END_TEST

/* In a forked child, and after the last exs_fini, another configuration is used. */
START_TEST(begun_again)
{
    exs_config_t config = logged(1), other = EXS_CONFIG_INIT;

    config.exs_link = "tcp";
    other.exs_link = "udp";
    must(exs_init_config(EXS_VERSION, &config));
    pid_t pid = fork();

    must(pid);
    if (pid == 0) {
        bool is_good = exs_init_config(EXS_VERSION, &other) == 0 && !settings()->tcp && !settings()->debug &&
                       exs_fini() == 0 && exs_fini() == -1;

        _exit(is_good ? 0 : 1);
    }
    int status;

    must(waitpid(pid, &status, 0));
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    must(exs_fini());
    must(exs_init_config(EXS_VERSION, &other));
    ck_assert(!settings()->tcp && !settings()->debug);
    must(exs_fini());
}
END_TEST

/* ---- The log --------------------------------------------------------------------------------------------- */

/* Redirects standard error, which gets the lines of the log if no function is set, to a temporary file. */
static FILE *catch_stderr(void)
{
    FILE *file = tmpfile();

    ck_assert_ptr_nonnull(file);
    must(dup2(fileno(file), STDERR_FILENO));
    return file;
}

static long written(FILE *file)
{
    must(fseek(file, 0, SEEK_END));
    return ftell(file);
}

/* The lines of a connection, of a failure and of each operation, with their levels, of core/ and of soft/. */
START_TEST(log_lines)
{
    exs_config_t config = logged(_i);
    FILE *error = catch_stderr();
    struct pair pair;

    config.exs_device = "soft";
    config.exs_link = "tcp";
    must(unsetenv("EXS_DEVICE"));
    must(exs_init_config(EXS_VERSION, &config));
    pair_open(&pair, AF_INET, SOCK_STREAM);
    must_fail(exs_qfd(NULL), EINVAL);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 100, 1);
    pair_close(&pair);
    ck_assert(has_line("1 invalid argument: qhandle is not a queue\n") == (_i > 0));
    ck_assert(has_line("1 connection to 127.0.0.1 port ") == (_i > 0));
    ck_assert(has_line(" goes by tcp because EXS_LINK says so\n") == (_i > 0));
    ck_assert(has_line("exs_send of 100 bytes begins\n") == (_i > 1));
    ck_assert(has_line("\n2 socket ") == (_i > 1));
    ck_assert_int_eq(taken.calls > 0, _i > 0);
    ck_assert_int_eq(written(error), 0);
    must(exs_fini());
    fclose(error);
}
END_TEST

/* What EXS_CHECK reports has a level that does not depend on exs_debug. */
START_TEST(log_of_misuse)
{
    exs_config_t config = logged(0);

    config.exs_check = 1;
    start(&config);
    int socket = exs_socket(AF_INET, SOCK_STREAM, 0);

    must(exs_blocking_close(socket));
    must_fail(exs_getdevice(socket, (char[8]){""}, 8), EBADF);
    ck_assert_msg(has_line("0 misuse: exs_getdevice: socket "), "%s", taken.text);
    ck_assert_int_eq(taken.calls, 1);
    must(exs_fini());
}
END_TEST

/* After exs_fini the function is not called any more: a program that goes on without it logs to standard error. */
START_TEST(log_ends)
{
    exs_config_t config = logged(1);

    start(&config);
    must_fail(exs_qfd(NULL), EINVAL);
    must(exs_fini());
    FILE *error = catch_stderr();

    must(setenv("EXS_DEBUG", "1", 1));
    must(exs_init(EXS_VERSION));
    must_fail(exs_qfd(NULL), EINVAL);
    ck_assert_int_eq(taken.calls, 1);
    ck_assert_int_gt(written(error), 0);
    must(exs_fini());
    fclose(error);
}
END_TEST

enum { LOGGERS = 4, LOGGED = 500 };

static void *fail_often(void *unused)
{
    for (int i = 0; i < LOGGED; i++)
        must_fail(exs_qfd(NULL), EINVAL); /* and not the errno that the log leaves */
    return unused;
}

START_TEST(one_thread_at_a_time)
{
    exs_config_t config = logged(1);
    pthread_t threads[LOGGERS];

    start(&config);
    for (int i = 0; i < LOGGERS; i++)
        threads[i] = thread_start(fail_often, NULL);
    for (int i = 0; i < LOGGERS; i++)
        thread_join(threads[i]);
    ck_assert_int_eq(taken.calls, LOGGERS * LOGGED);
    must(exs_fini());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *config = add_bare_case(suite, "config", 20);

    tcase_add_loop_test(config, nothing_configured, 0, 2);
    tcase_add_loop_test(config, each_field, 0, 2);
    tcase_add_test(config, the_environment_first);
    tcase_add_test(config, buffers);
    tcase_add_loop_test(config, wrong_value, 0, COUNT(wrong));
    tcase_add_test(config, wrong_variable);
    tcase_add_loop_test(config, larger_struct, 0, 3);
    tcase_add_loop_test(config, no_size, 0, 6);
    tcase_add_test(config, agreeing_calls);
    tcase_add_loop_test(config, other_calls, 0, 2);
    tcase_add_test(config, begun_again);
    tcase_add_loop_test(config, log_lines, 0, 3);
    tcase_add_test(config, log_of_misuse);
    tcase_add_test(config, log_ends);
    tcase_add_test(config, one_thread_at_a_time);
    return run_suite(suite);
}
