# SPDX-License-Identifier: BSD-2-Clause
"""exs.socket: each method, and what its errors are in Python."""
import array
import errno
import os
import signal
import socket
import tempfile
import threading
import time
import unittest

import exs


class Pair(unittest.TestCase):
    """Two connected sockets."""

    def setUp(self):
        self.listener = exs.create_server(("127.0.0.1", 0))
        self.addCleanup(self.listener.close)
        accepted = []
        thread = threading.Thread(target=lambda: accepted.append(self.listener.accept()))
        thread.start()
        self.client = exs.create_connection(self.listener.getsockname())
        thread.join()
        self.server, self.address = accepted[0]
        self.addCleanup(self.client.close)
        self.addCleanup(self.server.close)

    def beside(self, function, *arguments):
        """Runs a function in a thread; what joins it, and returns its result."""
        results = []
        thread = threading.Thread(target=lambda: results.append(function(*arguments)))
        thread.start()

        def result():
            thread.join()
            return results[0]
        return result


class Transfers(Pair):
    """Bytes there and back."""

    def test_addresses(self):
        self.assertEqual(self.address, self.client.getsockname())
        self.assertEqual(self.client.getpeername(), self.listener.getsockname())
        self.assertEqual(self.server.getpeername(), self.client.getsockname())
        self.assertEqual(self.client.getdevice(), self.server.getdevice())

    def test_attributes(self):
        self.assertEqual((self.client.family, self.client.type, self.client.proto), (socket.AF_INET, socket.SOCK_STREAM, 0))
        self.assertIn(f"fd={self.client.fileno()}", repr(self.client))

    def test_send_and_recv(self):
        self.assertEqual(self.client.send(b"hello"), 5)
        self.assertEqual(self.server.recv(3), b"hel")
        self.assertEqual(self.server.recv(100), b"lo")
        self.assertEqual(self.client.send(b""), 0)
        with self.assertRaises(ValueError):
            self.client.recv(-1)

    def test_any_buffer(self):
        numbers = array.array("i", range(1000))
        self.client.sendall(numbers)
        into = array.array("i", bytes(4000))
        self.assertEqual(self.server.recv_into(into, 0, socket.MSG_WAITALL), 4000)
        self.assertEqual(into, numbers)
        self.client.sendall(memoryview(b"abcdef")[1:4])
        room = bytearray(b"......")
        self.assertEqual(self.server.recv_into(memoryview(room)[2:], 2), 2)
        self.assertEqual(room, b"..bc..")
        with self.assertRaises(BufferError):
            self.server.recv_into(b"constant")
        with self.assertRaises(ValueError):
            self.server.recv_into(room, 7)
        with self.assertRaises(TypeError):
            self.client.send("text")

    def test_long(self):
        data = os.urandom(3000000)
        received = self.beside(lambda: self.server.recv(len(data), socket.MSG_WAITALL))
        self.client.sendall(data)
        self.assertEqual(received(), data)

    def test_end(self):
        self.client.sendall(b"last")
        self.client.shutdown(socket.SHUT_WR)
        self.assertEqual(self.server.recv(10), b"last")
        self.assertEqual(self.server.recv(10), b"")
        with self.assertRaises(BrokenPipeError):
            self.client.send(b"more")

    def test_peek(self):
        self.client.sendall(b"ab")
        self.assertEqual(self.server.recv(1, exs.MSG_PEEK), b"a")
        self.assertEqual(self.server.recv(2, exs.MSG_WAITALL), b"ab")

    def test_sendfile(self):
        data = os.urandom(100000)
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            self.assertEqual(self.client.sendfile(file), 100000)
            self.assertEqual(file.tell(), 100000)
            self.assertEqual(self.server.recv(100000, exs.MSG_WAITALL), data)
            self.assertEqual(self.client.sendfile(file, 99000, 5000), 1000)
            self.assertEqual(self.server.recv(1000, exs.MSG_WAITALL), data[99000:])
            self.assertEqual(self.client.sendfile(file, 10, 20), 20)
            self.assertEqual(file.tell(), 30)
            self.assertEqual(self.server.recv(20, exs.MSG_WAITALL), data[10:30])
            self.assertEqual(self.client.sendfile(file, 200000), 0)
            for bad in ((-1, None), (0, 0)):
                with self.assertRaises(ValueError):
                    self.client.sendfile(file, *bad)
        with open("/dev/null", "rb") as file:
            self.assertEqual(self.client.sendfile(file), 0)

    def test_makefile(self):
        with self.client.makefile("w", encoding="utf-8", newline="\n") as writer, self.server.makefile("r") as reader:
            writer.write("first\nsecond\n")
            writer.flush()
            self.assertEqual(reader.readline(), "first\n")
            self.assertEqual(reader.readline(), "second\n")
        with self.client.makefile("rwb") as both, self.server.makefile("rb", 0) as raw:
            both.write(b"ab")
            both.flush()
            self.assertEqual(raw.read(2), b"ab")
            self.server.sendall(b"cd")
            self.assertEqual(both.read(2), b"cd")
        for mode, buffering in (("x", -1), ("b", -1), ("r", 0)):
            with self.assertRaises(ValueError):
                self.client.makefile(mode, buffering)
        file = self.client.makefile("rb")
        self.client.close()
        self.server.sendall(b"still open")
        self.assertEqual(file.read(10), b"still open")
        file.close()
        self.assertEqual(self.client.fileno(), -1)
        self.assertEqual(self.server.recv(1), b"")

    def test_options(self):
        self.assertEqual(self.client.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE), socket.SOCK_STREAM)
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.assertEqual(self.client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), 1)
        linger = array.array("i", [1, 3]).tobytes()
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.assertEqual(self.client.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8), linger)
        with self.assertRaises(OSError) as caught:
            self.client.setsockopt(socket.SOL_SOCKET, 99999, 1)
        self.assertEqual(caught.exception.errno, errno.ENOPROTOOPT)


