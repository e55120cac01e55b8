/* SPDX-License-Identifier: BSD-2-Clause */
/* library.c - exs_init and exs_fini, the handler for forks, the choice of devices, the debug log. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include "core/conn/conn.h"
#include "core/base/fds.h"
#include "core/file/grown.h"
#include "core/sock/lookup.h"
#include "library.h"
#include "core/memory/memory.h"
#include "core/debug/misuse.h"
#include "core/conn/progress.h"
#include "core/queue/queue.h"
#include "core/base/settings.h"
#include "core/sock/sock.h"
#include "core/base/text.h"
#include "core/debug/trace.h"

#define VERSION "2.1.0" /* the same as in configure.ac */

enum { RAW, READY, CHECKED /* READY, with EXS_CHECK or EXS_DEBUG=2 */, FORKED };

/* READY, or CHECKED, is stored last (release), which pairs with each call's load (acquire). */
static _Atomic int state;
static _Atomic unsigned generation; /* incremented in a child's only thread: pairs with nothing */
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct device *devices[DEVICES_MAX];
static int device_count;
static unsigned long users; /* exs_init calls without an exs_fini; guarded by init_lock */
static bool logging;        /* a copy of settings()->debug, which is read often */

static bool is_ready(int now)
{
    return now == READY || now == CHECKED;
}

static int enter_otherwise(int now, const char *call, int sockno)
{
    if (now == CHECKED) {
        if (xs_misuse_on)
            xs_misuse_call(call, sockno);
        return 0;
    }
    errno = now == FORKED ? ECHILD : EPERM;
    return -1;
}

int xs_enter(const char *call)
{
    return xs_enter_socket(call, -1);
}

int xs_enter_socket(const char *call, int sockno)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);

    return now == READY ? 0 : enter_otherwise(now, call, sockno);
}

inline int xs_enter_ask(const struct ask *ask)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);

    if (now == READY)
        return 0;
    if (enter_otherwise(now, ask_by_name(ask) ? "exs_connect_host" : xs_misuse_name(ask->type), ask->sockno) <
        0)
        return -1;
    if (xs_tracing)
        xs_trace_ask(ask);
    return 0;
}

unsigned xs_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

/* Runs in a forked child. The threads and connections belong to the parent, so nothing of the library works
 * here. The descriptors are closed: otherwise a peer could not tell that the parent has died. The devices
 * forget their contexts now, not at the next exs_init(), because code that runs at the child's exit must not
 * find them: by then their descriptor numbers may stand for files of the child. */
static void forked(void)
{
    fds_after_fork_in_child();
    if (atomic_load(&state) == FORKED)
        return;
    for (int i = 0; i < device_count; i++)
        if (devices[i]->forget != NULL)
            devices[i]->forget();
    atomic_fetch_add(&generation, 1);
    pthread_mutex_init(&init_lock, NULL);
    atomic_store(&state, FORKED);
}

/* Can the device be used here? Without a driver it has not even an event channel. */
static bool is_there(const struct device *device)
{
    struct rdma_event_channel *channel = device->create_event_channel();

    if (channel == NULL)
        return false;
    device->destroy_event_channel(channel);
    return true;
}

/* RDMA adapters first. */
static const struct device *const known[] = {&rdma_device, &soft_device};

/* Append the names of all devices of this kind to `names`. Returns whether the wanted one is among them. */
static bool has_named(const struct device *device, const char *wanted, char *names, size_t size)
{
    int count = 0;
    struct ibv_device **list = device->get_device_list(&count);
    bool found = false;

    for (int i = 0; list != NULL && i < count; i++) {
        size_t used = strlen(names);

        snprintf(names + used, size - used, "%s%s", used > 0 ? ", " : "", list[i]->name);
        found = found || strcmp(list[i]->name, wanted) == 0;
    }
    if (list != NULL)
        device->free_device_list(list);
    return found;
}

/* Does EXS_DEVICE name this kind of device: all kinds, this kind, or one device of it? If it names no kind, the
 * names of the existing devices are appended to `names`. */
static bool is_wanted(const char *wanted, const struct device *device, char *names, size_t size)
{
    if (*wanted == 0 || strcmp(wanted, device->name) == 0)
        return true;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(wanted, known[i]->name) == 0)
            return false;
    }
    return has_named(device, wanted, names, size);
}

