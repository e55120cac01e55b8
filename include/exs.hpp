/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs.hpp - exs.h for C++17 and C++20 [ours]. The headers are all of it: link with -lexs.
 *
 *   - exs::socket, exs::queue and exs::memory_region own what exs.h has as handles: they can be moved, not copied, and
 *     their destructors close.
 *   - exs::mutable_buffer and exs::const_buffer are an address, a size and a region, made from arrays, vectors, strings
 *     and spans.
 *   - Each call that can fail takes a std::error_code. Where exceptions are enabled each also has a form without it,
 *     which throws exs::error.
 *   - In C++20 exs_coroutines.hpp is part of it: operations that a coroutine waits for with co_await.
 *
 * Every other call of exs.h is made with get(): exs_setsockopt(sock.get(), ...).
 */
#ifndef EXS_HPP
#define EXS_HPP

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exs.h>
#include <iterator>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#if defined(__cpp_exceptions)
#define EXS_HPP_EXCEPTIONS 1 /* the forms that throw exist */
#endif

#pragma GCC visibility push(default)
namespace exs
{

/* ---- Errors ---------------------------------------------------------------------------- */

namespace detail
{
struct errno_category : std::error_category {
    const char *name() const noexcept override
    {
        return "exs";
    }
    std::string message(int code) const override
    {
        return std::generic_category().message(code);
    }
    std::error_condition default_error_condition(int code) const noexcept override
    {
        return {code, std::generic_category()};
    }
};
} // namespace detail

/* The category of all errors here. Their values are those of errno, and they compare equal to std::errc. The message is
 * strerror's, which is right for any code at any time. exs_errmsg() says more about the calling thread's last call, and
 * is the text of exs::error. */
inline const std::error_category &category() noexcept
{
    static const detail::errno_category instance;
    return instance;
}

inline std::error_code make_error_code(int code) noexcept
{
    return {code, category()};
}

#ifdef EXS_HPP_EXCEPTIONS
/* What the forms without a std::error_code throw: code() has the error, and what() the sentence of exs_errmsg(). */
class error : public std::system_error
{
  public:
    /* Of the calling thread's last call, which has failed. */
    error() : error(errno, exs_errmsg())
    {
    }
    /* Of an event. */
    explicit error(std::error_code code) : std::system_error(code), text_(code.message())
    {
    }
    const char *what() const noexcept override
    {
        return text_.c_str();
    }

