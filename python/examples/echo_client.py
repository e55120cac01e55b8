#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Sends a text to an echo server, and prints the answer. Run: echo_client.py HOST PORT TEXT."""
import sys

import exs


def main():
    """One question, one answer."""
    if len(sys.argv) != 4:
        sys.exit("usage: echo_client.py HOST PORT TEXT")
    host, port, text = sys.argv[1:]
    question = text.encode()
    try:
        with exs.create_connection((host, int(port)), timeout=10) as sock:
            sock.sendall(question)
            print(sock.recv(len(question), exs.MSG_WAITALL).decode())
    except OSError as error:
        sys.exit(f"echo_client: {error}")


if __name__ == "__main__":
    main()