class Time(Pair):
    """Timeouts, sockets that do not block, and signals."""

    def test_timeout(self):
        self.assertIsNone(self.server.gettimeout())
        self.server.settimeout(0.05)
        self.assertEqual(self.server.gettimeout(), 0.05)
        self.assertTrue(self.server.getblocking())
        began = time.monotonic()
        with self.assertRaises(TimeoutError):
            self.server.recv(1)
        self.assertGreaterEqual(time.monotonic() - began, 0.04)
        self.client.sendall(b"a")
        self.assertEqual(self.server.recv(1), b"a")
        self.listener.settimeout(0.05)
        with self.assertRaises(TimeoutError):
            self.listener.accept()
        with self.assertRaises(ValueError):
            self.server.settimeout(-1)

    def test_sendall_times_out(self):
        self.client.settimeout(0.2)
        with self.assertRaises(TimeoutError):
            self.client.sendall(bytes(64 << 20))

    def test_no_wait(self):
        self.server.setblocking(False)
        self.assertFalse(self.server.getblocking())
        self.assertEqual(self.server.gettimeout(), 0)
        with self.assertRaises(BlockingIOError):
            self.server.recv(1)
        with self.assertRaises(ValueError):
            self.server.sendfile(None)
        self.assertEqual(self.server.send(b"a"), 1)
        self.assertEqual(self.client.recv(1), b"a")
        self.listener.setblocking(False)
        with self.assertRaises(BlockingIOError):
            self.listener.accept()
        self.server.setblocking(True)
        self.assertIsNone(self.server.gettimeout())
        with exs.socket() as other:
            other.setblocking(False)
            with self.assertRaises(OSError) as caught:
                other.connect(self.listener.getsockname())
            self.assertEqual(caught.exception.errno, errno.EOPNOTSUPP)

    def test_accept_without_wait(self):
        self.listener.setblocking(False)
        connected = self.beside(exs.create_connection, self.listener.getsockname())
        deadline = time.monotonic() + 60
        while True:
            try:
                new, _ = self.listener.accept()
                break
            except BlockingIOError:
                self.assertLess(time.monotonic(), deadline)
        new.close()
        connected().close()

    def test_default(self):
        socket.setdefaulttimeout(7)
        try:
            with exs.socket() as sock:
                self.assertEqual(sock.gettimeout(), 7)
        finally:
            socket.setdefaulttimeout(None)

    def test_handler_that_raises(self):
        class Interrupt(Exception):
            """Of the handler."""

        def handler(*_):
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Interrupt
        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        try:
            with self.assertRaises(Interrupt):
                self.server.recv(1)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def test_handler_that_returns(self):
        ran = []

        def handler(*_):
            ran.append(1)
            with self.assertRaises(BlockingIOError):  # what the handler's calls do to errno changes nothing
                self.client.recv(1, exs.MSG_DONTWAIT)
            if len(ran) == 3:
                self.client.sendall(b"late")
        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        try:
            self.assertEqual(self.server.recv(10), b"late")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertGreaterEqual(len(ran), 3)


