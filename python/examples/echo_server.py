#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""An echo server on asyncio. Run: echo_server.py [PORT]."""
import asyncio
import sys

import exs.aio


async def echo(reader, writer):
    """One connection: sends back what comes, until the client ends."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError as error:
        print("echo_server:", error, file=sys.stderr)
    finally:
        writer.close()


async def main():
    """Serves until it is ended."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 7471
    server = await exs.aio.start_server(echo, "127.0.0.1", port)
    print("waiting on port", server.address[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
