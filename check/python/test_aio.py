# SPDX-License-Identifier: BSD-2-Clause
"""exs.aio: streams, protocols, and how they end."""
import asyncio
import contextlib
import os
import tempfile
import unittest

import exs
import exs.aio
from exs._queue import queue_of_running_loop

PATIENCE = 60  # seconds


async def no_queue_is_left(test):
    """With the last connection and listener the loop's queue is deleted."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while queue_of_running_loop() is not None:
        test.assertLess(asyncio.get_running_loop().time(), deadline)
        await asyncio.sleep(0.001)


class Streams(unittest.IsolatedAsyncioTestCase):
    """A server, and connections to it. After each test the loop has no queue left."""

    async def asyncSetUp(self):
        asyncio.get_running_loop().slow_callback_duration = PATIENCE
        self.tasks = []
        self.handler = self.echo
        self.server = await exs.aio.start_server(self.serve, "127.0.0.1", 0)
        self.writers = []

    async def asyncTearDown(self):
        for writer in self.writers:
            writer.close()
            await self.soon(writer.wait_closed())
        await self.soon(asyncio.gather(*self.tasks))
        self.server.close()
        await self.soon(self.server.wait_closed())
        await no_queue_is_left(self)

    @staticmethod
    async def soon(awaitable):
        """A test that waits in vain fails."""
        return await asyncio.wait_for(awaitable, PATIENCE)

    async def serve(self, reader, writer):
        """One connection, of which the test waits for the end."""
        task = asyncio.current_task()
        self.tasks.append(task)
        try:
            await self.handler(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):  # wait_closed raises why the connection broke
                await writer.wait_closed()

    @staticmethod
    async def echo(reader, writer):
        """Sends back what comes."""
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()

    async def connect(self, **options):
        """A connection to the server, closed after the test."""
        reader, writer = await self.soon(exs.aio.open_connection(*self.server.address, **options))
        self.writers.append(writer)
        return reader, writer

    async def test_echo(self):
        reader, writer = await self.connect()
        writer.write(b"hello\n")
        writer.writelines([b"more ", bytearray(b"lines\n"), memoryview(b"")])
        self.assertEqual(await self.soon(reader.readline()), b"hello\n")
        self.assertEqual(await self.soon(reader.readline()), b"more lines\n")
        self.assertTrue(writer.can_write_eof())
        writer.write_eof()
        writer.write_eof()
        self.assertEqual(await self.soon(reader.read()), b"")
        with self.assertRaises(RuntimeError):
            writer.write(b"late")

    async def test_extra(self):
        _, writer = await self.connect()
        self.assertEqual(writer.get_extra_info("peername"), self.server.address)
        self.assertEqual(writer.get_extra_info("sockname")[0], "127.0.0.1")
        self.assertTrue(writer.get_extra_info("device"))
        self.assertIn("open", repr(writer.transport))
        self.assertTrue(self.server.is_serving())
        self.assertIs(self.server.get_loop(), asyncio.get_running_loop())

    async def test_much(self):
        data = os.urandom(5000000)

        async def send(writer):
            for i in range(0, len(data), 50000):
                writer.write(data[i:i + 50000])
                await writer.drain()
            writer.write_eof()
        reader, writer = await self.connect()
        sender = asyncio.create_task(send(writer))
        self.assertEqual(await self.soon(reader.read()), data)
        await sender

    async def test_what_changes_is_copied(self):
        reader, writer = await self.connect()
        changed = bytearray(b"x" * 20000)
        writer.write(changed)
        changed[:] = b"y" * 20000
        self.assertEqual(await self.soon(reader.readexactly(20000)), b"x" * 20000)

    async def test_many_connections(self):
        async def ask(i):
            reader, writer = await self.connect()
            writer.write(b"%d\n" % i)
            self.assertEqual(await self.soon(reader.readline()), b"%d\n" % i)
        await self.soon(asyncio.gather(*(ask(i) for i in range(30))))

    async def test_backpressure(self):
        go_on = asyncio.Event()

        async def slow(reader, _writer):
            await go_on.wait()
            self.assertEqual(len(await reader.read()), 4 << 20)
        self.handler = slow
        _, writer = await self.connect()
        writer.transport.set_write_buffer_limits(high=1000)
        self.assertEqual(writer.transport.get_write_buffer_limits(), (250, 1000))
        writer.write(bytes(4 << 20))
        self.assertEqual(writer.transport.get_write_buffer_size(), 4 << 20)
        drain = asyncio.create_task(writer.drain())
        done, _ = await asyncio.wait([drain], timeout=0.2)
        self.assertFalse(done)
        writer.write_eof()
        go_on.set()
        await self.soon(drain)
        with self.assertRaises(ValueError):
            writer.transport.set_write_buffer_limits(high=1, low=2)

    async def test_close_sends_what_was_written(self):
        received = asyncio.get_running_loop().create_future()

        async def read(reader, _writer):
            received.set_result(await reader.read())
        self.handler = read
        _, writer = await self.connect()
        writer.write(bytes(3 << 20))
        writer.close()
        self.assertTrue(writer.is_closing())
        writer.write(b"after close: nothing")
        self.assertEqual(len(await self.soon(received)), 3 << 20)

    async def test_abort(self):
        failed = asyncio.get_running_loop().create_future()

        async def read(reader, _writer):
            try:
                await reader.read()
            except ConnectionResetError as error:
                failed.set_result(error)
        self.handler = read
        _, writer = await self.connect()
        writer.write(bytes(64 << 20))
        writer.transport.abort()
        self.assertIsInstance(await self.soon(failed), ConnectionResetError)
        self.assertIn("closed", repr(writer.transport))

    async def test_sendfile(self):
        reader, writer = await self.connect()
        data = os.urandom(200000)
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            writer.write(b"before")
            sending = asyncio.create_task(writer.transport.sendfile(file, 1000, 150000))
            self.assertEqual(await self.soon(reader.readexactly(150006)), b"before" + data[1000:151000])
            self.assertEqual(await self.soon(sending), 150000)
            self.assertEqual(file.tell(), 151000)
            self.assertEqual(await self.soon(writer.transport.sendfile(file, 300000)), 0)
            with self.assertRaises(ValueError):
                await writer.transport.sendfile(file, -1)
            writer.close()
            with self.assertRaises(RuntimeError):
                await writer.transport.sendfile(file)

    async def test_limit(self):
        reader, writer = await self.connect(limit=100)
        writer.write(b"a" * 50000 + b"\n")
        with self.assertRaises(ValueError):
            await self.soon(reader.readline())

    async def test_blocking_peer(self):
        """The two halves of the package talk to each other."""
        def talk():
            with exs.create_connection(self.server.address) as sock:
                sock.sendall(b"from a thread")
                return sock.recv(13, exs.MSG_WAITALL)
        self.assertEqual(await self.soon(asyncio.get_running_loop().run_in_executor(None, talk)), b"from a thread")

    async def test_errors(self):
        other = await exs.aio.start_server(self.serve, None, 0)
        self.assertEqual(other.address[0], "0.0.0.0")
        with self.assertRaises(OSError):
            await exs.aio.start_server(self.serve, "127.0.0.1", self.server.address[1])
        other.close()
        other.close()
        await self.soon(other.wait_closed())
        self.assertFalse(other.is_serving())
        with self.assertRaises(ConnectionRefusedError):
            await self.soon(exs.aio.open_connection("127.0.0.1", other.address[1]))
        with self.assertRaises(RuntimeError):
            await other.serve_forever()

    async def test_cancelled_connect(self):
        task = asyncio.create_task(exs.aio.open_connection(*self.server.address))
        await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await self.soon(task)
        await self.connect()

    async def test_serve_forever(self):
        async with await exs.aio.start_server(self.serve, "127.0.0.1", 0) as server:
            await server.start_serving()
            serving = asyncio.create_task(server.serve_forever())
            await asyncio.sleep(0)
            with self.assertRaises(RuntimeError):
                await server.serve_forever()
            serving.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await self.soon(serving)
            self.assertFalse(server.is_serving())


class Recorder(asyncio.Protocol):
    """Records what is called, and counts the bytes."""

    def __init__(self):
        self.transport = None
        self.calls = []
        self.received = b""
        self.ended = asyncio.get_running_loop().create_future()
        self.changed = asyncio.Event()

    def connection_made(self, transport):
        self.transport = transport
        self.calls.append("made")

    def data_received(self, data):
        self.received += data
        self.changed.set()

    def eof_received(self):
        self.calls.append("eof")

    def pause_writing(self):
        self.calls.append("pause")

    def resume_writing(self):
        self.calls.append("resume")

    def connection_lost(self, exc):
        self.calls.append("lost")
        self.ended.set_result(exc)


class Protocols(unittest.IsolatedAsyncioTestCase):
    """Transports with a protocol of the program's own."""

    async def asyncSetUp(self):
        self.accepted = []

        def factory():
            self.accepted.append(Recorder())
            return self.accepted[-1]
        self.server = await exs.aio.create_server(factory, "127.0.0.1", 0)
        self.transport, self.client = await exs.aio.create_connection(Recorder, *self.server.address)

    async def asyncTearDown(self):
        self.transport.abort()
        for protocol in [self.client, *self.accepted]:
            await asyncio.wait_for(protocol.ended, PATIENCE)
        self.server.close()
        await self.server.wait_closed()
        await no_queue_is_left(self)

    async def received(self, protocol, data):
        """Waits until the protocol has got exactly that."""
        while protocol.received != data:
            self.assertTrue(data.startswith(protocol.received))
            protocol.changed.clear()
            await asyncio.wait_for(protocol.changed.wait(), PATIENCE)

    async def peer(self):
        """The server's protocol, once it exists."""
        self.transport.write(b".")
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not self.accepted:
            self.assertLess(asyncio.get_running_loop().time(), deadline)
            await asyncio.sleep(0.001)
        await self.received(self.accepted[0], b".")
        return self.accepted[0]

    async def test_order(self):
        peer = await self.peer()
        self.assertIs(self.transport.get_protocol(), self.client)
        self.transport.set_write_buffer_limits(high=0)
        self.transport.write(b"a")
        await self.received(peer, b".a")
        self.transport.close()
        self.transport.close()
        self.assertTrue(self.transport.is_closing())
        self.assertIsNone(await asyncio.wait_for(self.client.ended, PATIENCE))
        self.assertIsNone(await asyncio.wait_for(peer.ended, PATIENCE))
        self.assertEqual(self.client.calls, ["made", "pause", "resume", "lost"])
        self.assertEqual(peer.calls, ["made", "eof", "lost"])

    async def test_pause_reading(self):
        peer = await self.peer()
        peer.transport.pause_reading()
        self.assertFalse(peer.transport.is_reading())
        for _ in range(5):
            self.transport.write(b"x" * 1000)
        await asyncio.sleep(0.1)
        self.assertEqual(peer.received, b".")
        peer.transport.resume_reading()
        peer.transport.resume_reading()
        self.assertTrue(peer.transport.is_reading())
        await self.received(peer, b"." + b"x" * 5000)

    async def test_pause_before_the_end(self):
        peer = await self.peer()
        peer.transport.pause_reading()
        self.transport.write(b"last")
        self.transport.close()
        await asyncio.wait_for(self.client.ended, PATIENCE)
        self.assertEqual(peer.calls, ["made"])
        peer.transport.resume_reading()
        await self.received(peer, b".last")
        self.assertIsNone(await asyncio.wait_for(peer.ended, PATIENCE))

    async def test_other_protocol(self):
        peer = await self.peer()
        other = Recorder()
        peer.transport.set_protocol(other)
        self.transport.write(b"new")
        await self.received(other, b"new")
        self.transport.close()
        await asyncio.wait_for(other.ended, PATIENCE)
        peer.ended.set_result(None)

    async def test_buffered_protocol(self):
        class Buffered(asyncio.BufferedProtocol):
            """Gets data into 10 bytes, again and again."""

            def __init__(self, ended):
                self.room, self.received, self.ended = bytearray(10), b"", ended

            def get_buffer(self, sizehint):
                return self.room

            def buffer_updated(self, nbytes):
                self.received += self.room[:nbytes]

            def connection_lost(self, exc):
                self.ended.set_result(exc)
        peer = await self.peer()
        buffered = Buffered(peer.ended)
        peer.transport.set_protocol(buffered)
        self.transport.write(b"0123456789abcdef!")
        self.transport.close()
        self.assertIsNone(await asyncio.wait_for(peer.ended, PATIENCE))
        self.assertEqual(buffered.received, b"0123456789abcdef!")

    async def test_protocol_that_fails(self):
        peer = await self.peer()
        told = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        peer.data_received = None
        self.transport.write(b"a")
        self.assertIsInstance(await asyncio.wait_for(peer.ended, PATIENCE), TypeError)
        self.assertIsInstance(told[0], TypeError)


if __name__ == "__main__":
    unittest.main()
