/* SPDX-License-Identifier: BSD-2-Clause */
/* The mock's two device tables, their properties, the clock, and calls that fail. See mock.h. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include "check/fuzz/mock.h"
#include "core/device/rdma/harvest.h"

#define BEGINNING UINT64_C(1000000000000000000) /* ns; later than the kernel's clock */
#define TIMERS 1024

struct mock_config mock_config;
struct mock_count mock_count;
uint64_t mock_progress;
const char *mock_running;

static uint64_t now;
static bool virtual_time;
/* When the timer of each descriptor expires, ns; 0: it is off, or not a timer. */
static uint64_t timers[TIMERS];
static unsigned calls_left;
static int failure;

void mock_broken(const char *file, int line, const char *format, ...)
{
    va_list arguments;

    if (mock_running != NULL)
        fprintf(stderr, "%s: ", mock_running);
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    abort();
}

/* ---- Time ------------------------------------------------------------------------------------ */

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

/* Linked with --wrap=clock_gettime: the code of this program, above all EXS, sees the mock's time. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    if (!virtual_time || clock != CLOCK_MONOTONIC)
        return __real_clock_gettime(clock, time);
    *time = (struct timespec){.tv_sec = (time_t)(now / 1000000000), .tv_nsec = (long)(now % 1000000000)};
    return 0;
}

int __real_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old);

/* Also linked with --wrap: the kernel's timer stays off until the mock's clock reaches its time. */
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old)
{
    static const struct itimerspec off;

    if (!virtual_time || fd >= TIMERS)
        return __real_timerfd_settime(fd, flags, value, old);
    timers[fd] = (uint64_t)value->it_value.tv_sec * 1000000000 + (uint64_t)value->it_value.tv_nsec;
    return __real_timerfd_settime(fd, 0, &off, old);
}

/* The kernel's timer fires at once then; poll waits for that. For a descriptor that is no longer a timer,
 * timerfd_settime fails. */
void mock_pass_time(uint64_t ns)
{
    const struct itimerspec soon = {.it_value = {.tv_nsec = 1}};

    now += ns;
    for (int fd = 0; fd < TIMERS; fd++) {
        struct pollfd due = {.fd = fd, .events = POLLIN};

        if (timers[fd] == 0 || timers[fd] > now)
            continue;
        timers[fd] = 0;
        if (__real_timerfd_settime(fd, 0, &soon, NULL) == 0)
            poll(&due, 1, 1000);
    }
}

/* ---- Failures --------------------------------------------------------------------------------------- */

void mock_fail(unsigned calls, int error)
{
    calls_left = calls;
    failure = error;
}

bool mock_fails(void)
{
    if (failure == 0 || calls_left-- > 0)
        return false;
    errno = failure;
    failure = 0;
    return true;
}

/* ---- Beginning and end ------------------------------------------------------------------------------ */

void mock_balance(void)
{
    const struct mock_count *c = &mock_count;

    require(c->qps == 0, "%d queue pairs are left", c->qps);
    require(c->mrs == 0, "%d memory regions are left", c->mrs);
    require(c->cqs == 0, "%d completion queues are left", c->cqs);
    require(c->channels == 0, "%d completion channels are left", c->channels);
    require(c->pds == 0, "%d protection domains are left", c->pds);
    require(c->ids == 0, "%d ids are left", c->ids);
    require(c->cm_channels == 0, "%d event channels are left", c->cm_channels);
}

void mock_reset(const struct mock_config *config)
{
    mock_balance();
    mock_config = *config;
    mock_fail(0, 0);
    now = BEGINNING;
    virtual_time = true;
}

void mock_end(void)
{
    mock_balance();
    virtual_time = false;
}

/* ---- The tables ------------------------------------------------------------------------------------- */

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    (void)context;
    if (mock_fails())
        return errno;
    *attr = (struct ibv_device_attr){.max_cqe = mock_config.max_cqe,
                                     .max_qp_wr = mock_config.max_wr,
                                     .max_qp_rd_atom = mock_config.reads,
                                     .max_qp_init_rd_atom = mock_config.reads};
    return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    (void)context;
    require(port == 1, "port %d", port);
    if (mock_fails())
        return errno;
    *attr = (struct ibv_port_attr){.max_msg_sz = mock_config.max_request, .state = IBV_PORT_ACTIVE};
    return 0;
}

static const char *wc_status_str(enum ibv_wc_status status)
{
    return status == IBV_WC_SUCCESS ? "success" : "failure";
}

static int create_id_rdma(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                          enum rdma_port_space ps)
{
    (void)ps;
    return mock_create_id_on(&rdma_device, channel, id, context);
}

