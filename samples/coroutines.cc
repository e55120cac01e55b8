/* SPDX-License-Identifier: BSD-2-Clause */
/* An echo server with C++20 coroutines: each connection is a function that is written as if its calls blocked. All
 * connections run in one thread.
 *
 * Build: c++ -std=c++20 coroutines.cc $(pkg-config --cflags --libs exs). Run: coroutines [PORT]. */
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exs.hpp>
#include <netinet/in.h>

namespace
{

exs::detached echo(exs::queue &queue, exs::socket sock)
{
    std::array<char, 16384> buffer; /* in the coroutine's frame, until the connection is closed */

    for (;;) {
        exs::completion got = co_await exs::async_recv(queue, sock, buffer);
        if (got.error() || got.bytes() == 0) // an error, or the end of the stream
            break;
        exs::const_buffer answer(buffer.data(), got.bytes());
        exs::completion sent = co_await exs::async_send(queue, sock, answer);
        if (sent.error())
            break;
    }
    co_await exs::async_close(queue, std::move(sock));
}

exs::detached serve(exs::queue &queue, exs::socket &listener)
{
    for (;;) {
        exs::completion got = co_await exs::async_accept(queue, listener);
        if (got.error()) {
            std::fprintf(stderr, "coroutines: accepting: %s\n", got.error().message().c_str());
            break;
        }
        echo(queue, got.connection());
    }
}

void run(int port)
{
    exs::library library;
    exs::queue queue(64);
    exs::socket listener(PF_INET, SOCK_STREAM);
    sockaddr_in here = {};
    socklen_t length = sizeof(here);
    auto *address = reinterpret_cast<sockaddr *>(&here);
    std::array<exs_event_t, 64> events;

    here.sin_family = AF_INET;
    here.sin_port = htons(static_cast<uint16_t>(port));
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener.bind(address, length);
    listener.listen(SOMAXCONN);
    exs_getsockname(listener.get(), address, &length);
    std::printf("waiting on port %u\n", ntohs(here.sin_port));
    std::fflush(stdout);
    serve(queue, listener);
    for (;;)
        exs::dispatch(events.data(), queue.dequeue(events.data(), static_cast<int>(events.size())));
}

} // namespace

int main(int argc, char **argv)
{
    try {
        run(std::atoi(argc > 1 ? argv[1] : "7471"));
    } catch (const exs::error &e) {
        std::fprintf(stderr, "coroutines: %s\n", e.what());
        return 1;
    }
}
