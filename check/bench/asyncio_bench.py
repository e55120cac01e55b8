#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The works stream and ping of bench.h, on asyncio's streams: over TCP, or over EXS by the package exs. The command line and
the output are those of tcp_bench and exs_bench.

usage: asyncio_bench.py tcp|exs serve stream|ping SIZE TOTAL
       asyncio_bench.py tcp|exs send stream|ping SIZE TOTAL PORT"""
import asyncio
import sys
import time


def streams(side):
    """open_connection and start_server of a side."""
    if side == "exs":
        import exs.aio  # pylint: disable=import-outside-toplevel # TCP needs no such package
        return exs.aio
    return asyncio


async def serve(side, mode, size, total):
    """One connection. Prints its port, and at the end what it took of the processor."""
    ended = asyncio.get_running_loop().create_future()

    async def connected(reader, writer):
        began = time.process_time()
        if mode == "ping":
            for _ in range(total):
                writer.write(await reader.readexactly(size))
        else:
            left = total
            while left > 0:
                left -= len(await reader.read(1 << 20))
            writer.write(b".")
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.set_result(time.process_time() - began)
    server = await streams(side).start_server(connected, "127.0.0.1", 0)
    print(server.address[1] if side == "exs" else server.sockets[0].getsockname()[1], flush=True)
    print(f"{await ended:.6f}", flush=True)
    server.close()
    await server.wait_closed()


async def send(side, mode, size, total, port):
    """The client. The first tenth does not count."""
    reader, writer = await streams(side).open_connection("127.0.0.1", port)
    used = time.process_time()
    message = bytes(size)
    if mode == "ping":
        warm = min(total // 10, 1000)
        for i in range(total):
            if i == warm:
                began = time.monotonic()
            writer.write(message)
            await reader.readexactly(size)
        figure = (time.monotonic() - began) / (total - warm) * 1e6
    else:
        sent = warm = 0
        began = time.monotonic()
        while sent < total:
            if warm == 0 and sent >= total // 10:
                warm, began = sent, time.monotonic()
            piece = message if total - sent >= size else message[:total - sent]
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
        await reader.readexactly(1)
        figure = (total - warm) / (time.monotonic() - began) / 1e9
    used = time.process_time() - used
    writer.close()
    await writer.wait_closed()
    print(f"{figure:.6f} {used:.6f}")


def main():
    """Chooses by the command line."""
    side, what, mode, size, total, *port = sys.argv[1:]
    if what == "serve":
        asyncio.run(serve(side, mode, int(size), int(total)))
    else:
        asyncio.run(send(side, mode, int(size), int(total), int(port[0])))


if __name__ == "__main__":
    main()
