/* SPDX-License-Identifier: BSD-2-Clause */
/* An echo server of C++20's coroutines: each connection is a function that reads as if it blocked, and all of
 * them are one thread's.
 *
 * Build: c++ -std=c++20 coroutines.cc $(pkg-config --cflags --libs exs). Run: coroutines [PORT]. */
#include <array>
#include <cerrno>
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <exs.h>
#include <netinet/in.h>

namespace
{

/* What a coroutine waits for. It is in the coroutine's frame, and its address is the operation's ahandle. */
struct operation {
    std::coroutine_handle<> waiting;
    exs_event_t event = {};
};

/* `start` gets the ahandle, and says 0 or -1. Awaited it gives the event; of an operation that did not start,
 * one with its errno. */
template <typename Start> struct awaitable : operation {
    Start start;
    explicit awaitable(Start s) : start(s)
    {
    }
    bool await_ready() const
    {
        return false;
    }
    bool await_suspend(std::coroutine_handle<> who)
    {
        waiting = who;
        if (start(static_cast<operation *>(this)) != -1)
            return true;
        event.exs_evt_errno = errno;
        return false;
    }
    exs_event_t await_resume() const
    {
        return event;
    }
};

/* A detached coroutine: it starts immediately, and frees itself. */
struct detached {
    struct promise_type {
        detached get_return_object()
        {
            return {};
        }
        std::suspend_never initial_suspend()
        {
            return {};
        }
        std::suspend_never final_suspend() noexcept
        {
            return {};
        }
        void return_void()
        {
        }
        void unhandled_exception()
        {
            std::terminate();
        }
    };
};

auto receive(exs_qhandle_t queue, int sock, void *buffer, size_t size)
{
    return awaitable([=](void *me) { return exs_recv(sock, buffer, size, 0, queue, me, nullptr); });
}

auto send(exs_qhandle_t queue, int sock, const void *buffer, size_t size)
{
    return awaitable([=](void *me) { return exs_send(sock, buffer, size, 0, queue, me, nullptr); });
}

auto close(exs_qhandle_t queue, int sock)
{
    return awaitable([=](void *me) { return exs_close(sock, 0, queue, me); });
}

/* `element` is the library's until the event. */
auto accept(exs_qhandle_t queue, int sock, exs_acceptaddr_t &element)
{
    return awaitable([=, &element](void *me) {
        element = {};
        element.exs_ahandle = me;
        return exs_accept(sock, &element, 1, 0, queue);
    });
}

detached echo(exs_qhandle_t queue, int sock)
{
    std::array<char, 16384> buffer; /* in the frame, for as long as the connection lasts */

    for (;;) {
        exs_event_t e = co_await receive(queue, sock, buffer.data(), buffer.size());
        ssize_t length = exs_event_result(&e);
        if (length <= 0) // an error, or the orderly end
            break;
        e = co_await send(queue, sock, buffer.data(), static_cast<size_t>(length));
        if (e.exs_evt_errno != 0)
            break;
    }
    co_await close(queue, sock);
}

detached serve(exs_qhandle_t queue, int listener)
{
    exs_acceptaddr_t element;

    for (;;) {
        exs_event_t e = co_await accept(queue, listener, element);
        if (e.exs_evt_errno != 0)
            break;
        echo(queue, element.exs_socket);
    }
    std::perror("coroutines: accepting");
}

} // namespace

int main(int argc, char **argv)
{
    sockaddr_in here = {};
    socklen_t length = sizeof(here);
    auto *address = reinterpret_cast<sockaddr *>(&here);
    std::array<exs_event_t, 64> events;

    here.sin_family = AF_INET;
    here.sin_port = htons(static_cast<uint16_t>(std::atoi(argc > 1 ? argv[1] : "7471")));
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (exs_init(EXS_VERSION) == -1) {
        std::perror("exs_init");
        return 1;
    }
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0);
    exs_qhandle_t queue = exs_qcreate(64);
    if (exs_bind(sock, address, length) == -1 || exs_listen(sock, SOMAXCONN) == -1 ||
        exs_getsockname(sock, address, &length) == -1) {
        std::perror("coroutines");
        return 1;
    }
    std::printf("waiting on port %u\n", ntohs(here.sin_port));
    std::fflush(stdout);
    serve(queue, sock);
    for (;;) {
        int count = exs_qdequeue(queue, events.data(), static_cast<int>(events.size()), nullptr);

        for (int i = 0; i < count; i++) {
            auto *done = static_cast<operation *>(events[static_cast<size_t>(i)].exs_evt_ahandle);

            done->event = events[static_cast<size_t>(i)];
            done->waiting.resume();
        }
    }
}
