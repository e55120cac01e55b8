# SPDX-License-Identifier: BSD-2-Clause
"""asyncio over RDMA: open_connection and start_server with asyncio's StreamReader and StreamWriter, and create_connection and
create_server for any other protocol of asyncio. They run in every loop that has add_reader."""
from __future__ import annotations

import asyncio
import socket
from typing import Any, Awaitable, Callable, Dict, Optional, Tuple, TypeVar, Union

from exs._exs import ffi, lib
from exs._library import check, device_of, name_of, pack_address
from exs._queue import Queue
from exs._transport import Transport

__all__ = ["Server", "Transport", "create_connection", "create_server", "open_connection", "start_server"]

_Protocol = TypeVar("_Protocol", bound=asyncio.BaseProtocol)
_Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Union[Awaitable[None], None]]
LIMIT = 1 << 16  # of a StreamReader, as asyncio's


def _extra(number: int) -> Dict[str, Any]:
    return {"sockname": name_of(lib.exs_getsockname, number), "peername": name_of(lib.exs_getpeername, number),
            "device": device_of(number)}


async def _resolve(host: Optional[str], port: int, flags: int = 0) -> Any:
    return await asyncio.get_running_loop().getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)


async def _close(queue: Queue, number: int) -> None:
    """Closes a socket that has no transport, and releases the queue when that is done, even if the caller is cancelled."""
    def closed(_result: int) -> None:
        queue.release()
    queue.start(closed, lib.exs_close, number, 0)


async def _connect(queue: Queue, family: int, address: Tuple[Any, ...]) -> int:
    """A connected socket. Without one it is closed, and the queue has a user less."""
    number = -1
    try:
        packed = pack_address(family, address)
        number = check(lib.exs_socket(family, socket.SOCK_STREAM, 0))
        await queue.operation(lib.exs_connect, number, packed, len(packed), 0, ffi.NULL)
        return number
    except BaseException:
        if number == -1:
            queue.release()
        else:
            await _close(queue, number)
        raise


async def create_connection(protocol_factory: Callable[[], _Protocol], host: str, port: int) -> Tuple[Transport, _Protocol]:
    """A connection with a protocol, by the first of the host's addresses that accepts. Each has 30 seconds; asyncio.wait_for
    gives less."""
    failure: Optional[OSError] = None
    for family, _, _, _, address in await _resolve(host, port):
        queue = Queue.acquire()
        try:
            number = await _connect(queue, family, address)
        except OSError as error:
            failure = error
            continue
        protocol = protocol_factory()
        return Transport(queue, number, protocol, _extra(number)), protocol
    raise failure or OSError(f"{host} has no address")


async def open_connection(host: str, port: int, *, limit: int = LIMIT) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A reader and a writer, as asyncio.open_connection returns."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await create_connection(lambda: protocol, host, port)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class Server(asyncio.AbstractServer):
    """A listener, which makes a transport and a protocol of each connection."""

    def __init__(self, queue: Queue, number: int, protocol_factory: Callable[[], asyncio.BaseProtocol]) -> None:
        self._queue, self._number, self._factory = queue, number, protocol_factory
        self._element = ffi.new("exs_acceptaddr_t *")
        self._ended: asyncio.Future[None] = queue.loop.create_future()
        self._serving: Optional[asyncio.Future[None]] = None
        self._address = name_of(lib.exs_getsockname, number)
        queue.start(self._accepted, self._accept, multishot=True)

    def _accept(self, handle: Any, ahandle: Any) -> int:
        self._element.exs_ahandle = ahandle
        return int(lib.exs_accept(self._number, self._element, 1, lib.EXS_MULTISHOT, handle))

    def _accepted(self, result: int) -> None:
        if result < 0:  # the listener is closed
            return
        try:
            extra, protocol = _extra(result), self._factory()
        except BaseException as error:
            lib.exs_close(result, 0, ffi.NULL, ffi.NULL)
            if isinstance(error, OSError):  # the connection has ended already
                return
            raise
        Transport(Queue.acquire(), result, protocol, extra)

    @property
    def address(self) -> Tuple[Any, ...]:
        """Where it listens."""
        return self._address

    def is_serving(self) -> bool:
        """Whether it listens."""
        return self._number != -1

    def close(self) -> None:
        """Stops listening. Connections live on."""
        if self._number == -1:
            return
        number, self._number = self._number, -1
        if self._serving is not None and not self._serving.done():
            self._serving.cancel()
        self._queue.start(self._closed, lib.exs_close, number, 0)

    def _closed(self, _result: int) -> None:
        self._queue.release()
        if not self._ended.done():
            self._ended.set_result(None)

    async def wait_closed(self) -> None:
        """Waits until the listener is closed."""
        await asyncio.shield(self._ended)

    async def start_serving(self) -> None:
        """Nothing: it serves from its start on."""

    async def serve_forever(self) -> None:
        """Waits until it is cancelled or closed, and closes the listener."""
        if self._number == -1:
            raise RuntimeError("server is closed")
        if self._serving is not None:
            raise RuntimeError("server is already being awaited on serve_forever()")
        self._serving = self._queue.loop.create_future()
        try:
            await self._serving
        finally:
            self._serving = None
            self.close()
            await self.wait_closed()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The loop that it runs in."""
        return self._queue.loop

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await self.wait_closed()


async def create_server(protocol_factory: Callable[[], asyncio.BaseProtocol], host: Optional[str], port: int, *,
                        backlog: int = 100) -> Server:
    """A listener at the first address of the host; without a host at every address of IPv4. Port 0 is any."""
    family, _, _, _, address = (await _resolve(host or "0.0.0.0", port, socket.AI_PASSIVE))[0]
    queue = Queue.acquire()
    number = -1
    try:
        packed = pack_address(family, address)
        number = check(lib.exs_socket(family, socket.SOCK_STREAM, 0))
        check(lib.exs_bind(number, packed, len(packed)))
        check(lib.exs_listen(number, backlog))
        return Server(queue, number, protocol_factory)
    except OSError:
        if number == -1:
            queue.release()
        else:
            await _close(queue, number)
        raise


async def start_server(client_connected_cb: _Connected, host: Optional[str], port: int, *, limit: int = LIMIT,
                       backlog: int = 100) -> Server:
    """Calls client_connected_cb(reader, writer) for each connection, as asyncio.start_server does."""
    loop = asyncio.get_running_loop()

    def factory() -> asyncio.StreamReaderProtocol:
        reader = asyncio.StreamReader(limit=limit, loop=loop)
        return asyncio.StreamReaderProtocol(reader, client_connected_cb, loop=loop)
    return await create_server(factory, host, port, backlog=backlog)