static int create_id_soft(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                          enum rdma_port_space ps)
{
    (void)ps;
    return mock_create_id_on(&soft_device, channel, id, context);
}

static int harvest(struct ibv_comp_channel *channel, struct harvest *into)
{
    return rdma_harvest(mock_get_cq_event, channel, into);
}

/* No message gets lost in the mock, so there is nothing to do. */
static int notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
    (void)id, (void)event;
    return 0;
}

/* The calls that both devices have. */
#define CALLS                                                                                                  \
    .create_event_channel = mock_create_event_channel, .destroy_event_channel = mock_destroy_event_channel,    \
    .destroy_id = mock_destroy_id, .bind_addr = mock_bind_addr, .resolve_addr = mock_resolve_addr,             \
    .resolve_route = mock_resolve_route, .create_qp = mock_create_qp, .destroy_qp = mock_destroy_qp,           \
    .connect = mock_connect, .listen = mock_listen, .accept = mock_accept, .reject = mock_reject,              \
    .disconnect = mock_disconnect, .notify = notify, .migrate_id = mock_migrate_id,                            \
    .set_option = mock_set_option, .get_cm_event = mock_get_cm_event, .ack_cm_event = mock_ack_cm_event,       \
    .query_device = query_device, .query_port = query_port, .alloc_pd = mock_alloc_pd,                         \
    .dealloc_pd = mock_dealloc_pd, .reg_mr = mock_reg_mr, .dereg_mr = mock_dereg_mr,                           \
    .reg_mr_iova2 = mock_reg_mr_iova2, .create_comp_channel = mock_create_comp_channel,                        \
    .destroy_comp_channel = mock_destroy_comp_channel, .create_cq = mock_create_cq,                            \
    .destroy_cq = mock_destroy_cq, .get_cq_event = mock_get_cq_event, .ack_cq_events = mock_ack_cq_events,     \
    .harvest = harvest, .modify_qp = mock_modify_qp, .wc_status_str = wc_status_str

static bool is_by_tcp(struct rdma_cm_id *id)
{
    (void)id;
    return true;
}

const struct device rdma_device = {.name = "rdma", .contexts_end = true, .create_id = create_id_rdma, CALLS};
const struct device soft_device = {
    .name = "soft", .long_request = 32768, .is_by_tcp = is_by_tcp, .create_id = create_id_soft, CALLS};
const struct device *const mock_devices[2] = {&rdma_device, &soft_device};

/* ---- Contexts ---------------------------------------------------------------------------------------- */

/* Two of each kind: a removed one may still exist when the next one is opened. */
static struct mock_context contexts[2][2];
static int current[2];

struct ibv_context *mock_context(const struct device *device)
{
    int index = device == &soft_device;
    struct mock_context *mock = &contexts[index][current[index]];
    struct ibv_context *context = &mock->context;

    memcpy(mock->device.name, index ? "soft0" : "mock0", sizeof("soft0"));
    mock->device.transport_type = mock_config.iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
    context->device = &mock->device;
    context->ops.post_send = mock_post_send;
    context->ops.post_recv = mock_post_recv;
    context->ops.poll_cq = mock_poll_cq;
    context->ops.req_notify_cq = mock_req_notify;
    return context;
}

static struct mock_context *mock_of(struct ibv_context *context)
{
    return (struct mock_context *)context;
}

static const struct mock_context *look_at(const struct ibv_context *context)
{
    return (const struct mock_context *)context;
}

struct ibv_context *mock_replace(const struct device *device)
{
    struct ibv_context *context = mock_context(device);
    int index = device == &soft_device;

    if (contexts[index][!current[index]].replaced)
        return NULL;
    current[index] = !current[index];
    mock_of(context)->replaced = true;
    return context;
}

void mock_refuse(struct ibv_context *context)
{
    mock_of(context)->refuses = true;
}

void mock_take_back(struct ibv_context *context)
{
    mock_refuse(context);
    mock_take_qps(context);
    mock_end_channels(context);
}

bool mock_refuses(const struct ibv_context *context)
{
    if (!look_at(context)->refuses)
        return false;
    errno = EIO;
    return true;
}

bool mock_is_removed(const struct ibv_context *context)
{
    if (context == NULL || !look_at(context)->removed)
        return false;
    errno = ENXIO;
    return true;
}

void mock_count_object(struct ibv_context *context, int change)
{
    mock_of(context)->objects += change;
}

/* A closed context can be used again for the next one. */
void mock_count_id(struct ibv_context *context, int change)
{
    struct mock_context *mock = mock_of(context);

    mock->ids += change;
    if (!mock->replaced || mock->ids > 0)
        return;
    require(mock->objects == 0, "a context is closed before %d objects of it", mock->objects);
    mock->replaced = mock->removed = mock->refuses = false;
}
