/* SPDX-License-Identifier: BSD-2-Clause */
/* doorbell.c - levels and signals on eventfds and timerfds. See doorbell.h. */
#include <errno.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include "doorbell.h"
#include "fds.h"

/* An expired timer is readable at once, and stays so until it is set again. */
static bool set_time(int fd, uint64_t at)
{
    struct itimerspec when = {.it_value = ns_timespec(at != NEVER_NS ? at : 0)};

    return timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL) == 0;
}

static bool set_flag(const struct doorbell *wakefd, bool up)
{
    if (wakefd->fd < 0)
        return true;
    return wakefd->kind == DOORBELL_TIMED ? set_time(wakefd->fd, up ? 1 : wakefd->at)
                                          : fds_flag(wakefd->fd, up);
}

int doorbell_make(struct doorbell *wakefd)
{
    if (wakefd->kind == DOORBELL_TIMED)
        wakefd->fd = fds_own_private(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    else if (wakefd->kind == DOORBELL_SHOWN)
        wakefd->fd = fds_own(eventfd(0, EFD_CLOEXEC));
    else
        wakefd->fd = fds_own_private(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (wakefd->fd < 0)
        return -1;
    if ((wakefd->up || wakefd->at != NEVER_NS) && !set_flag(wakefd, wakefd->up)) {
        doorbell_close(wakefd);
        return -1;
    }
    return 0;
}

void doorbell_close(struct doorbell *wakefd)
{
    int saved = errno;

    if (wakefd->fd >= 0)
        fds_close(wakefd->fd);
    wakefd->fd = -1;
    errno = saved;
}

void doorbell_set(struct doorbell *wakefd, bool up)
{
    if (wakefd->up != up && set_flag(wakefd, up))
        wakefd->up = up;
}

void doorbell_time(struct doorbell *wakefd, uint64_t at)
{
    bool idle = at == NEVER_NS && wakefd->at == NEVER_NS;

    wakefd->at = at;
    if (!wakefd->up && !idle)
        set_flag(wakefd, false);
}

void doorbell_retrigger(struct doorbell *wakefd)
{
    if (set_flag(wakefd, true))
        wakefd->up = true;
}

void doorbell_signal(const struct doorbell *wakefd)
{
    if (wakefd->fd >= 0)
        (void)fds_flag(wakefd->fd, true);
}

void doorbell_drain(const struct doorbell *wakefd)
{
    if (wakefd->fd >= 0)
        (void)fds_flag(wakefd->fd, false);
}
