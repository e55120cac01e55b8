/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_recvfile_bad.c - exs_recvfile into files that are mapped or cannot be mapped, or that are truncated or
 * extended during the receive; and connections that end while a file is filled.
 */
#include "core/conn/conn.h"
#include "core/sock/sock.h"
#include "receiving.h"

#include <fcntl.h>

/* ---- Mapped files -------------------------------------------------------------------- */

/* Returns whether the file is mapped into this process, shared and writable. */
static bool is_mapped(const char *name)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[500];
    bool found = false;

    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof line, maps) != NULL)
        found = found || (strstr(line, " rw-s ") != NULL && strstr(line, name) != NULL);
    fclose(maps);
    return found;
}

/* Returns whether the client has an advertisement of the server. */
static bool is_advertised(void)
{
    struct sock *sock = xs_sock_get_locked(pair.client);
    bool known = sock->conn->peer_adverts.count > 0;

    xs_sock_put_locked(sock);
    return known;
}

static void until_advertised(void)
{
    while (!is_advertised())
        inbox_pump(pair.server_box, WAIT_MS);
}

/* The peer writes directly into a file that can be mapped and registered. The software device registers every
 * mapping. */
START_TEST(without_copies)
{
    int file = folder_file(&folder, "mapped", 0), writes = open(folder_path(&folder, "mapped"), O_WRONLY);
    exs_xferfile_t one = by_fd(_i == 0 ? file : writes, 0, 3 * MIB);
    uint8_t *bytes;

    receive_files(&one, 1, 0);
    ck_assert_int_eq(is_mapped("mapped"), _i == 0 && (!on_rdma() || is_mapped("mapped")));
    if (_i == 0 && !on_rdma())
        until_advertised();
    else
        inbox_pump(pair.client_box, 5);
    ck_assert(_i == 0 || !is_advertised());
    bytes = send_pattern(3 * MIB, 0);
    take_good(pair.server_box, EXS_EVT_RECVFILE, pair.server);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    ck_assert(!is_mapped("mapped"));
    file_has_pattern(file, 0, 3 * MIB, SEED, 0);
    file_has_length(file, 3 * MIB);
    free(bytes);
    close(file);
    close(writes);
}
END_TEST

/* ---- Files that are truncated -------------------------------------------------------- */

/* A truncated mapped file is an error of the receive and causes no SIGBUS. A file that the library copies into
 * grows again. */
START_TEST(truncated)
{
    bool copied = _i % 2 == 1;
    int file = folder_file(&folder, "file", 0), writes = open(folder_path(&folder, "file"), O_WRONLY);
    exs_xferfile_t one = by_fd(copied ? writes : file, 0, 2 * MIB);
    uint8_t *bytes;

    receive_files(&one, 1, 0);
    bool mapped = is_mapped("file");

    ck_assert(!copied || !mapped);
    ck_assert(copied || on_rdma() || mapped);
    if (mapped)
        until_advertised();
    must(ftruncate(file, 0));
    bytes = send_pattern(2 * MIB, 0);
    exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECVFILE, pair.server);

    ck_assert_int_eq(event.exs_evt_errno, mapped ? EIO : 0);
    inbox_take(pair.client_box, EXS_EVT_SEND, pair.client);
    if (!mapped)
        file_has_pattern(file, 0, 2 * MIB, SEED, 0);
    close_socket(pair.client_box, pair.client);
    close_socket(pair.server_box, pair.server);
    pair_close_rest(&pair);
    free(bytes);
    close(file);
    close(writes);
    folder_clear(&folder);
}
END_TEST

/* The file is truncated after the peer has filled the mapped window, and before this end has polled: the
 * receive fails then, and not at its end. */
START_TEST(truncated_late)
{
    int file = folder_file(&folder, "file", 0);
    exs_xferfile_t one = by_fd(file, 0, 8 * MIB);
    uint8_t *bytes;

    receive_files(&one, 1, 0);
    bool mapped = is_mapped("file");

    if (mapped)
        until_advertised();
    pair.client_box->beside = NULL;
    bytes = send_pattern(mapped ? 4 * MIB : 100, 0);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    must(ftruncate(file, 0));
    if (mapped) {
        take_failed(pair.server_box, EXS_EVT_RECVFILE, pair.server, EIO);
        pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 1000, 1);
    }
    close_socket(pair.server_box, pair.server);
    close_socket(pair.client_box, pair.client);
    if (!mapped)
        take_failed(pair.server_box, EXS_EVT_RECVFILE, pair.server, ECANCELED);
    pair_close_rest(&pair);
    free(bytes);
    close(file);
    folder_clear(&folder);
}
END_TEST

/* The file is truncated when everything but the end of stream has arrived. */
START_TEST(truncated_at_last)
{
    int file = folder_file(&folder, "file", 0);
    exs_xferfile_t one = by_fd(file, 0, 2 * MIB);
    uint8_t *bytes;

    receive_files(&one, 1, 0);
    bool mapped = is_mapped("file");

    if (mapped)
        until_advertised();
    bytes = send_pattern(MIB, 0);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    inbox_quiet(pair.server_box, 0);
    must(ftruncate(file, 1000));
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
    take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECVFILE, pair.server);

    ck_assert_int_eq(event.exs_evt_errno, mapped ? EIO : 0);
    file_has_length(file, 1000); /* the library does not extend it */
    free(bytes);
    close(file);
}
END_TEST