  private:
    error(int code, std::string text) : std::system_error(make_error_code(code)), text_(std::move(text))
    {
    }
    std::string text_;
};
#endif

namespace detail
{
/* Whether a call of exs.h has returned -1, or the handle of that value. */
template <typename Result> bool failed(Result result) noexcept
{
    if constexpr (std::is_pointer_v<Result>)
        return reinterpret_cast<std::intptr_t>(result) == -1;
    else
        return result == -1;
}

template <typename Result> Result check(Result result, std::error_code &ec) noexcept
{
    if (failed(result))
        ec = make_error_code(errno);
    else
        ec.clear();
    return result;
}

#ifdef EXS_HPP_EXCEPTIONS
template <typename Result> Result check(Result result)
{
    if (failed(result))
        throw error();
    return result;
}
#endif

inline timeval to_timeval(std::chrono::microseconds time) noexcept
{
    timeval value = {};
    value.tv_sec = static_cast<time_t>(time.count() / 1000000);
    value.tv_usec = static_cast<suseconds_t>(time.count() % 1000000);
    return value;
}

/* A handle that one object owns; without one it has the value -1, as exs.h returns for a failure. */
template <typename Value, void (*Close)(Value) noexcept> class unique
{
  public:
    unique() noexcept = default;
    explicit unique(Value value) noexcept : value_(value)
    {
    }
    unique(unique &&other) noexcept : value_(other.release())
    {
    }
    unique &operator=(unique &&other) noexcept
    {
        if (this != &other)
            reset(other.release());
        return *this;
    }
    ~unique()
    {
        reset();
    }

    Value get() const noexcept
    {
        return value_;
    }
    explicit operator bool() const noexcept
    {
        return !failed(value_);
    }
    /* The caller owns the handle from now on. */
    [[nodiscard]] Value release() noexcept
    {
        return std::exchange(value_, none());
    }
    /* Closes the handle, and owns the new one. */
    void reset(Value value = none()) noexcept
    {
        Value old = std::exchange(value_, value);
        if (!failed(old))
            Close(old);
    }

  private:
    static Value none() noexcept
    {
        if constexpr (std::is_pointer_v<Value>)
            return reinterpret_cast<Value>(std::intptr_t{-1});
        else
            return -1;
    }
    Value value_ = none();
};
} // namespace detail

/* ---- The library ----------------------------------------------------------------------- */

/* exs_init, or exs_init_config, and exs_fini in the destructor. Both count: each part of a program may have its own. */
class library
{
  public:
#ifdef EXS_HPP_EXCEPTIONS
    library()
    {
        detail::check(exs_init(EXS_VERSION));
        started_ = true;
    }
    explicit library(const exs_config_t &config)
    {
        detail::check(exs_init_config(EXS_VERSION, &config));
        started_ = true;
    }
#endif
    explicit library(std::error_code &ec) noexcept
    {
        started_ = detail::check(exs_init(EXS_VERSION), ec) == 0;
    }
    library(const exs_config_t &config, std::error_code &ec) noexcept
    {
        started_ = detail::check(exs_init_config(EXS_VERSION, &config), ec) == 0;
    }
    library(const library &) = delete;
    library &operator=(const library &) = delete;
    ~library()
    {
        if (started_)
            exs_fini();
    }

  private:
    bool started_ = false;
};

/* ---- Buffers --------------------------------------------------------------------------- */

namespace detail
{
template <typename Container>
using element_of = std::remove_reference_t<decltype(*std::data(std::declval<Container &>()))>;

/* Contiguous, and of plain bytes. */
template <typename Container, typename = void> struct is_bytes : std::false_type {
};
template <typename Container>
struct is_bytes<Container, std::void_t<element_of<Container>, decltype(std::size(std::declval<Container &>()))>>
    : std::is_trivially_copyable<element_of<Container>> {
};

template <typename Container, typename = void> struct is_writable : std::false_type {
};
template <typename Container>
struct is_writable<Container, std::enable_if_t<is_bytes<Container>::value>>
    : std::bool_constant<!std::is_const_v<element_of<Container>>> {
};
} // namespace detail

/* Memory that a call writes into. `region` is the registered memory that holds it, or NULL. */
struct mutable_buffer {
    void *data = nullptr;
    std::size_t size = 0; /* bytes */
    exs_mhandle_t region = nullptr;

    mutable_buffer() noexcept = default;
    mutable_buffer(void *address, std::size_t length, exs_mhandle_t memory = nullptr) noexcept
        : data(address), size(length), region(memory)
    {
    }
    /* An array, or any container or span with data() and size(). */
    template <typename Container,
              std::enable_if_t<detail::is_writable<std::remove_reference_t<Container>>::value, int> = 0>
    mutable_buffer(Container &&container) noexcept
        : data(std::data(container)), size(std::size(container) * sizeof(*std::data(container)))
    {
    }
    /* The part from `offset`, at most `length` bytes. */
    mutable_buffer part(std::size_t offset, std::size_t length = static_cast<std::size_t>(-1)) const noexcept
    {
        offset = offset < size ? offset : size;
        return {static_cast<char *>(data) + offset, length < size - offset ? length : size - offset, region};
    }
};

/* Memory that a call only reads. */
struct const_buffer {
    const void *data = nullptr;
    std::size_t size = 0; /* bytes */
    exs_mhandle_t region = nullptr;

