# SPDX-License-Identifier: BSD-2-Clause
"""What sockets and streams share: the start of the library, its errors, and addresses."""
from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Any, Callable, Dict, Optional, Tuple, Union

from exs._exs import ffi, lib

OFF = lib.EXS_CONFIG_OFF
CHECK_ABORT = lib.EXS_CHECK_ABORT

_state = {"started": False}
_settings: Dict[str, Union[int, str]] = {}  # fields of exs_config_t, by their names


def _after_fork() -> None:
    # A child that was forked must call exs_init itself.
    _state["started"] = False


os.register_at_fork(after_in_child=_after_fork)


def configure(**settings: Union[int, str]) -> None:
    """Starts the library with a configuration: the fields of exs_init_config(3) without exs_, such as link="tcp" or
    spin_us=exs.OFF. OSError with EALREADY: the library is in use with another configuration. It holds in forked children, too."""
    config, texts = ffi.new("exs_config_t *"), []
    config.exs_size = ffi.sizeof("exs_config_t")
    for name, value in settings.items():
        if name == "size" or not hasattr(config, "exs_" + name):
            raise TypeError(f"configure() has no setting {name}")
        if isinstance(value, str):
            texts.append(ffi.new("char[]", value.encode()))  # lives until the call has returned
        setattr(config, "exs_" + name, texts[-1] if isinstance(value, str) else value)
    check(lib.exs_init_config(lib.EXS_VERSION, config))
    _state["started"] = True
    _settings.update(settings)


def start_library() -> None:
    """Starts the library once for each process. What the environment sets must be set before the first socket."""
    if not _state["started"]:
        configure(**_settings)


def version() -> str:
    """The version of libexs, "3.0.0" for example."""
    return str(ffi.string(lib.exs_version_string()).decode())


def last_error(code: Optional[int] = None) -> OSError:
    """Why the thread's last call has failed, in the words of exs_errmsg. Python chooses the subclass of OSError by errno."""
    if code is None:
        code = ffi.errno
    else:
        ffi.errno = code
    return OSError(code, ffi.string(lib.exs_errmsg()).decode(errors="replace"))


def event_error(code: int) -> OSError:
    """Why an operation has failed, by the errno of its event."""
    return OSError(code, os.strerror(code))


def check(result: int) -> int:
    """What a call has returned; raises its error if that is -1."""
    if result == -1:
        raise last_error()
    return result


def wait_for(call: Callable[..., int], *arguments: Any) -> int:
    """One of the calls blocking_... of exs_build.py. If a signal ends it and the handler raises nothing, it is made again."""
    while True:
        result = call(*arguments)
        if result >= 0:
            return result
        if result != -errno.EINTR:
            raise last_error(-result)


def to_timeval(seconds: float) -> Any:
    """A struct timeval, of at least a microsecond: none at all would mean no limit."""
    microseconds = max(int(seconds * 1000000), 1)
    return ffi.new("struct timeval *", {"tv_sec": microseconds // 1000000, "tv_usec": microseconds % 1000000})


NO_TIME = ffi.new("struct timeval *")


def pack_address(family: int, address: Tuple[Any, ...]) -> bytes:
    """A struct sockaddr of an address as getaddrinfo has it: numbers, not names."""
    if family == socket.AF_INET6:
        host, port, flow, scope = (tuple(address) + (0, 0))[:4]
        packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
        return struct.pack("=H", family) + struct.pack("!HI16s", port, flow, packed) + struct.pack("=I", scope)
    return struct.pack("=H", family) + struct.pack("!H4s8x", address[1], socket.inet_aton(address[0]))


def unpack_address(packed: bytes) -> Tuple[Any, ...]:
    """The address of a struct sockaddr, in the form of Python's sockets."""
    (family,) = struct.unpack_from("=H", packed)
    if family == socket.AF_INET6:
        port, flow, host = struct.unpack_from("!HI16s", packed, 2)
        (scope,) = struct.unpack_from("=I", packed, 24)
        return socket.inet_ntop(family, host), port, flow, scope
    port, host = struct.unpack_from("!H4s", packed, 2)
    return socket.inet_ntop(family, host), port


def name_of(call: Callable[..., int], number: int) -> Tuple[Any, ...]:
    """The address that exs_getsockname or exs_getpeername returns."""
    room = ffi.new("char[128]")
    length = ffi.new("socklen_t *", 128)
    check(call(number, room, length))
    return unpack_address(ffi.buffer(room, length[0])[:])


def device_of(number: int) -> str:
    """The name of the RDMA device that carries a connection, "soft0" for example."""
    room = ffi.new("char[64]")
    check(lib.exs_getdevice(number, room, 64))
    return str(ffi.string(room).decode())


def file_element(file: Any, offset: int, count: Any) -> Tuple[Any, int]:
    """A part of a regular file as exs_sendfile takes it, and its bytes; none where the file has fewer."""
    if offset < 0 or (count is not None and count <= 0):
        raise ValueError("offset must not be negative, and count must be positive or None")
    number = file.fileno()
    length = max(os.fstat(number).st_size - offset, 0)
    if count is not None:
        length = min(length, count)
    element = ffi.new("exs_xferfile_t *")
    element.exs_xfv_type = lib.EXS_FDVEC
    element.exs_xfv.exs_fdv.exs_fildes = number
    element.exs_xfv.exs_fdv.exs_offset = offset
    element.exs_xfv.exs_fdv.exs_length = length
    return element, length