/* Another writer extends the file: it keeps that length. */
START_TEST(grown)
{
    int file = folder_file(&folder, "file", 0);
    exs_xferfile_t one = by_fd(file, 0, 2 * MIB);
    uint8_t *bytes;

    receive_files(&one, 1, 0);
    bytes = send_pattern(MIB, 0);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    ck_assert_int_eq(pwrite(file, "z", 1, 10 * MIB - 1), 1);
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
    take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    take_good(pair.server_box, EXS_EVT_RECVFILE, pair.server);
    file_has_length(file, 10 * MIB);
    file_has_pattern(file, 0, MIB, SEED, 0);
    free(bytes);
    close(file);
}
END_TEST

/* ---- Connections that end ------------------------------------------------------------ */

/* The receive ends because of a close, of the peer's close, or of SHUT_RD. The received bytes are in the file,
 * which ends with them. */
START_TEST(ended)
{
    int file = folder_file(&folder, "file", 0), before = count_fds();
    exs_xferfile_t one = by_fd(file, 0, _i % 2 ? 0 : 2 * MIB);
    uint8_t *bytes;

    receive_files(&one, 1, 0);
    bytes = send_pattern(200000, 0);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    inbox_quiet(pair.server_box, 0);
    if (_i / 2 == 0) {
        must(exs_close(pair.server, 0, pair.server_box->queue, NULL));
    } else if (_i / 2 == 1) {
        close_socket(pair.client_box, pair.client);
    } else {
        must(exs_shutdown(pair.server, SHUT_RD, 0, pair.server_box->queue, NULL));
        take_good(pair.server_box, EXS_EVT_SHUTDOWN, pair.server);
    }
    exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECVFILE, pair.server);

    ck_assert_int_eq(event.exs_evt_errno, _i / 2 == 0 ? ECANCELED : 0);
    ck_assert_int_eq(event.exs_evt_union.exs_evt_xferfile.exs_evt_flags, _i / 2 == 0 ? 0 : EXS_EOF);
    ck_assert_int_eq(length_of(&event), 200000);
    file_has_length(file, 200000);
    file_has_pattern(file, 0, 200000, SEED, 0);
    ck_assert(!is_mapped("file"));
    if (_i / 2 == 0)
        take_good(pair.server_box, EXS_EVT_CLOSE, pair.server);
    else
        close_socket(pair.server_box, pair.server);
    if (_i / 2 != 1)
        close_socket(pair.client_box, pair.client);
    ck_assert_int_le(count_fds(), before);
    pair_close_rest(&pair);
    free(bytes);
    close(file);
    folder_clear(&folder);
}
END_TEST

static void send_and_wait(int fd, void *unused)
{
    struct address to;
    uint8_t *bytes = new_buffer(200000);
    int socket;

    (void)unused;
    init_library();
    hear(fd, &to, sizeof to);
    socket = exs_socket(AF_INET, SOCK_STREAM, 0);
    must(socket);
    must(exs_blocking_connect(socket, SA(&to), to.length));
    pattern_fill(bytes, 200000, SEED, 0);
    ck_assert_int_eq(exs_blocking_send(socket, bytes, 200000, 0, NULL), 200000);
    tell(fd, "s", 1);
    pause();
}

/* The peer is killed. */
START_TEST(killed)
{
    struct child child;
    struct address address;
    char said;

    child_start(&child, send_and_wait, NULL);
    init_library();
    folder_make(&folder);
    int listener = open_listener(AF_INET, SOCK_STREAM, 5, &address);

    tell(child.fd, &address, sizeof address);
    int socket = exs_blocking_accept(listener, NULL, NULL), file = folder_file(&folder, "file", 0);
    exs_xferfile_t first = by_fd(file, 0, 200000), all = by_fd(file, 200000, 0);

    must(socket);
    ck_assert_int_eq(exs_blocking_recvfile(socket, &first, 1, 0), 200000);
    hear(child.fd, &said, 1);
    child_kill(&child);
    must_fail(exs_blocking_recvfile(socket, &all, 1, 0), ECONNRESET);
    file_has_length(file, 200000);
    file_has_pattern(file, 0, 200000, SEED, 0);
    must(exs_blocking_close(socket));
    must(exs_blocking_close(listener));
    close(file);
    folder_clear(&folder);
}
END_TEST

int main(void)
{
    setenv("EXS_MAP", "1", 1); /* map files on every device */
    Suite *suite = suite_create("recvfile, what goes wrong");
    TCase *whole = add_bare_case(suite, "mapped or not", 20), *cut = add_bare_case(suite, "cut short", 20),
          *alone = add_bare_case(suite, "the peer is killed", 20);

    tcase_add_checked_fixture(whole, open_all, close_all);
    tcase_add_loop_test(whole, without_copies, 0, 2);
    tcase_add_test(whole, grown);
    tcase_add_test(whole, truncated_at_last);
    tcase_add_checked_fixture(cut, open_all, NULL);
    tcase_add_loop_test(cut, truncated, 0, 2);
    tcase_add_test(cut, truncated_late);
    tcase_add_loop_test(cut, ended, 0, 6);
    tcase_add_test(alone, killed);
    return run_suite(suite);
}
