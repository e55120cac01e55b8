# SPDX-License-Identifier: BSD-2-Clause
"""Extended Sockets over RDMA. exs.socket is a blocking socket; exs.aio has asyncio's streams.

Errors are OSError and its subclasses, with the sentence of exs_errmsg: ConnectionRefusedError, TimeoutError and so on."""
from socket import (AF_INET, AF_INET6, MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL, SHUT_RD, SHUT_RDWR, SHUT_WR, SOCK_SEQPACKET,
                    SOCK_STREAM)

from exs._library import CHECK_ABORT, OFF, configure, version
from exs._socket import create_connection, create_server, socket

__all__ = [
    "AF_INET", "AF_INET6", "CHECK_ABORT", "MSG_DONTWAIT", "MSG_PEEK", "MSG_WAITALL", "OFF", "SHUT_RD", "SHUT_RDWR", "SHUT_WR",
    "SOCK_SEQPACKET", "SOCK_STREAM", "configure", "create_connection", "create_server", "socket", "version",
]
