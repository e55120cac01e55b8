/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs_coroutines.hpp - the operations of exs.h, for C++20's coroutines [ours]. exs.hpp includes it where the compiler
 * has coroutines; include that.
 *
 *   exs::detached echo(exs::queue &events, exs::socket sock)
 *   {
 *       std::array<char, 4096> buffer;
 *       exs::completion done = co_await exs::async_recv(events, sock, buffer);
 *       ...
 *   }
 *
 *   exs::dispatch(batch, events.dequeue(batch, 64, ec)); // resumes the coroutines that have waited
 *
 * A coroutine runs in the thread that dispatches, or in the caller of the function up to its first co_await. The events
 * that the callbacks of exs_ev.h and the other adapters get can be dispatched, too.
 */
#ifndef EXS_COROUTINES_HPP
#define EXS_COROUTINES_HPP

#include <coroutine>
#include <exception>
#include <exs.hpp>

#pragma GCC visibility push(default)
namespace exs
{

/* How an operation ended: its event, or why it did not start. */
class completion
{
  public:
    explicit completion(const exs_event_t &event) noexcept : event_(event)
    {
    }
    std::error_code error() const noexcept
    {
        return make_error_code(event_.exs_evt_errno);
    }
    /* Bytes moved, also those of an operation that failed after them; of exs_poll how many are ready. */
    std::size_t bytes() const noexcept
    {
        exs_event_t event = event_;
        event.exs_evt_errno = 0;
        return event_.exs_evt_type != EXS_EVT_ACCEPT ? static_cast<std::size_t>(exs_event_result(&event)) : 0;
    }
    /* The connection of an accept; empty if it failed. Call it once. */
    exs::socket connection() const noexcept
    {
        bool is_new = event_.exs_evt_type == EXS_EVT_ACCEPT && event_.exs_evt_errno == 0;
        return exs::socket(is_new ? event_.exs_evt_union.exs_evt_accept.exs_evt_newsocket : -1);
    }
    /* MSG_TRUNC and EXS_EOF. */
    int flags() const noexcept
    {
        return exs_event_flags(&event_);
    }
    const exs_event_t &event() const noexcept
    {
        return event_;
    }
#ifdef EXS_HPP_EXCEPTIONS
    /* bytes(); throws exs::error if the operation failed. */
    std::size_t value() const
    {
        if (event_.exs_evt_errno != 0)
            throw exs::error(error());
        return bytes();
    }
#endif

  private:
    exs_event_t event_;
};

/* An operation that was started by a coroutine. It is in the coroutine's frame, and its address is the ahandle. A
 * coroutine that waits must not be destroyed before the event was dispatched. */
struct operation {
    std::coroutine_handle<> waiting = nullptr;
    exs_event_t event = {};
};

/* Resumes the coroutines that wait for these events. All of them must be of operations that exs::async and its kind
 * have started, or have no ahandle. */
inline void dispatch(const exs_event_t *events, int count)
{
    for (int i = 0; i < count; i++) {
        auto *done = static_cast<operation *>(events[i].exs_evt_ahandle);

        if (done == nullptr)
            continue;
        done->event = events[i];
        done->waiting.resume();
    }
}

namespace detail
{
/* `start` gets the ahandle, and returns what the call of exs.h has returned. Once it has returned 0 nothing here is
 * touched: another thread may have dequeued the event and resumed the coroutine. */
template <typename Start> class awaitable : private operation
{
  public:
    explicit awaitable(Start start) noexcept : start_(std::move(start))
    {
    }
    awaitable(const awaitable &) = delete;
    awaitable &operator=(const awaitable &) = delete;
    bool await_ready() const noexcept
    {
        return false;
    }
    bool await_suspend(std::coroutine_handle<> coroutine) noexcept
    {
        waiting = coroutine;
        if (start_(static_cast<operation *>(this)) != -1)
            return true;
        event.exs_evt_errno = errno;
        return false;
    }
    completion await_resume() const noexcept
    {
        return completion(event);
    }

  private:
    Start start_;
};
} // namespace detail

/* Any operation: start(ahandle) starts it without EXS_BLOCK, EXS_UNSIGNALED and EXS_MULTISHOT, and returns what the
 * call has returned. As with all operations below, co_await gives a completion. */
template <typename Start> [[nodiscard]] auto async(Start start)
{
    return detail::awaitable<Start>(std::move(start));
}

[[nodiscard]] inline auto async_recv(const queue &events, const socket &sock, mutable_buffer into,
                                     int flags = 0)
{
    return async([queue = events.get(), number = sock.get(), into, flags](void *self) {
        return exs_recv(number, into.data, into.size, flags, queue, self, into.region);
    });
}

[[nodiscard]] inline auto async_send(const queue &events, const socket &sock, const_buffer from, int flags = 0)
{
    return async([queue = events.get(), number = sock.get(), from, flags](void *self) {
        return exs_send(number, from.data, from.size, flags, queue, self, from.region);
    });
}

/* Take the new socket out of the completion with connection(). */
[[nodiscard]] inline auto async_accept(const queue &events, const socket &listener)
{
    return async(
        [queue = events.get(), number = listener.get(), element = exs_acceptaddr_t()](void *self) mutable {
            element.exs_ahandle = self;
            return exs_accept(number, &element, 1, 0, queue);
        });
}

/* Within 30 seconds. host and service must stay until the call has started, as arguments of a co_await do. */
[[nodiscard]] inline auto async_connect(const queue &events, const socket &sock, const char *host,
                                        const char *service)
{
    return async([queue = events.get(), number = sock.get(), host, service](void *self) {
        return exs_connect_host(number, host, service, 0, nullptr, queue, self);
    });
}

[[nodiscard]] inline auto async_shutdown(const queue &events, const socket &sock, int how)
{
    return async([queue = events.get(), number = sock.get(), how](void *self) {
        return exs_shutdown(number, how, 0, queue, self);
    });
}

/* The socket's number is released at once. With EXS_LINGER the close is done when all that was sent has arrived. */
[[nodiscard]] inline auto async_close(const queue &events, socket sock, int flags = 0)
{
    return async([queue = events.get(), sock = std::move(sock), flags](void *self) mutable {
        int number = sock.release();
        int result = exs_close(number, flags, queue, self);
        if (result == -1)
            sock.reset(number); // still open
        return result;
    });
}

/* A coroutine that no other one waits for: it starts at once, and frees itself at its end. An exception that leaves it
 * ends the program. */
struct detached {
    struct promise_type {
        detached get_return_object() noexcept
        {
            return {};
        }
        std::suspend_never initial_suspend() noexcept
        {
            return {};
        }
        std::suspend_never final_suspend() noexcept
        {
            return {};
        }
        void return_void() noexcept
        {
        }
        [[noreturn]] void unhandled_exception() noexcept
        {
            std::terminate();
        }
    };
};

} // namespace exs
#pragma GCC visibility pop

#endif
