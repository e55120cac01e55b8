/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends a text to an echo server, and prints the answer: C++17, with blocking calls.
 *
 * Build: c++ -std=c++17 hello.cc $(pkg-config --cflags --libs exs). Run: hello HOST PORT TEXT. */
#include <cstdio>
#include <exs.hpp>
#include <string_view>
#include <vector>

static void ask(const char *host, const char *port, std::string_view text)
{
    exs::library library;
    exs::socket sock(PF_INET, SOCK_STREAM);
    std::vector<char> answer(text.size());

    sock.connect(host, port);
    sock.send(text);
    std::size_t length = sock.recv(answer, MSG_WAITALL);
    std::printf("%.*s\n", static_cast<int>(length), answer.data());
    sock.close(); // the destructor would close it, too, but could not report an error
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        std::fprintf(stderr, "usage: hello HOST PORT TEXT\n");
        return 2;
    }
    try {
        ask(argv[1], argv[2], argv[3]);
    } catch (const exs::error &e) {
        std::fprintf(stderr, "hello: %s\n", e.what());
        return e.code() == std::errc::connection_refused ? 3 : 1;
    }
    return 0;
}
