/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * service.c - registers and removes the service thread's members, starts the thread with the first and stops it with
 * the last, and makes fork() wait for it.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include "soft/lock.h"
#include "core/base/clock.h"
#include "core/base/fds.h"
#include "core/base/threads.h"
#include "soft/engine/wire.h"
#include "service_thread.h"

struct service service_shared = {
    .gate = PTHREAD_MUTEX_INITIALIZER,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .task_lock = PTHREAD_MUTEX_INITIALIZER,
    .task = -1,
    .task_due = NEVER_NS,
    .epoll = -1,
    .wake = -1,
    .watched = TAILQ_HEAD_INITIALIZER(service_shared.watched),
};

static void wake_thread(void)
{
    fds_flag(service_shared.wake, true);
}

/* ---- Starting and stopping the thread ---- */

/* fork() waits until the thread is between two steps of its loop. A lock that the thread holds within a step, for
 * example an allocator's, would remain locked forever in the child. The thread is started and stopped with `gate` held,
 * so fork() waits for that, too. */
static void before_fork(void)
{
    soft_mutex_lock(&service_shared.gate);
    soft_mutex_lock(&service_shared.task_lock);
    soft_mutex_lock(&service_shared.lock);
}

static void after_fork(void)
{
    soft_mutex_unlock(&service_shared.lock);
    soft_mutex_unlock(&service_shared.task_lock);
    soft_mutex_unlock(&service_shared.gate);
}

/* Returns when the thread runs. */
static int start_thread(void)
{
    int error;

    sem_init(&service_shared.begun, 0, 0);
    error = threads_start(&service_shared.thread, service_run);
    while (error == 0 && sem_wait(&service_shared.begun) == -1)
        ; /* interrupted */
    return error;
}

static int begin_thread(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    int error;

    if (!service_shared.forks_wait && (error = pthread_atfork(before_fork, after_fork, after_fork)) != 0)
        return error;
    service_shared.forks_wait = true;
    service_shared.quit = false;
    service_shared.epoll = fds_epoll_private();
    if (service_shared.epoll == -1)
        return errno;
    service_shared.wake = fds_own_private(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (service_shared.wake == -1 || fds_watch(service_shared.epoll, service_shared.wake, &event) == -1) {
        error = errno;
        goto fail;
    }
    error = start_thread();
    if (error == 0)
        return 0;
fail:
    if (service_shared.wake != -1)
        fds_close(service_shared.wake);
    fds_close(service_shared.epoll);
    service_shared.epoll = service_shared.wake = -1;
    return error;
}

static void stop_thread(void)
{
    soft_mutex_lock(&service_shared.lock);
    service_shared.quit = true;
    soft_mutex_unlock(&service_shared.lock);
    wake_thread();
    pthread_join(service_shared.thread, NULL);
    fds_close(service_shared.wake);
    fds_close(service_shared.epoll);
    service_shared.epoll = service_shared.wake = -1;
}

/* ---- Members ---- */

int service_join(struct service_member *member)
{
    int error = 0;

    member->count = 0;
    member->listener = -1;
    member->late = member->absent = member->suspended = false;
    atomic_store(&member->state, SERVICE_IDLE);
    soft_mutex_lock(&service_shared.gate);
    if (service_shared.members == 0)
        error = begin_thread();
    if (error == 0)
        service_shared.members++;
    soft_mutex_unlock(&service_shared.gate);
    return error;
}

void service_leave(struct service_member *member)
{
    soft_mutex_lock(&service_shared.gate);
    soft_mutex_lock(&service_shared.lock);
    service_run_scheduled(); /* empties the list `scheduled`, which may contain the member */
    if (atomic_load(&member->state) != SERVICE_IDLE)
        TAILQ_REMOVE(&service_shared.watched, member, watched);
    for (int i = 0; i < member->count; i++)
        fds_unwatch(service_shared.epoll, member->sockets[i]);
    soft_mutex_unlock(&service_shared.lock);
    if (--service_shared.members == 0)
        stop_thread();
    soft_mutex_unlock(&service_shared.gate);
}

int service_add_listener(struct service_member *member, int socket)
{
    soft_mutex_lock(&service_shared.lock);
    member->listener = socket;
    soft_mutex_unlock(&service_shared.lock);
    return service_add(member, socket);
}

int service_add(struct service_member *member, int socket)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = member};
    int error = 0;

    soft_mutex_lock(&service_shared.lock);
    if (fds_watch(service_shared.epoll, socket, &event) == -1)
        error = errno;
    else
        member->sockets[member->count++] = socket;
    soft_mutex_unlock(&service_shared.lock);
    return error;
}