/* The kernel alone knows the names. Where it makes no socket it will say so later. */
static bool has_congestion_control(const char *name)
{
    int fd = *name != 0 ? fds_own(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) : -1;
    bool has = fd == -1 || fds_set_congestion(fd, name) == 0;

    if (fd != -1)
        fds_close(fd);
    return has;
}

static int check_settings(void)
{
    if (!settings()->link_known)
        xs_log("EXS_LINK=%s is no link: set it to auto, shm, tcp or udp", settings()->link);
    else if (!settings()->roce_known)
        xs_log("EXS_ROCE=%s is not known: set it to off, on, auto or only", settings()->roce);
    else if (!settings()->spin_known)
        xs_log("EXS_SPIN=%s is no number of microseconds: set it to one from 0 to %d", settings()->spin,
               SPIN_US_MAX);
    else if (!has_congestion_control(settings()->congestion))
        xs_log("EXS_TCP_CONGESTION=%s can't be had: set it to one that "
               "`sysctl net.ipv4.tcp_allowed_congestion_control` lists",
               settings()->congestion);
    else if (settings()->odd != NULL)
        xs_log("%s=%s is not known: set it to 0%s", settings()->odd, settings()->odd_value,
               strcmp(settings()->odd, "EXS_CHECK") == 0 ? ", 1 or abort" : " or 1");
    else
        return 0;
    errno = EINVAL;
    return -1;
}

/* EXS_DEVICE: auto (the default), rdma, soft, or the name of one device. */
static int choose_devices(void)
{
    const char *wanted = settings()->device;
    char names[256] = "";
    bool named = false;

    device_count = 0;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (!is_wanted(wanted, known[i], names, sizeof(names)))
            continue;
        named = true;
        if (is_there(known[i]))
            devices[device_count++] = known[i];
        else if (known[i] == &soft_device)
            /* the software device always exists, so memory or descriptors are missing; a later call may
             * succeed */
            return -1;
        else
            xs_log("no %s device here: %s%s", known[i]->name, strerror(errno),
                   *wanted == 0 ? "; connections go by soft0, which the library brings" : "");
    }
    if (device_count > 0)
        return 0;
    if (named)
        xs_log(
            "EXS_DEVICE=%s finds no device: load its driver (modprobe rdma_ucm), or set EXS_DEVICE to auto or "
            "soft",
            wanted);
    else
        xs_log(
            "EXS_DEVICE=%s is no device here: set it to auto, rdma, soft, or the name of one that there is: %s",
            wanted, names);
    errno = ENODEV;
    return -1;
}

bool xs_device_allowed(const struct ibv_context *context)
{
    const char *wanted = settings()->device;

    for (int i = 0; i < device_count; i++) {
        if (strcmp(wanted, devices[i]->name) == 0)
            return true;
    }
    return *wanted == 0 || strcmp(context->device->name, wanted) == 0;
}

/* -1 and errno. */
static int begin_anew(void)
{
    static bool handler_set;

    if (!handler_set && (errno = pthread_atfork(fds_before_fork, fds_after_fork, forked)) != 0)
        return -1;
    handler_set = true;
    if (atomic_load(&state) == FORKED) {
        xs_lookups_reset();
        grown_reset();
        xs_sock_reset();
        xs_conn_reset();
        xs_queue_reset();
        xs_progress_reset();
        xs_memory_reset();
    }
    return 0;
}

int exs_init(int version)
{
    int result = -1;

    if (version != EXS_VERSION1) {
        errno = ENOTSUP;
        return -1;
    }
    pthread_mutex_lock(&init_lock);
    if (is_ready(atomic_load(&state))) {
        users++;
        errno = EALREADY;
    } else {
        settings_read();
        logging = settings()->debug;
        xs_tracing = settings()->trace;
        if (check_settings() == 0 && choose_devices() == 0 && begin_anew() == 0) {
            xs_misuse_begin();
            users = 1;
            xs_watched = xs_misuse_on || xs_tracing;
            atomic_store_explicit(&state, xs_watched ? CHECKED : READY, memory_order_release);
            result = 0;
        }
    }
    pthread_mutex_unlock(&init_lock);
    return result;
}

