# SPDX-License-Identifier: BSD-2-Clause
"""An asyncio transport on a connection. Streams and any other protocol of asyncio use it."""
from __future__ import annotations

import asyncio
import socket
from typing import Any, BinaryIO, Callable, Dict, List, Optional, Tuple

from exs._exs import ffi, lib
from exs._library import event_error, file_element
from exs._queue import Queue, set_result_of

RECEIVE_SIZE = 1 << 16  # bytes of one receive
# Bytes in sends beyond which the protocol is asked to pause. More than asyncio's 64 KiB, because over TCP as much again is in
# the kernel: with 64 KiB a stream waits for the event of each send, and is a fifth as fast.
_MORE = 1 << 20
_allocate = ffi.new_allocator(should_clear_after_alloc=False)


class Transport(asyncio.Transport):  # pylint: disable=too-many-instance-attributes
    """One receive is in progress, unless reading is paused; each write is a send. The transport holds their buffers until
    their events. It is a user of the queue until its socket is closed."""

    def __init__(self, queue: Queue, number: int, protocol: asyncio.BaseProtocol, extra: Dict[str, Any]) -> None:
        super().__init__(extra)
        self._queue, self._number = queue, number
        self._protocol: Any = protocol
        self._room = _allocate("char[]", RECEIVE_SIZE)
        self._region = lib.exs_mregister(self._room, RECEIVE_SIZE, 0)
        if self._region == ffi.cast("exs_mhandle_t", -1):  # a limit of memory: each receive finds its own way
            self._region = ffi.NULL
        self._receiving = False
        self._reading_paused = False
        self._held: List[int] = []  # the result of a receive that was done while reading was paused
        self._at_end = False  # of what the peer sends
        self._sends = 0  # operations in progress that send, and the bytes in them
        self._bytes = 0
        self._writing_paused = False
        self._wrote_eof = False
        self._closing = False
        self._closed = False
        self.set_write_buffer_limits()
        queue.loop.call_soon(self._begin)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "closing" if self._closing else "open"
        return f"<exs.aio transport fd={self._number} {state}>"

    def _begin(self) -> None:
        self._protocol.connection_made(self)
        self._receive()

    # ---- Reading ----------------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        if self._receiving or self._reading_paused or self._closing or self._at_end or self._held:
            return
        try:
            self._queue.start(self._received, lib.exs_recv, self._number, self._room, RECEIVE_SIZE, 0,
                              last=(self._region,))
            self._receiving = True
        except OSError as error:
            self._break(error)

    def _received(self, result: int) -> None:
        self._receiving = False
        if self._closing:
            return
        if self._reading_paused:
            self._held.append(result)
        else:
            self._deliver(result)
            self._receive()

    def _pass_on(self, data: Any) -> None:
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.data_received(data[:])
            return
        with memoryview(data) as left:
            while len(left) > 0:
                target = memoryview(self._protocol.get_buffer(len(left))).cast("B")
                length = min(len(target), len(left))
                if length == 0:
                    raise RuntimeError("get_buffer() returned an empty buffer")
                target[:length] = left[:length]
                self._protocol.buffer_updated(length)
                left = left[length:]

    def _deliver(self, result: int) -> None:
        try:
            if result > 0:
                self._pass_on(ffi.buffer(self._room, result))
            elif result == 0:
                self._at_end = True
                if not self._protocol.eof_received():
                    self.close()
            else:
                self._break(event_error(-result))
        except Exception as error:  # pylint: disable=broad-except # of the protocol: asyncio's transports do the same
            self._queue.loop.call_exception_handler({"message": "exs.aio: the protocol failed", "exception": error,
                                                     "transport": self, "protocol": self._protocol})
            self._break(error)

    def pause_reading(self) -> None:
        """No data_received until resume_reading."""
        self._reading_paused = True

    def resume_reading(self) -> None:
        """Delivers what has come, and receives more."""
        if not self._reading_paused:
            return
        self._reading_paused = False
        self._queue.loop.call_soon(self._resume)

    def _resume(self) -> None:
        if self._held and not self._reading_paused and not self._closing:
            self._deliver(self._held.pop())
        self._receive()

    def is_reading(self) -> bool:
        """Whether data_received may be called."""
        return not self._reading_paused and not self._closing

    # ---- Writing ----------------------------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        """Starts a send. Bytes are not copied; what could change is."""
        if self._wrote_eof:
            raise RuntimeError("Cannot call write() after write_eof()")
        view = ffi.from_buffer(data if isinstance(data, bytes) else bytes(data))
        if self._closing or len(view) == 0:
            return

        def done(result: int) -> None:
            nonlocal view
            del view  # it kept the bytes alive until here
            if result < 0:
                self._break(event_error(-result))
        try:
            self._start_send(len(view), done, lib.exs_send, self._number, view, len(view), 0, last=(ffi.NULL,))
        except OSError as error:
            self._break(error)

    def _start_send(self, length: int, done: Callable[[int], None], call: Callable[..., int], *arguments: Any,
                    last: Tuple[Any, ...] = ()) -> None:
        def sent(result: int) -> None:
            self._sends -= 1
            self._bytes -= length
            done(result)
            if self._writing_paused and self._bytes <= self._low:
                self._writing_paused = False
                self._protocol.resume_writing()
            if self._closing and self._sends == 0:
                self._close_socket(None)
        self._queue.start(sent, call, *arguments, last=last)
        self._sends += 1
        self._bytes += length
        if self._bytes > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()

    async def sendfile(self, file: BinaryIO, offset: int = 0, count: Optional[int] = None) -> int:
        """Sends a part of a regular file, behind what was written, without reading it; how many bytes. The file's position is
        behind them."""
        if self._wrote_eof or self._closing:
            raise RuntimeError("Cannot call sendfile() after write_eof() or close()")
        element, length = file_element(file, offset, count)
        if length > 0:
            future = self._queue.loop.create_future()
            self._start_send(0, set_result_of(future), lib.exs_sendfile, self._number, element, 1, lib.EXS_BIGFILE)
            await future
        file.seek(offset + length)
        return length

    def write_eof(self) -> None:
        """Ends the stream behind what was written. The peer can go on sending."""
        if self._wrote_eof or self._closing:
            return
        self._wrote_eof = True

        def done(result: int) -> None:
            if result < 0:
                self._break(event_error(-result))
        try:
            self._start_send(0, done, lib.exs_shutdown, self._number, socket.SHUT_WR, 0)
        except OSError as error:
            self._break(error)

    def can_write_eof(self) -> bool:
        """A stream has an end in each direction."""
        return True

    def get_write_buffer_size(self) -> int:
        """Bytes in sends that are not done."""
        return self._bytes

    def set_write_buffer_limits(self, high: Optional[int] = None, low: Optional[int] = None) -> None:
        """Beyond high bytes the protocol is asked to pause, and at low to go on."""
        if high is None:
            high = 4 * low if low is not None else _MORE
        if low is None:
            low = high // 4
        if not 0 <= low <= high:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low

    def get_write_buffer_limits(self) -> Tuple[int, int]:
        """(low, high)."""
        return self._low, self._high

    # ---- The end ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the connection when all that was written is sent."""
        if self._closing:
            return
        self._closing = True
        if self._sends == 0:
            self._close_socket(None)

    def abort(self) -> None:
        """Closes the connection now; what is not sent is lost."""
        self._close_socket(None)

    def _break(self, error: BaseException) -> None:
        self._close_socket(error)

    def _close_socket(self, error: Optional[BaseException]) -> None:
        if self._closed:
            return
        self._closing = self._closed = True
        self._queue.start(lambda _: self._lost(error), lib.exs_close, self._number, 0)

    def _lost(self, error: Optional[BaseException]) -> None:
        self._number = -1
        if self._region != ffi.NULL:
            lib.exs_mderegister(self._region, 0)
        try:
            self._protocol.connection_lost(error)
        finally:
            self._queue.release()

    def is_closing(self) -> bool:
        """Whether the transport is closed, or will be when all is sent."""
        return self._closing

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol whose methods are called."""
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Another protocol from now on."""
        self._protocol = protocol