class Sockets(unittest.TestCase):
    """What needs no connection."""

    def test_refused(self):
        with exs.create_server(("127.0.0.1", 0), backlog=4) as listener:
            address = listener.getsockname()
        with self.assertRaises(ConnectionRefusedError) as caught:
            exs.create_connection(address, 5)
        self.assertIn(f"127.0.0.1 port {address[1]}", str(caught.exception))

    def test_errors(self):
        with exs.socket() as sock:
            with self.assertRaises(OSError) as caught:
                sock.send(b"a")
            self.assertEqual(caught.exception.errno, errno.ENOTCONN)
            self.assertIn("exs_send", str(caught.exception))
            with self.assertRaises(OSError):
                sock.getpeername()
        self.assertEqual(sock.fileno(), -1)
        with self.assertRaises(OSError) as caught:
            sock.recv(1)
        self.assertEqual(caught.exception.errno, errno.EBADF)
        sock.close()
        with self.assertRaises(OSError) as caught:
            exs.socket(socket.AF_UNIX)
        self.assertEqual(caught.exception.errno, errno.EAFNOSUPPORT)
        with exs.create_server(("127.0.0.1", 0)) as first, self.assertRaises(OSError) as caught:
            exs.create_server(first.getsockname())
        self.assertEqual(caught.exception.errno, errno.EADDRINUSE)

    def test_detach(self):
        sock = exs.socket()
        number = sock.detach()
        sock.close()
        again = exs.socket(fileno=number)
        self.assertEqual(again.fileno(), number)
        again.bind(("127.0.0.1", 0))
        again.listen()
        del again
        with self.assertRaises(OSError):
            exs.socket(fileno=number).close()

    def test_ipv6(self):
        try:
            listener = exs.create_server(("::1", 0), family=exs.AF_INET6)
        except OSError as error:
            self.skipTest(f"no IPv6 here: {error}")
        with listener:
            self.assertEqual(listener.getsockname()[0], "::1")
            thread = threading.Thread(target=lambda: exs.create_connection(listener.getsockname()[:2]).close())
            thread.start()
            server, address = listener.accept()
            self.assertEqual(address[0], "::1")
            self.assertEqual(len(address), 4)
            thread.join()
            server.close()

    def test_messages(self):
        with exs.socket(type=exs.SOCK_SEQPACKET) as listener, exs.socket(type=exs.SOCK_SEQPACKET) as client:
            listener.bind(("127.0.0.1", 0))
            listener.listen(1)
            thread = threading.Thread(target=lambda: (client.connect(listener.getsockname()), client.send(b"one message")))
            thread.start()
            server, _ = listener.accept()
            with server:
                self.assertEqual(server.recv(100), b"one message")
            thread.join()

    def test_fork(self):
        exs.socket().close()
        child = os.fork()
        if child == 0:
            try:
                exs.socket().close()
            except OSError:
                os._exit(1)
            os._exit(0)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_configure(self):
        child = os.fork()
        if child == 0:
            try:
                os._exit(self.configured())
            finally:
                os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def configured(self):
        """In a process of its own: 0, if the settings take effect, another configuration is refused, and a child has them."""
        exs.configure(rcvbuf=5000, spin_us=exs.OFF, device="soft")
        exs.configure(rcvbuf=5000)
        with self.assertRaisesRegex(OSError, "exs_rcvbuf") as caught:
            exs.configure(rcvbuf=9000)
        self.assertEqual(caught.exception.errno, errno.EALREADY)
        for name in ("size", "log", "nothing"):
            with self.assertRaisesRegex(TypeError, name):
                exs.configure(**{name: 1})
        if os.fork() == 0:
            os._exit(0 if exs.socket().getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 8192 else 1)
        return os.waitstatus_to_exitcode(os.wait()[1])

    def test_version(self):
        self.assertRegex(exs.version(), r"^\d+\.\d+\.\d+$")


if __name__ == "__main__":
    unittest.main()
