/* SPDX-License-Identifier: BSD-2-Clause */
/* exs.hpp: every function in each of its forms. check/cxx/builds compiles this file by each compiler, as C++17 and C++20,
 * with exceptions and without. */
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exs.hpp>
#include <fcntl.h>
#include <netinet/in.h>
#include <string_view>
#include <thread>
#include <vector>

using namespace std::string_view_literals;

#define REQUIRE(condition)                                                                                     \
    do {                                                                                                       \
        if (!(condition)) {                                                                                    \
            std::fprintf(stderr, "line %d: not true: %s\n", __LINE__, #condition);                             \
            std::exit(1);                                                                                      \
        }                                                                                                      \
    } while (0)

static void require_ok(const std::error_code &ec, int line)
{
    if (!ec)
        return;
    std::fprintf(stderr, "line %d: %s\n", line, ec.message().c_str());
    std::exit(1);
}
#define REQUIRE_OK(ec) require_ok(ec, __LINE__)

/* ---- What compiles ---------------------------------------------------------------------- */

template <typename Handle> constexpr bool moves_only()
{
    return std::is_nothrow_move_constructible_v<Handle> && std::is_nothrow_move_assignable_v<Handle> &&
           !std::is_copy_constructible_v<Handle> && !std::is_copy_assignable_v<Handle>;
}
static_assert(moves_only<exs::socket>() && moves_only<exs::queue>() && moves_only<exs::memory_region>());

struct not_bytes {
    std::vector<int> inner;
};
template <typename From> constexpr bool reads = std::is_constructible_v<exs::const_buffer, From>;
template <typename From> constexpr bool writes = std::is_constructible_v<exs::mutable_buffer, From>;
static_assert(reads<std::string> && reads<const std::string &> && reads<std::string_view> &&
              reads<std::vector<int> &>);
static_assert(reads<char (&)[4]> && reads<exs::mutable_buffer> && reads<const std::array<long, 2> &>);
static_assert(!reads<const char (&)[4]>, "a literal says whether its zero is sent");
static_assert(!reads<std::vector<not_bytes> &> && !reads<int> && !reads<const char *>);
static_assert(writes<std::string &> && writes<std::vector<int> &> && writes<char (&)[4]>);
static_assert(!writes<const std::string &> && !writes<std::string_view> && !writes<std::vector<not_bytes> &>);
#ifdef EXS_HPP_EXCEPTIONS
static_assert(std::is_constructible_v<exs::socket, int, int>);
#else
static_assert(!std::is_constructible_v<exs::socket, int, int>);
#endif

/* ---- What all tests share ----------------------------------------------------------------- */

/* A listener on a port of its own. */
static exs::socket make_listener(sockaddr_in &here, int type = SOCK_STREAM)
{
    std::error_code ec;
    socklen_t length = sizeof(here);
    exs::socket listener(PF_INET, type, ec);

    REQUIRE_OK(ec);
    here = {};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener.bind(reinterpret_cast<sockaddr *>(&here), length, ec);
    REQUIRE_OK(ec);
    listener.listen(8, ec);
    REQUIRE_OK(ec);
    REQUIRE(exs_getsockname(listener.get(), reinterpret_cast<sockaddr *>(&here), &length) == 0);
    return listener;
}

static std::string port_of(const sockaddr_in &address)
{
    return std::to_string(ntohs(address.sin_port));
}

/* ---- Errors and handles -------------------------------------------------------------------- */

static void test_errors()
{
    std::error_code ec = exs::make_error_code(ECONNREFUSED);

    REQUIRE(ec.category() == exs::category() && exs::category().name() == "exs"sv);
    REQUIRE(ec == std::errc::connection_refused && ec != std::errc::connection_reset);
    REQUIRE(ec.message() == std::strerror(ECONNREFUSED));

    exs::socket sock(PF_UNIX, SOCK_STREAM, ec);
    REQUIRE(!sock && sock.get() == -1 && ec == std::errc::address_family_not_supported);
    exs::queue queue(-1, ec);
    REQUIRE(!queue && queue.get() == EXS_QHANDLE_INVALID && ec == std::errc::invalid_argument &&
            queue.fd() == -1);
    exs::memory_region region({nullptr, 0}, ec);
    REQUIRE(!region && region.get() == EXS_MHANDLE_INVALID && ec == std::errc::invalid_argument);
}

static void test_handles()
{
    std::error_code ec;
    exs::socket first(PF_INET, SOCK_STREAM, ec), second(PF_INET, SOCK_SEQPACKET, ec);
    int number = first.get(), other = second.get();

    REQUIRE(first && second && number != other);
    second = std::move(first); /* closes the second's */
    REQUIRE(second.get() == number && exs_fcntl(other, F_GETFD) == -1 && errno == EBADF);
    exs::socket third(std::move(second));
    REQUIRE(third.get() == number);
    int released = third.release();
    REQUIRE(released == number && !third && exs_fcntl(number, F_GETFD) != -1);
    {
        exs::socket owner(released);
    }
    REQUIRE(exs_fcntl(number, F_GETFD) == -1 && errno == EBADF);
    exs::socket closed(PF_INET, SOCK_STREAM, ec);
    number = closed.get();
    closed.close(ec);
    REQUIRE_OK(ec);
    REQUIRE(!closed && exs_fcntl(number, F_GETFD) == -1);
    closed.close(ec);
    REQUIRE(ec == std::errc::bad_file_descriptor);
    closed.reset(exs_socket(PF_INET, SOCK_STREAM, 0));
    REQUIRE(closed);

    exs::queue queue(4, ec);
    REQUIRE_OK(ec);
    exs_qhandle_t handle = queue.get();
    REQUIRE(queue.fd() == exs_qfd(handle) && queue.fd() != -1);
    exs::queue moved = std::move(queue);
    REQUIRE(moved.get() == handle);
    moved.reset();
    REQUIRE(exs_qdelete(handle) == -1);
}

static void test_buffers()
{
    std::array<int, 4> numbers = {};
    std::string text = "abcdef";
    exs::mutable_buffer all = numbers;

    REQUIRE(all.data == numbers.data() && all.size == sizeof(numbers) && all.region == nullptr);
    REQUIRE(all.part(4).data == &numbers[1] && all.part(4).size == 12 && all.part(4, 8).size == 8);
    REQUIRE(all.part(99).size == 0 && all.part(99).data == numbers.data() + 4);
    exs::const_buffer letters = text;
    REQUIRE(letters.data == text.data() && letters.size == 6 && letters.part(2, 2).data == text.data() + 2);
    REQUIRE(letters.part(7).size == 0 && exs::const_buffer(all).size == all.size);
    REQUIRE(exs::const_buffer("abc"sv).size == 3 && exs::const_buffer("abc", 4).size == 4);
    REQUIRE(exs::const_buffer().size == 0 && exs::mutable_buffer().data == nullptr);
}

/* ---- Blocking calls ------------------------------------------------------------------------ */

static void serve_one(exs::socket &listener)
{
    std::error_code ec;
    std::vector<char> memory(1 << 16);
    exs::memory_region region(memory, ec);

    REQUIRE_OK(ec);
    exs::socket sock = listener.accept(ec);
    REQUIRE_OK(ec);
    for (;;) {
        std::size_t length = sock.recv(region.buffer(), ec);
        REQUIRE_OK(ec);
        if (length == 0)
            break;
        REQUIRE(sock.send(region.buffer().part(0, length), ec) == length);
        REQUIRE_OK(ec);
    }
    sock.close(ec);
    REQUIRE_OK(ec);
}

static void test_blocking()
{
    std::error_code ec;
    sockaddr_in here;
    exs::socket listener = make_listener(here);
    std::thread server([&] {
        serve_one(listener);
        serve_one(listener);
    });
    std::array<char, 5> answer;

    for (bool by_name : {true, false}) {
        exs::socket sock(PF_INET, SOCK_STREAM, ec);
        REQUIRE_OK(ec);
        if (by_name)
            sock.connect("127.0.0.1", port_of(here).c_str(), ec);
        else
            sock.connect(reinterpret_cast<sockaddr *>(&here), sizeof(here), ec);
        REQUIRE_OK(ec);
        REQUIRE(sock.recv(answer, ec, MSG_DONTWAIT) == 0 && ec == std::errc::resource_unavailable_try_again);
        REQUIRE(sock.send("hello"sv, ec) == 5);
        REQUIRE_OK(ec);
        REQUIRE(sock.recv(answer, ec, MSG_WAITALL) == 5);
        REQUIRE_OK(ec);
        REQUIRE(std::string_view(answer.data(), answer.size()) == "hello");
        sock.shutdown(SHUT_WR, ec);
        REQUIRE_OK(ec);
        REQUIRE(sock.recv(answer, ec) == 0 && !ec);
        REQUIRE(sock.send("more"sv, ec) == 0 && ec == std::errc::broken_pipe);
    }
    server.join();

    exs::socket lonely(PF_INET, SOCK_STREAM, ec);
    std::string port = port_of(here);
    listener.close(ec);
    REQUIRE_OK(ec);
    lonely.connect("127.0.0.1", port.c_str(), ec);
    REQUIRE(ec == std::errc::connection_refused);
    lonely.shutdown(SHUT_WR, ec);
    REQUIRE(ec == std::errc::not_connected);
    lonely.accept(ec);
    REQUIRE(ec);
    lonely.bind(nullptr, 0, ec);
    REQUIRE(ec);
    exs::socket().listen(1, ec);
    REQUIRE(ec == std::errc::bad_file_descriptor);
}

/* Events without coroutines. */
static void test_queue()
{
    using namespace std::chrono_literals;
    std::error_code ec;
    exs_event_t event;
    sockaddr_in here;
    exs::queue queue(4, ec);

    REQUIRE(queue.dequeue(&event, 1, 0us, ec) == 0 && !ec);
    REQUIRE(queue.dequeue(&event, 1, 1500us, ec) == 0 && !ec);
    REQUIRE(queue.dequeue(nullptr, 1, ec) == -1 && ec);
    exs::socket listener = make_listener(here), sock(PF_INET, SOCK_STREAM, ec);
    exs_acceptaddr_t element = {};
    REQUIRE(exs_accept(listener.get(), &element, 1, 0, queue.get()) == 0);
    std::thread client([&] { sock.connect("127.0.0.1", port_of(here).c_str(), ec); });
    std::error_code waiting;
    REQUIRE(queue.dequeue(&event, 1, waiting) == 1 && event.exs_evt_type == EXS_EVT_ACCEPT && !waiting);
    exs::socket server(static_cast<int>(exs_event_result(&event)));
    REQUIRE(server);
    client.join();
    REQUIRE_OK(ec);
    std::array<char, 4> bytes;
    REQUIRE(exs_recv(server.get(), bytes.data(), bytes.size(), MSG_WAITALL, queue.get(), &bytes, nullptr) == 0);
    REQUIRE(sock.send("abcd"sv, ec) == 4);
    REQUIRE(queue.dequeue(&event, 1, 1h, ec) == 1 && !ec && event.exs_evt_ahandle == &bytes);
}

/* ---- The forms that throw ------------------------------------------------------------------ */

#ifdef EXS_HPP_EXCEPTIONS
/* The error and the sentence of a call that throws. */
template <typename Call> void require_throw(std::errc expected, const char *text, Call call)
{
    try {
        call();
    } catch (const exs::error &e) {
        if (e.code() == expected && std::strstr(e.what(), text) != nullptr)
            return;
        std::fprintf(stderr, "thrown: %s (%d)\n", e.what(), e.code().value());
        std::exit(1);
    }
    std::fprintf(stderr, "not thrown: %s\n", text);
    std::exit(1);
}

static void test_exceptions()
{
    exs::socket none;
    exs::queue no_queue;
    exs_event_t event;
    std::array<char, 4> bytes;
    sockaddr_in here;

    require_throw(std::errc::address_family_not_supported, "exs_socket",
                  [] { exs::socket(PF_UNIX, SOCK_STREAM); });
    require_throw(std::errc::invalid_argument, "-1", [] { exs::queue(-1); });
    require_throw(std::errc::invalid_argument, "exs_mregister",
                  [] { exs::memory_region(exs::mutable_buffer(nullptr, 0)); });
    require_throw(std::errc::invalid_argument, "exs_qdequeue", [&] { no_queue.dequeue(&event, 1); });
    require_throw(std::errc::invalid_argument, "exs_qdequeue",
                  [&] { no_queue.dequeue(&event, 1, std::chrono::microseconds(0)); });
    require_throw(std::errc::bad_file_descriptor, "exs_bind",
                  [&] { none.bind(reinterpret_cast<sockaddr *>(&here), sizeof(here)); });
    require_throw(std::errc::bad_file_descriptor, "exs_listen", [&] { none.listen(1); });
    require_throw(std::errc::bad_file_descriptor, "", [&] { none.accept(); });
    require_throw(std::errc::bad_file_descriptor, "",
                  [&] { none.connect(reinterpret_cast<sockaddr *>(&here), sizeof(here)); });
    require_throw(std::errc::bad_file_descriptor, "", [&] { none.connect("127.0.0.1", "1"); });
    require_throw(std::errc::bad_file_descriptor, "", [&] { none.send(bytes); });
    require_throw(std::errc::bad_file_descriptor, "", [&] { none.recv(bytes); });
    require_throw(std::errc::bad_file_descriptor, "exs_shutdown", [&] { none.shutdown(SHUT_WR); });
    require_throw(std::errc::bad_file_descriptor, "exs_close", [&] { none.close(); });

    exs::library once_more;
    exs_config_t config = EXS_CONFIG_INIT;
    exs::library configured(config);
    config.exs_rcvbuf = 4096;
    require_throw(std::errc::connection_already_in_progress, "exs_rcvbuf", [&] { exs::library other(config); });
    exs::socket listener(PF_INET, SOCK_STREAM);
    socklen_t length = sizeof(here);
    here = {};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener.bind(reinterpret_cast<sockaddr *>(&here), length);
    listener.listen(8);
    exs_getsockname(listener.get(), reinterpret_cast<sockaddr *>(&here), &length);
    std::thread server([&] {
        exs::socket sock = listener.accept();
        std::vector<char> memory(64);
        exs::memory_region region(memory);
        exs::queue queue(1);
        exs_event_t received;
        REQUIRE(queue.dequeue(&received, 1, std::chrono::microseconds(0)) == 0);
        exs::mutable_buffer into = region.buffer();
        REQUIRE(exs_recv(sock.get(), into.data, 3, MSG_WAITALL, queue.get(), nullptr, into.region) == 0);
        REQUIRE(queue.dequeue(&received, 1) == 1 && exs_event_result(&received) == 3);
        REQUIRE(sock.send(into.part(0, 3)) == 3);
        sock.close();
    });
    exs::socket sock(PF_INET, SOCK_STREAM);
    sock.connect(reinterpret_cast<sockaddr *>(&here), length);
    REQUIRE(sock.send("abc"sv) == 3 && sock.recv(bytes, MSG_WAITALL) == 3 && sock.recv(bytes) == 0);
    sock.shutdown(SHUT_WR);
    server.join();
    listener.close();
    require_throw(std::errc::connection_refused, "refused", [&] {
        exs::socket late(PF_INET, SOCK_STREAM);
        late.connect("127.0.0.1", port_of(here).c_str());
    });
}
#endif

/* ---- Coroutines ---------------------------------------------------------------------------- */

#ifdef EXS_HPP_COROUTINES
static void run_until(exs::queue &queue, const int &done, int wanted)
{
    std::array<exs_event_t, 8> events;
    std::error_code ec;

    while (done < wanted) {
        int count = queue.dequeue(events.data(), static_cast<int>(events.size()), std::chrono::minutes(1), ec);
        REQUIRE_OK(ec);
        REQUIRE(count > 0);
        exs::dispatch(events.data(), count);
    }
}

/* Sends back what comes, until the peer's end. */
static exs::detached echo(exs::queue &queue, exs::socket sock, int &done)
{
    std::array<char, 1000> buffer; /* in the frame, for as long as the connection lasts */

    for (;;) {
        exs::completion got = co_await exs::async_recv(queue, sock, buffer);
        REQUIRE_OK(got.error());
        if (got.bytes() == 0) {
            REQUIRE((got.flags() & EXS_EOF) != 0 && got.event().exs_evt_type == EXS_EVT_RECV);
            break;
        }
        auto sent = co_await exs::async_send(queue, sock, exs::const_buffer(buffer).part(0, got.bytes()));
        REQUIRE(!sent.error() && sent.bytes() == got.bytes());
    }
    auto closed = co_await exs::async_close(queue, std::move(sock));
    REQUIRE_OK(closed.error());
    done++;
}

static exs::detached serve(exs::queue &queue, exs::socket &listener, int &done)
{
    for (;;) {
        exs::completion got = co_await exs::async_accept(queue, listener);
        exs::socket sock = got.connection();
        if (got.error()) {
            REQUIRE(got.error() == std::errc::operation_canceled && !sock && got.bytes() == 0);
            break;
        }
        echo(queue, std::move(sock), done);
    }
    done++;
}

static exs::detached ask(exs::queue &queue, std::string port, std::size_t size, int &done)
{
    std::vector<char> question(size, 'q'), answer(size);
    std::error_code ec;
    exs::socket sock(PF_INET, SOCK_STREAM, ec);
    auto connected = co_await exs::async_connect(queue, sock, "127.0.0.1", port.c_str());

    REQUIRE_OK(connected.error());
    REQUIRE(connected.bytes() == 0 && connected.event().exs_evt_type == EXS_EVT_CONNECT);
    auto sent = co_await exs::async_send(queue, sock, question);
    REQUIRE(sent.bytes() == size);
    auto got = co_await exs::async_recv(queue, sock, answer, MSG_WAITALL);
    REQUIRE(got.bytes() == size && answer == question);
    auto ended = co_await exs::async_shutdown(queue, sock, SHUT_WR);
    REQUIRE_OK(ended.error());
    got = co_await exs::async_recv(queue, sock, answer);
    REQUIRE(!got.error() && got.bytes() == 0);
#ifdef EXS_HPP_EXCEPTIONS
    REQUIRE(sent.value() == size);
#endif
    auto closed = co_await exs::async_close(queue, std::move(sock), EXS_LINGER);
    REQUIRE_OK(closed.error());
    done++;
}

/* Operations that do not start are done at once, and do not wait for an event. */
static exs::detached fail(exs::queue &queue, const sockaddr_in &nobody, int &done)
{
    std::array<char, 4> bytes;
    std::error_code ec;
    exs::socket none;
    auto got = co_await exs::async_recv(queue, none, bytes);
    REQUIRE(got.error() == std::errc::bad_file_descriptor && got.bytes() == 0 && got.flags() == 0);
#ifdef EXS_HPP_EXCEPTIONS
    require_throw(std::errc::bad_file_descriptor, "Bad file descriptor", [&] { got.value(); });
#endif
    auto closed = co_await exs::async_close(queue, exs::socket());
    REQUIRE(closed.error() == std::errc::bad_file_descriptor);

    exs::socket sock(PF_INET, SOCK_STREAM, ec);
    int number = sock.get();
    closed = co_await exs::async_close(queue, std::move(sock), 0x40);
    REQUIRE(closed.error() && exs_fcntl(number, F_GETFD) == -1); /* the operation owned it, and has closed it */
    sock = exs::socket(PF_INET, SOCK_STREAM, ec);
    auto connected = co_await exs::async(
        [&](void *self) { /* any call */
                          return exs_connect(sock.get(), reinterpret_cast<const sockaddr *>(&nobody),
                                             sizeof(nobody), 0, nullptr, queue.get(), self);
        });
    REQUIRE(connected.error() == std::errc::connection_refused && !connected.connection());
    done++;
}

/* An operation that ends in its middle says how far it came. */
static exs::detached cut_off(exs::queue &queue, exs::socket &sock, int &done)
{
    std::array<char, 10> bytes;
    auto got = co_await exs::async_recv(queue, sock, bytes, MSG_WAITALL);

    REQUIRE(got.error() == std::errc::operation_canceled && got.bytes() == 3);
    done++;
}

static void test_coroutines()
{
    std::error_code ec;
    sockaddr_in here;
    exs::queue queue(16, ec);
    exs::socket listener = make_listener(here);
    int served = 0, asked = 0;

    serve(queue, listener, served);
    for (std::size_t size : {1UL, 900UL, 5000UL})
        ask(queue, port_of(here), size, asked);
    run_until(queue, asked, 3);
    run_until(queue, served, 3);

    exs_acceptaddr_t element = {}; /* without an ahandle: dispatch passes over its event */
    exs::socket second = make_listener(here);
    REQUIRE(exs_accept(second.get(), &element, 1, 0, queue.get()) == 0);
    exs::socket sock(PF_INET, SOCK_STREAM, ec);
    std::thread client([&] {
        sock.connect("127.0.0.1", port_of(here).c_str(), ec);
        REQUIRE_OK(ec);
        REQUIRE(sock.send("abc"sv, ec) == 3);
    });
    exs_event_t event;
    REQUIRE(queue.dequeue(&event, 1, ec) == 1);
    exs::dispatch(&event, 1);
    exs::dispatch(&event, -1);
    exs::socket server(static_cast<int>(exs_event_result(&event)));
    client.join();
    int cut = 0;
    cut_off(queue, server, cut);
    exs_stats_t stats = {};
    for (int i = 0; i < 6000 && stats.exs_received < 3; i++) {
        REQUIRE(queue.dequeue(&event, 1, std::chrono::milliseconds(10), ec) == 0);
        REQUIRE(exs_getstats(server.get(), nullptr, &stats) == 0);
    }
    REQUIRE(stats.exs_received == 3);
    REQUIRE(exs_cancel(server.get(), nullptr, EXS_CANCEL_ALL) == 1);
    run_until(queue, cut, 1);

    second.close(ec);
    int failed = 0;
    fail(queue, here, failed);
    run_until(queue, failed, 1);
    listener.reset();
    run_until(queue, served, 4);
}
#endif

int main()
{
    std::error_code ec;
    exs_config_t config = EXS_CONFIG_INIT;

    config.exs_spin_us = 20;
    exs::library library(config, ec);

    REQUIRE_OK(ec);
    exs::library counted(ec);

    REQUIRE_OK(ec);
    config.exs_spin_us = 21;
    exs::library other(config, ec);

    REQUIRE(ec == std::errc::connection_already_in_progress);
    test_errors();
    test_handles();
    test_buffers();
    test_blocking();
    test_queue();
#ifdef EXS_HPP_EXCEPTIONS
    test_exceptions();
#endif
#ifdef EXS_HPP_COROUTINES
    test_coroutines();
#endif
    /* What was tested, for check/cxx/builds. */
    std::fputs(__cplusplus >= 202002L ? "C++ 20:" : "C++ 17:", stdout);
#ifdef EXS_HPP_EXCEPTIONS
    std::fputs(" exceptions", stdout);
#endif
#ifdef EXS_HPP_COROUTINES
    std::fputs(" coroutines", stdout);
#endif
    std::puts("");
    return 0;
}
