# SPDX-License-Identifier: BSD-2-Clause
"""The extension exs._exs, by cffi in API mode: the C compiler compares these declarations with exs.h, and takes the numbers
and the layouts from there."""
import shlex
import subprocess

from cffi import FFI


def flags(option):
    """What pkg-config says of libexs."""
    output = subprocess.run(["pkg-config", option, "exs"], check=True, capture_output=True, text=True).stdout
    return shlex.split(output)


ffi = FFI()
# The calls that wait for a socket return -errno. Between the return of a call and the next line of Python a signal handler can
# run, and its own calls change the errno that cffi keeps.
BLOCKING = """
#include <errno.h>
#include <exs.h>

#define WAIT (EXS_BLOCK | EXS_INTR)
#define RESULT(type, call) type result = (call); return result == -1 ? -errno : result

static int blocking_accept(int sockno, exs_acceptaddr_t *element)
{
    RESULT(int, exs_accept(sockno, element, 1, WAIT, NULL));
}

static int blocking_connect(int sockno, const void *address, socklen_t length, const struct timeval *timeout)
{
    RESULT(int, exs_connect(sockno, address, length, WAIT, timeout, NULL, NULL));
}

static ssize_t blocking_send(int sockno, const void *buffer, size_t length, int flags)
{
    RESULT(ssize_t, exs_send(sockno, buffer, length, flags | WAIT, NULL, NULL, NULL));
}

static ssize_t blocking_recv(int sockno, void *buffer, size_t length, int flags)
{
    RESULT(ssize_t, exs_recv(sockno, buffer, length, flags | WAIT, NULL, NULL, NULL));
}

static ssize_t blocking_sendfile(int sockno, const exs_xferfile_t *element)
{
    RESULT(ssize_t, exs_sendfile(sockno, element, 1, EXS_BIGFILE | WAIT, NULL, NULL));
}
"""
ffi.set_source("exs._exs", BLOCKING, extra_compile_args=flags("--cflags"), extra_link_args=flags("--libs"))
ffi.cdef("""
    typedef int... socklen_t;
    typedef int... off_t;
    struct timeval { long tv_sec; long tv_usec; ...; };

    typedef struct exs_queue *exs_qhandle_t;
    typedef struct exs_memory *exs_mhandle_t;
    typedef void *exs_ahandle_t;

    #define EXS_VERSION ...
    #define EXS_CONFIG_OFF ...
    #define EXS_CHECK_ABORT ...
    #define EXS_BLOCK ...
    #define EXS_BIGFILE ...
    #define EXS_MULTISHOT ...
    #define EXS_FDVEC ...
    #define EXS_POLLIN ...

    typedef struct { int exs_fildes; off_t exs_offset; size_t exs_length; ...; } exs_fdvec_t;
    union exs_xfvec { exs_fdvec_t exs_fdv; ...; };
    typedef struct { int exs_xfv_type; union exs_xfvec exs_xfv; ...; } exs_xferfile_t;
    typedef struct { int exs_fd; short exs_events; short exs_revents; ...; } exs_pollfd_t;
    typedef struct { int exs_socket; exs_ahandle_t exs_ahandle; ...; } exs_acceptaddr_t;
    typedef struct { int exs_evt_type; int exs_evt_errno; int exs_evt_socket; exs_ahandle_t exs_evt_ahandle; ...; } exs_event_t;

    typedef struct {
        size_t exs_size;
        const char *exs_device; const char *exs_link; const char *exs_tcp_congestion; const char *exs_roce;
        int exs_spin_us; int exs_map; int exs_immediate; int exs_debug; int exs_check;
        int exs_rcvbuf; int exs_sndbuf; int exs_half_open; uint64_t exs_ring_bytes;
        ...;
    } exs_config_t;

    int exs_init_config(int version, const exs_config_t *config);
    const char *exs_version_string(void);
    const char *exs_errmsg(void);
    ssize_t exs_event_result(const exs_event_t *event);

    int exs_socket(int family, int socktype, int protocol);
    int exs_bind(int sockno, const void *address, socklen_t address_len);
    int exs_listen(int sockno, int backlog);
    int exs_accept(int sockno, exs_acceptaddr_t *addrvec, int addrvec_cnt, int flags, exs_qhandle_t qhandle);
    int exs_connect(int sockno, const void *address, socklen_t address_len, int flags, const struct timeval *timeout,
                    exs_qhandle_t qhandle, exs_ahandle_t ahandle);
    int exs_shutdown(int sockno, int how, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle);
    int exs_close(int sockno, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle);
    int exs_getsockname(int sockno, void *address, socklen_t *address_len);
    int exs_getpeername(int sockno, void *address, socklen_t *address_len);
    int exs_getsockopt(int sockno, int level, int option, void *value, socklen_t *value_len);
    int exs_setsockopt(int sockno, int level, int option, const void *value, socklen_t value_len);
    int exs_getdevice(int sockno, char *name, size_t size);
    int exs_poll(exs_pollfd_t *fds, int count, int flags, const struct timeval *timeout, exs_qhandle_t qhandle,
                 exs_ahandle_t ahandle);

    ssize_t exs_send(int sockno, const void *buffer, size_t length, int flags, exs_qhandle_t qhandle,
                     exs_ahandle_t ahandle, exs_mhandle_t mhandle);
    ssize_t exs_recv(int sockno, void *buffer, size_t length, int flags, exs_qhandle_t qhandle,
                     exs_ahandle_t ahandle, exs_mhandle_t mhandle);
    ssize_t exs_sendfile(int sockno, const exs_xferfile_t *sendvec, int sendvec_cnt, int flags, exs_qhandle_t qhandle,
                         exs_ahandle_t ahandle);

    int blocking_accept(int sockno, exs_acceptaddr_t *element);
    int blocking_connect(int sockno, const void *address, socklen_t length, const struct timeval *timeout);
    ssize_t blocking_send(int sockno, const void *buffer, size_t length, int flags);
    ssize_t blocking_recv(int sockno, void *buffer, size_t length, int flags);
    ssize_t blocking_sendfile(int sockno, const exs_xferfile_t *element);

    exs_mhandle_t exs_mregister(void *addr, size_t size, int flags);
    int exs_mderegister(exs_mhandle_t mhandle, int flags);

    exs_qhandle_t exs_qcreate(int depth);
    int exs_qdelete(exs_qhandle_t qhandle);
    int exs_qdequeue(exs_qhandle_t qhandle, exs_event_t *evtvec, int evtvec_cnt, const struct timeval *timeout);
    int exs_qfd(exs_qhandle_t qhandle);
    int exs_qprepare(exs_qhandle_t qhandle);
""")