/* Do sockets, queues or registered memory exist that the last exs_fini() would take away? */
static bool is_in_use(void)
{
    uint32_t socks = xs_sock_count(), queues = xs_queue_count(), regions = xs_memory_count();

    if (socks + queues + regions == 0)
        return false;
    xs_log(
        "exs_fini comes too early: there are %u sockets, %u queues and %u regions of registered memory; close "
        "or delete them first",
        socks, queues, regions);
    return true;
}

int exs_fini(void)
{
    int error = 0;

    if (xs_enter(__func__) < 0)
        return -1;
    pthread_mutex_lock(&init_lock);
    if (users == 0)
        error = EPERM; /* another thread's exs_fini() was the last one */
    else if (users == 1 && is_in_use())
        error = EBUSY;
    else if (--users == 0)
        atomic_store(&state, RAW);
    if (users == 0) {
        xs_lookups_settle();
        xs_progress_end();
        xs_misuse_end();
        for (int i = 0; i < device_count && error == 0; i++)
            if (devices[i]->end != NULL)
                devices[i]->end();
    }
    pthread_mutex_unlock(&init_lock);
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

const char *exs_version_string(void)
{
    return VERSION;
}

int xs_devices(void)
{
    return device_count;
}

const struct device *xs_device(int index)
{
    return devices[index];
}

/* Names of hosts and files, and the environment's values, may contain control characters, which are filtered
 * out. */
static void say(const char *before, const char *format, va_list arguments)
{
    char line[512], time[TRACE_TIME_MAX] = "";
    int saved = errno;

    vsnprintf(line, sizeof(line), format, arguments);
    fprintf(stderr, "exs: %s%s%s\n", xs_tracing ? xs_trace_time(time) : "", before, text_filter(line));
    errno = saved;
}

static void write_log(const char *before, const char *format, va_list arguments)
{
    if (logging)
        say(before, format, arguments);
}

void xs_misused(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say("misuse: ", format, arguments);
    va_end(arguments);
    if (settings()->check_aborts)
        abort();
}

void xs_log(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    write_log("", format, arguments);
    va_end(arguments);
}

int xs_invalid(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    write_log("invalid argument: ", format, arguments);
    va_end(arguments);
    errno = EINVAL;
    return -1;
}

int xs_nowhere(const char *argument)
{
    xs_invalid("there is no memory at %s, where the result goes", argument);
    errno = EFAULT;
    return -1;
}

int xs_bad_flags(int flags, int allowed)
{
    return xs_invalid("flags 0x%x has 0x%x, which is no flag here", (unsigned)flags,
                      (unsigned)(flags & ~allowed));
}

int xs_too_long(size_t length)
{
    return xs_invalid("length %zu is more than EXS_MSG_MAX, %zu", length, (size_t)EXS_MSG_MAX);
}

const char *exs_strevent(int type)
{
    static const char *const names[] = {
        [EXS_EVT_CONNECT] = "EXS_EVT_CONNECT",   [EXS_EVT_ACCEPT] = "EXS_EVT_ACCEPT",
        [EXS_EVT_SEND] = "EXS_EVT_SEND",         [EXS_EVT_RECV] = "EXS_EVT_RECV",
        [EXS_EVT_SENDFILE] = "EXS_EVT_SENDFILE", [EXS_EVT_SHUTDOWN] = "EXS_EVT_SHUTDOWN",
        [EXS_EVT_CLOSE] = "EXS_EVT_CLOSE",       [EXS_EVT_RREAD] = "EXS_EVT_RREAD",
        [EXS_EVT_RWRITE] = "EXS_EVT_RWRITE",     [EXS_EVT_SENDMSG] = "EXS_EVT_SENDMSG",
        [EXS_EVT_RECVMSG] = "EXS_EVT_RECVMSG",   [EXS_EVT_RECVFILE] = "EXS_EVT_RECVFILE",
        [EXS_EVT_POLL] = "EXS_EVT_POLL",
    };

    if (type < 1 || (size_t)type >= sizeof(names) / sizeof(names[0]))
        return "unknown event";
    return names[type];
}