int service_attach(struct service_member *member, int socket)
{
    int error = soft_watch(member->context, socket) == 0 ? 0 : errno;

    if (error != 0)
        return error;
    error = service_add(member, socket);
    if (error != 0)
        soft_unwatch(member->context, socket);
    return error;
}

void service_remove(struct service_member *member, int socket)
{
    soft_mutex_lock(&service_shared.lock);
    fds_unwatch(service_shared.epoll, socket);
    for (int i = 0; i < member->count; i++)
        if (member->sockets[i] == socket) {
            member->sockets[i] = member->sockets[--member->count];
            break;
        }
    soft_mutex_unlock(&service_shared.lock);
}

void service_suspend(struct service_member *member)
{
    soft_mutex_lock(&service_shared.lock);
    member->suspended = true;
    soft_mutex_unlock(&service_shared.lock);
}

void service_resume(struct service_member *member)
{
    soft_mutex_lock(&service_shared.lock);
    member->suspended = false;
    service_run_scheduled();
    service_watch(member); /* packets that arrived in the meantime were not processed */
    soft_mutex_unlock(&service_shared.lock);
    wake_thread();
}

void service_schedule(struct service_member *member)
{
    int idle = SERVICE_IDLE;

    if (!atomic_compare_exchange_strong(&member->state, &idle, SERVICE_CALLED))
        return;
    member->scheduled = atomic_load(&service_shared.scheduled);
    while (!atomic_compare_exchange_weak(&service_shared.scheduled, &member->scheduled, member))
        ;
    wake_thread();
}

void service_take_over(struct service_member *member)
{
    int state;

    soft_mutex_lock(&service_shared.lock);
    state = atomic_load(&member->state);
    member->absent = true; /* this suffices in IDLE: the first packet wakes the thread */
    if ((state == SERVICE_CALLED || state == SERVICE_WATCH) && !member->suspended) {
        service_watch(member);
        atomic_store(&member->state, SERVICE_SERVE);
        service_arm(member, EPOLLIN);
    }
    soft_mutex_unlock(&service_shared.lock);
}

/* ---- The additional task ---- */

void service_task(int fd, void (*run)(void))
{
    soft_mutex_lock(&service_shared.lock);
    service_shared.task = fd;
    service_shared.run_task = run;
    soft_mutex_unlock(&service_shared.lock);
    wake_thread();
}

void service_task_due(uint64_t at)
{
    if (at < atomic_exchange(&service_shared.task_due, at))
        wake_thread();
}

void service_forget(void)
{
    /* Without fork handlers another thread may have held the locks; with them after_fork() releases them. */
    if (!service_shared.forks_wait) {
        pthread_mutex_init(&service_shared.task_lock, NULL);
        pthread_mutex_init(&service_shared.gate, NULL);
        pthread_mutex_init(&service_shared.lock, NULL);
    }
    service_shared.task = -1;
    atomic_store(&service_shared.task_due, NEVER_NS);
    TAILQ_INIT(&service_shared.watched);
    atomic_store(&service_shared.scheduled, NULL);
    service_shared.members = 0;
    service_shared.epoll = service_shared.wake = -1;
}
