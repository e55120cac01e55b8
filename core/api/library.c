/* SPDX-License-Identifier: BSD-2-Clause */
/* library.c - exs_init, exs_init_config and exs_fini, the check of the settings, and the handler for forks. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include "config.h"
#include "core/base/entry.h"
#include "core/base/fds.h"
#include "core/base/log.h"
#include "core/base/settings.h"
#include "core/conn/conn.h"
#include "core/conn/progress.h"
#include "core/debug/misuse.h"
#include "core/debug/trace.h"
#include "core/device/registry.h"
#include "core/file/grown.h"
#include "core/memory/memory.h"
#include "core/queue/queue.h"
#include "core/sock/lookup.h"
#include "core/sock/sock.h"

#define WORD_OF(number) #number
#define DOTTED(major, minor, patch) WORD_OF(major) "." WORD_OF(minor) "." WORD_OF(patch)

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long users; /* exs_init calls without an exs_fini; guarded by init_lock */
/* Runs in a forked child. The threads and connections belong to the parent, so nothing of the library works
 * here. The descriptors are closed: otherwise a peer could not tell that the parent has died. The devices
 * forget their contexts now, not at the next exs_init(), because code that runs at the child's exit must not
 * find them: by then their descriptor numbers may stand for files of the child. */
static void handle_fork_in_child(void)
{
    fds_after_fork_in_child();
    if (library_state() == LIBRARY_FORKED)
        return;
    xs_devices_forget();
    pthread_mutex_init(&init_lock, NULL);
    log_forked();
    xs_entry_forked();
}

static bool is_ready(void)
{
    return library_state() == LIBRARY_READY || library_state() == LIBRARY_CHECKED;
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
    if (*settings()->odd != 0)
        return xs_refuse(EINVAL, "%s", settings()->odd);
    if (!has_congestion_control(settings()->congestion))
        return xs_refuse(EINVAL,
                         "%s=%s is unavailable: set it to one that "
                         "`sysctl net.ipv4.tcp_allowed_congestion_control` lists",
                         settings()->name[SET_CONGESTION], settings()->congestion);
    return 0;
}

/* -1 and errno. */
static int begin_anew(void)
{
    static bool handler_set;

    if (!handler_set && (errno = pthread_atfork(fds_before_fork, fds_after_fork, handle_fork_in_child)) != 0)
        return -1;
    handler_set = true;
    if (library_state() == LIBRARY_FORKED) {
        users = 0; /* of the parent */
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

/* The first exs_init. The log is the program's already while the settings are checked. -1 and errno. */
static int start_library(const exs_config_t *config)
{
    log_redirect(config->exs_log, config->exs_log_context);
    settings_read(config);
    xs_tracing = settings()->trace;
    if (check_settings() < 0 || xs_choose_devices() < 0 || begin_anew() < 0) {
        log_redirect(NULL, NULL);
        return -1;
    }
    xs_config_keep(config);
    xs_misuse_begin();
    xs_watched = xs_misuse_on || xs_tracing;
    atomic_store_explicit(&xs_library_state, xs_watched ? LIBRARY_CHECKED : LIBRARY_READY,
                          memory_order_release);
    return 0;
}

static int init_library(const char *call, int version, const exs_config_t *given)
{
    exs_config_t config;
    int result = -1;

    xs_last_call = (struct last_call){.name = call, .sockno = -1};
    pthread_mutex_lock(&init_lock);
    if (version != EXS_VERSION1)
        xs_explain(ENOTSUP, "unknown version %d: pass EXS_VERSION", version);
    else if (xs_config_read(given, &config) == 0)
        result = is_ready() ? xs_config_compare(&config) : start_library(&config);
    if (result == 0)
        users++;
    pthread_mutex_unlock(&init_lock);
    return result;
}

int exs_init(int version)
{
    return init_library(__func__, version, NULL);
}

int exs_init_config(int version, const exs_config_t *config)
{
    return init_library(__func__, version, config);
}

/* Do sockets, queues or registered memory exist that the last exs_fini() would take away? */
static bool is_in_use(void)
{
    uint32_t socks = xs_sock_count(), queues = xs_queue_count(), regions = xs_memory_count();

    if (socks + queues + regions == 0)
        return false;
    xs_explain(
        EBUSY,
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
        atomic_store(&xs_library_state, LIBRARY_RAW);
    if (users == 0) {
        xs_lookups_settle();
        xs_progress_end();
        xs_misuse_end();
        if (error == 0) {
            xs_devices_end();
            log_redirect(NULL, NULL);
        }
    }
    pthread_mutex_unlock(&init_lock);
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

const char *exs_version_string(void)
{
    return DOTTED(EXS_VERSION_MAJOR, EXS_VERSION_MINOR, EXS_VERSION_PATCH);
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