    const_buffer() noexcept = default;
    const_buffer(const void *address, std::size_t length, exs_mhandle_t memory = nullptr) noexcept
        : data(address), size(length), region(memory)
    {
    }
    const_buffer(const mutable_buffer &other) noexcept : const_buffer(other.data, other.size, other.region)
    {
    }
    template <typename Container,
              std::enable_if_t<detail::is_bytes<std::remove_reference_t<Container>>::value, int> = 0>
    const_buffer(Container &&container) noexcept
        : data(std::data(container)), size(std::size(container) * sizeof(*std::data(container)))
    {
    }
    /* A literal has a zero behind its text: write "text"sv, or give the size. */
    template <std::size_t Size> const_buffer(const char (&)[Size]) = delete;

    const_buffer part(std::size_t offset, std::size_t length = static_cast<std::size_t>(-1)) const noexcept
    {
        offset = offset < size ? offset : size;
        return {static_cast<const char *>(data) + offset, length < size - offset ? length : size - offset,
                region};
    }
};

/* ---- Registered memory ------------------------------------------------------------------ */

namespace detail
{
inline void deregister(exs_mhandle_t region) noexcept
{
    exs_mderegister(region, 0);
}
} // namespace detail

/* exs_mregister, and exs_mderegister in the destructor. It does not own the memory, which must live longer; and it must
 * live until the events of all transfers that use it, else the memory stays registered. */
class memory_region : public detail::unique<exs_mhandle_t, detail::deregister>
{
  public:
    memory_region() noexcept = default;
    memory_region(const mutable_buffer &memory, std::error_code &ec, int flags = 0) noexcept
        : unique(detail::check(exs_mregister(memory.data, memory.size, flags), ec)),
          memory_(memory.data, memory.size)
    {
    }
#ifdef EXS_HPP_EXCEPTIONS
    explicit memory_region(const mutable_buffer &memory, int flags = 0)
        : unique(detail::check(exs_mregister(memory.data, memory.size, flags))),
          memory_(memory.data, memory.size)
    {
    }
#endif
    /* All of the memory, as a buffer of this region. */
    mutable_buffer buffer() const noexcept
    {
        return {memory_.data, memory_.size, get()};
    }

