# SPDX-License-Identifier: BSD-2-Clause
"""Blocking sockets, with the calls of Python's own socket module."""
from __future__ import annotations

import errno
import io
import os
import socket as _socket
import sys
from typing import Any, BinaryIO, Optional, Tuple, Union

from exs._exs import ffi, lib
from exs._library import (NO_TIME, check, device_of, file_element, name_of, pack_address, start_library, to_timeval,
                          wait_for)

_allocate = ffi.new_allocator(should_clear_after_alloc=False)


class socket:  # pylint: disable=invalid-name,too-many-public-methods
    """A connection or a listener over RDMA. The methods mean what those of socket.socket mean.

    fileno() is a number that only exs_ calls of C understand: select, poll and asyncio cannot watch it."""

    def __init__(self, family: int = _socket.AF_INET, type: int = _socket.SOCK_STREAM,  # pylint: disable=redefined-builtin
                 proto: int = 0, fileno: Optional[int] = None) -> None:
        self._number = -1
        start_library()
        self.family, self.type, self.proto = _socket.AddressFamily(family), _socket.SocketKind(type), proto
        self._timeout: Optional[float] = _socket.getdefaulttimeout()
        self._files = 0  # of makefile, that are open
        self._closed = False
        self._number = check(lib.exs_socket(family, type, proto)) if fileno is None else fileno
        if self._timeout is not None:
            self.settimeout(self._timeout)

    def __repr__(self) -> str:
        return f"<exs.socket fd={self._number}, family={self.family.name}, type={self.type.name}>"

    # ---- Its end ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> socket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._number != -1:
            lib.exs_close(self._number, 0, ffi.NULL, ffi.NULL)  # fails in a forked child, which has no sockets

    def _close_number(self) -> None:
        number, self._number = self._number, -1
        check(lib.exs_close(number, 0, ffi.NULL, ffi.NULL))

    def close(self) -> None:
        """Closes the socket; if files of makefile are open, with the last of them."""
        self._closed = True
        if self._files <= 0 and self._number != -1:
            self._close_number()

    def _decref_socketios(self) -> None:
        """Called by socket.SocketIO, which makefile uses, when it is closed."""
        self._files -= 1
        if self._closed:
            self.close()

    def detach(self) -> int:
        """The number, which the caller owns from now on."""
        number, self._number = self._number, -1
        self._closed = True
        return number

    def fileno(self) -> int:
        """The number; -1 of a socket that is closed."""
        return self._number

    # ---- Time -------------------------------------------------------------------------------------------------------

    def settimeout(self, value: Optional[float]) -> None:
        """None: calls wait. 0: they raise BlockingIOError where they would wait. Else they raise TimeoutError after so many
        seconds; a signal handler that raises nothing makes the time start again."""
        if value is not None and value < 0:
            raise ValueError("Timeout value out of range")
        limit = to_timeval(value) if value else NO_TIME
        for option in (_socket.SO_RCVTIMEO, _socket.SO_SNDTIMEO):
            check(lib.exs_setsockopt(self._number, _socket.SOL_SOCKET, option, limit, ffi.sizeof("struct timeval")))
        self._timeout = value

    def gettimeout(self) -> Optional[float]:
        """What settimeout has set."""
        return self._timeout

    def setblocking(self, flag: bool) -> None:
        """settimeout(None) or settimeout(0)."""
        self.settimeout(None if flag else 0.0)

    def getblocking(self) -> bool:
        """Whether calls wait."""
        return self._timeout != 0

    def _flags(self, flags: int) -> int:
        return flags | (_socket.MSG_DONTWAIT if self._timeout == 0 else 0)

    # ---- Connections ------------------------------------------------------------------------------------------------

    def _resolve(self, address: Tuple[Any, ...], flags: int = 0) -> bytes:
        host, port = address[:2]
        found = _socket.getaddrinfo(host or None, port, self.family, _socket.SOCK_STREAM, 0, flags)
        resolved: Tuple[Any, ...] = found[0][4]
        if len(address) > 2:
            resolved = resolved[:2] + tuple(address[2:])
        return pack_address(self.family, resolved)

    def bind(self, address: Tuple[Any, ...]) -> None:
        """address is (host, port); of IPv6 (host, port, flow information, scope), too."""
        packed = self._resolve(address, _socket.AI_PASSIVE)
        check(lib.exs_bind(self._number, packed, len(packed)))

    def listen(self, backlog: int = min(_socket.SOMAXCONN, 128)) -> None:
        """Holds up to backlog requests for accept."""
        check(lib.exs_listen(self._number, max(backlog, 0)))

    def _readable(self) -> bool:
        watched = ffi.new("exs_pollfd_t *", {"exs_fd": self._number, "exs_events": lib.EXS_POLLIN})
        return check(lib.exs_poll(watched, 1, lib.EXS_BLOCK, NO_TIME, ffi.NULL, ffi.NULL)) > 0

    def accept(self) -> Tuple[socket, Tuple[Any, ...]]:
        """A new socket, and the address of its peer."""
        if self._timeout == 0 and not self._readable():
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        element = ffi.new("exs_acceptaddr_t *")
        wait_for(lib.blocking_accept, self._number, element)
        new = socket(self.family, self.type, self.proto, element.exs_socket)
        return new, new.getpeername()

    def connect(self, address: Tuple[Any, ...]) -> None:
        """Waits at most for the time of settimeout, or 30 seconds. A socket with the time 0 cannot connect: exs.aio can
        connect without waiting."""
        if self._timeout == 0:
            raise OSError(errno.EOPNOTSUPP, "connect of a socket that does not block: set a timeout, or use exs.aio")
        packed = self._resolve(address)
        limit = to_timeval(self._timeout) if self._timeout else ffi.NULL
        wait_for(lib.blocking_connect, self._number, packed, len(packed), limit)

    def shutdown(self, how: int) -> None:
        """SHUT_RD, SHUT_WR or SHUT_RDWR; waits until the peer's host has what was sent."""
        check(lib.exs_shutdown(self._number, how, lib.EXS_BLOCK, ffi.NULL, ffi.NULL))

    def getsockname(self) -> Tuple[Any, ...]:
        """The socket's own address."""
        return name_of(lib.exs_getsockname, self._number)

    def getpeername(self) -> Tuple[Any, ...]:
        """The peer's address."""
        return name_of(lib.exs_getpeername, self._number)

    def getdevice(self) -> str:
        """The name of the RDMA device that carries the connection, "soft0" for example."""
        return device_of(self._number)

    def getsockopt(self, level: int, optname: int, buflen: Optional[int] = None) -> Union[int, bytes]:
        """An option that is an int; with buflen, so many bytes."""
        room = ffi.new("char[]", buflen or 4)
        length = ffi.new("socklen_t *", buflen or 4)
        check(lib.exs_getsockopt(self._number, level, optname, room, length))
        value = ffi.buffer(room, length[0])[:]
        return value if buflen is not None else int.from_bytes(value, sys.byteorder, signed=True)

    def setsockopt(self, level: int, optname: int, value: Union[int, bytes]) -> None:
        """value is an int, or bytes as C has them. settimeout sets SO_RCVTIMEO and SO_SNDTIMEO."""
        packed = ffi.new("int *", value) if isinstance(value, int) else ffi.from_buffer(value)
        check(lib.exs_setsockopt(self._number, level, optname, packed, 4 if isinstance(value, int) else len(value)))

    # ---- Transfers --------------------------------------------------------------------------------------------------

    def send(self, data: Any, flags: int = 0) -> int:
        """Sends data, any object with a buffer, without a copy; how many bytes. All, unless the time ends it."""
        view = ffi.from_buffer(data)
        return wait_for(lib.blocking_send, self._number, view, len(view), self._flags(flags))

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Sends all of data, or raises."""
        with memoryview(data) as whole, whole.cast("B") as view:
            sent = self.send(view, flags)
            while sent < len(view):
                sent += self.send(view[sent:], flags)

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        """Up to bufsize bytes; none at the orderly end."""
        if bufsize < 0:
            raise ValueError("negative buffersize in recv")
        room = _allocate("char[]", bufsize)
        length = wait_for(lib.blocking_recv, self._number, room, bufsize, self._flags(flags))
        return bytes(ffi.buffer(room, length))

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Receives into a buffer that can be written, without a copy; how many bytes. nbytes 0: as many as it holds."""
        view = ffi.from_buffer(buffer, require_writable=True)
        if not 0 <= nbytes <= len(view):
            raise ValueError("buffer too small for requested bytes" if nbytes > 0 else "negative buffersize in recv_into")
        return wait_for(lib.blocking_recv, self._number, view, nbytes or len(view), self._flags(flags))

    def sendfile(self, file: BinaryIO, offset: int = 0, count: Optional[int] = None) -> int:
        """Sends a part of a regular file without reading it; how many bytes. The file's position is behind them."""
        if self._timeout == 0:
            raise ValueError("non-blocking sockets are not supported")
        element, length = file_element(file, offset, count)
        if length > 0:
            wait_for(lib.blocking_sendfile, self._number, element)
        file.seek(offset + length)
        return length

    def makefile(self, mode: str = "r", buffering: int = -1, *, encoding: Optional[str] = None,
                 errors: Optional[str] = None, newline: Optional[str] = None) -> Any:
        """A file object on the connection, as socket.makefile returns."""
        if not set(mode) <= {"r", "w", "b"} or not {"r", "w"} & set(mode):
            raise ValueError(f"invalid mode {mode!r} (only r, w, b allowed)")
        rawmode = "".join(letter for letter in "rw" if letter in mode)
        raw = _socket.SocketIO(self, rawmode)  # type: ignore[arg-type]
        self._files += 1
        if buffering == 0:
            if "b" not in mode:
                raise ValueError("unbuffered streams must be binary")
            return raw
        size = buffering if buffering > 0 else io.DEFAULT_BUFFER_SIZE
        buffered: Any
        if rawmode == "rw":
            buffered = io.BufferedRWPair(raw, raw, size)
        elif rawmode == "r":
            buffered = io.BufferedReader(raw, size)
        else:
            buffered = io.BufferedWriter(raw, size)
        if "b" in mode:
            return buffered
        text = io.TextIOWrapper(buffered, encoding, errors, newline)
        text.mode = mode  # type: ignore[misc]
        return text


def create_connection(address: Tuple[str, int], timeout: Optional[float] = None) -> socket:
    """A stream to (host, port), by the first of the host's addresses that accepts; timeout is for each of them, and then for
    the socket's calls."""
    failure: Optional[OSError] = None
    for family, _, _, _, resolved in _socket.getaddrinfo(address[0], address[1], 0, _socket.SOCK_STREAM):
        sock = socket(family)
        try:
            sock.settimeout(timeout)
            sock.connect(resolved)
            return sock
        except OSError as error:
            sock.close()
            failure = error
    raise failure or OSError("getaddrinfo returns an empty list")


def create_server(address: Tuple[str, int], *, family: int = _socket.AF_INET, backlog: Optional[int] = None) -> socket:
    """A listener on (host, port); port 0 is any, and host "" every address of the family."""
    sock = socket(family)
    try:
        sock.bind(address)
        if backlog is None:
            sock.listen()
        else:
            sock.listen(backlog)
        return sock
    except OSError:
        sock.close()
        raise