  private:
    mutable_buffer memory_;
};

/* ---- Event queues ----------------------------------------------------------------------- */

namespace detail
{
inline void delete_queue(exs_qhandle_t queue) noexcept
{
    exs_qdelete(queue);
}
} // namespace detail

/* exs_qcreate, and exs_qdelete in the destructor: a queue that still has sockets or operations stays, so destroy it
 * after them. */
class queue : public detail::unique<exs_qhandle_t, detail::delete_queue>
{
  public:
    queue() noexcept = default;
    queue(int depth, std::error_code &ec) noexcept : unique(detail::check(exs_qcreate(depth), ec))
    {
    }
    /* Waits for events; how many there are. */
    int dequeue(exs_event_t *events, int most, std::error_code &ec) noexcept
    {
        return detail::check(exs_qdequeue(get(), events, most, nullptr), ec);
    }
    /* Waits at most this long; 0: the time is over. */
    int dequeue(exs_event_t *events, int most, std::chrono::microseconds timeout, std::error_code &ec) noexcept
    {
        const timeval time = detail::to_timeval(timeout);
        return detail::check(exs_qdequeue(get(), events, most, &time), ec);
    }
#ifdef EXS_HPP_EXCEPTIONS
    explicit queue(int depth) : unique(detail::check(exs_qcreate(depth)))
    {
    }
    int dequeue(exs_event_t *events, int most)
    {
        return detail::check(exs_qdequeue(get(), events, most, nullptr));
    }
    int dequeue(exs_event_t *events, int most, std::chrono::microseconds timeout)
    {
        const timeval time = detail::to_timeval(timeout);
        return detail::check(exs_qdequeue(get(), events, most, &time));
    }
#endif
    /* The descriptor to watch for reading. */
    int fd() const noexcept
    {
        return exs_qfd(get());
    }
};

/* ---- Sockets ---------------------------------------------------------------------------- */

namespace detail
{
inline void close_socket(int sock) noexcept
{
    exs_close(sock, 0, nullptr, nullptr);
}
} // namespace detail

/* exs_socket, and exs_close in the destructor. The functions here are those that block. close() says whether the close
 * has failed, which the destructor can't. */
class socket : public detail::unique<int, detail::close_socket>
{
  public:
    socket() noexcept = default;
    /* Owns a number that exs.h has returned. */
    explicit socket(int number) noexcept : unique(number)
    {
    }
    socket(int family, int type, std::error_code &ec) noexcept
        : unique(detail::check(exs_socket(family, type, 0), ec))
    {
    }
    void bind(const sockaddr *address, socklen_t length, std::error_code &ec) noexcept
    {
        detail::check(exs_bind(get(), address, length), ec);
    }
    void listen(int backlog, std::error_code &ec) noexcept
    {
        detail::check(exs_listen(get(), backlog), ec);
    }
    socket accept(std::error_code &ec) noexcept
    {
        return socket(detail::check(exs_blocking_accept(get(), nullptr, nullptr), ec));
    }
    void connect(const sockaddr *address, socklen_t length, std::error_code &ec) noexcept
    {
        detail::check(exs_blocking_connect(get(), address, length), ec);
    }
    void connect(const char *host, const char *service, std::error_code &ec) noexcept
    {
        detail::check(exs_blocking_connect_host(get(), host, service), ec);
    }
    /* The bytes that moved: 0 of recv is the orderly end, or an error. `flags` are those of exs_send and exs_recv. */
    std::size_t send(const_buffer from, std::error_code &ec, int flags = 0) noexcept
    {
        return moved(detail::check(exs_blocking_send(get(), from.data, from.size, flags, from.region), ec));
    }
    std::size_t recv(mutable_buffer into, std::error_code &ec, int flags = 0) noexcept
    {
        return moved(detail::check(exs_blocking_recv(get(), into.data, into.size, flags, into.region), ec));
    }
    void shutdown(int how, std::error_code &ec) noexcept
    {
        detail::check(exs_shutdown(get(), how, EXS_BLOCK, nullptr, nullptr), ec);
    }
    /* The number is released in every case. */
    void close(std::error_code &ec) noexcept
    {
        detail::check(exs_blocking_close(release()), ec);
    }
#ifdef EXS_HPP_EXCEPTIONS
    socket(int family, int type) : unique(detail::check(exs_socket(family, type, 0)))
    {
    }
    void bind(const sockaddr *address, socklen_t length)
    {
        detail::check(exs_bind(get(), address, length));
    }
    void listen(int backlog)
    {
        detail::check(exs_listen(get(), backlog));
    }
    socket accept()
    {
        return socket(detail::check(exs_blocking_accept(get(), nullptr, nullptr)));
    }
    void connect(const sockaddr *address, socklen_t length)
    {
        detail::check(exs_blocking_connect(get(), address, length));
    }
    void connect(const char *host, const char *service)
    {
        detail::check(exs_blocking_connect_host(get(), host, service));
    }
    std::size_t send(const_buffer from, int flags = 0)
    {
        return moved(detail::check(exs_blocking_send(get(), from.data, from.size, flags, from.region)));
    }
    std::size_t recv(mutable_buffer into, int flags = 0)
    {
        return moved(detail::check(exs_blocking_recv(get(), into.data, into.size, flags, into.region)));
    }
    void shutdown(int how)
    {
        detail::check(exs_shutdown(get(), how, EXS_BLOCK, nullptr, nullptr));
    }
    void close()
    {
        detail::check(exs_blocking_close(release()));
    }
#endif

  private:
    static std::size_t moved(ssize_t result) noexcept
    {
        return result > 0 ? static_cast<std::size_t>(result) : 0;
    }
};

} // namespace exs
#pragma GCC visibility pop

#if defined(__cpp_impl_coroutine) && __cplusplus >= 202002L
#define EXS_HPP_COROUTINES 1 /* the awaitable operations exist */
#include <exs_coroutines.hpp>
#endif

#endif
