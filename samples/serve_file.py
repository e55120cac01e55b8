#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A static file server as file-server.c is, in Python by cffi: file-get gets files from it.

Needs python3-cffi and libexs3, and no compiler. Run: serve_file.py FOLDER [PORT]."""
import os
import socket
import stat
import struct
import sys

from cffi import FFI

ffi = FFI()
# From exs.h, as far as it is used here. The numbers of an interface that is stable: abi/constants.
ffi.cdef("""
    typedef long off_t;
    typedef struct { int exs_fildes; off_t exs_offset; size_t exs_length; int exs_flags; } exs_fdvec_t;
    typedef struct { void *exs_base; size_t exs_length; void *exs_mhandle; int exs_flags; } exs_iovec_t;
    typedef struct { off_t exs_offset; size_t exs_length; int exs_flags; char *exs_path; } exs_pathvec_t;
    union exs_xfvec { exs_iovec_t exs_iov; exs_fdvec_t exs_fdv; exs_pathvec_t exs_pathv; };
    typedef struct { int exs_xfv_type; union exs_xfvec exs_xfv; } exs_xferfile_t;

    int exs_init(int version);
    int exs_socket(int family, int socktype, int protocol);
    int exs_bind(int sockno, const void *address, unsigned address_len);
    int exs_listen(int sockno, int backlog);
    int exs_getsockname(int sockno, void *address, unsigned *address_len);
    int exs_blocking_accept(int sockno, void *address, unsigned *address_len);
    ssize_t exs_read(int sockno, void *buffer, size_t max_bytes);
    int exs_blocking_sendfile(int sockno, exs_xferfile_t *sendvec, int sendvec_cnt, int flags);
    int exs_blocking_close(int sockno);
""")
EXS_VERSION, EXS_IOVEC, EXS_FDVEC, EXS_BIGFILE = 1, 1, 2, 0x00800000
exs = ffi.dlopen(os.environ.get("LIBEXS", "libexs.so.3"))


def need(value):
    """What a call gave; its errno as Python's own error if that is -1."""
    if value == -1:
        raise OSError(ffi.errno, os.strerror(ffi.errno))
    return value


def listen(port):
    """A listener on 127.0.0.1, and its port."""
    sock = need(exs.exs_socket(socket.AF_INET, socket.SOCK_STREAM, 0))
    # struct sockaddr_in: the family in the host's order, port and address in the network's
    address = ffi.new("char[16]", struct.pack("=H", socket.AF_INET) + struct.pack("!H4s", port, b"\x7f\0\0\1") + bytes(8))
    need(exs.exs_bind(sock, address, 16))
    need(exs.exs_listen(sock, socket.SOMAXCONN))
    need(exs.exs_getsockname(sock, address, ffi.new("unsigned *", 16)))
    return sock, struct.unpack("!H", ffi.buffer(address)[2:4])[0]


def read_name(sock):
    """A line without its newline; None at the end of the connection."""
    line = b""
    while b"\n" not in line:
        piece = ffi.new("char[256]")
        length = need(exs.exs_read(sock, piece, 256))
        if length == 0 or len(line) + length > 256:
            return None
        line += ffi.buffer(piece, length)[:]
    return line.partition(b"\n")[0]


def open_file(folder, name):
    """A regular file of the folder itself, and its length; or -1 for both."""
    if not name or b"/" in name or b"\0" in name or name.startswith(b"."):
        return -1, -1
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return -1, -1
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode):
        return fd, status.st_size
    os.close(fd)
    return -1, -1


def serve(folder, sock):
    """One client, until it closes."""
    while (name := read_name(sock)) is not None:
        fd, length = open_file(folder, name)
        header = ffi.new("char[8]", struct.pack("!q", length))
        vector = ffi.new("exs_xferfile_t[2]")
        vector[0].exs_xfv_type = EXS_IOVEC
        vector[0].exs_xfv.exs_iov.exs_base = header
        vector[0].exs_xfv.exs_iov.exs_length = 8
        vector[1].exs_xfv_type = EXS_FDVEC
        vector[1].exs_xfv.exs_fdv.exs_fildes = fd
        vector[1].exs_xfv.exs_fdv.exs_length = max(length, 0)
        try:
            need(exs.exs_blocking_sendfile(sock, vector, 2 if length > 0 else 1, EXS_BIGFILE))
        finally:
            if fd != -1:
                os.close(fd)


def main():
    """One client after the other."""
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: serve_file.py FOLDER [PORT]")
    folder = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
    need(exs.exs_init(EXS_VERSION))
    listener, port = listen(int(sys.argv[2]) if len(sys.argv) > 2 else 7474)
    print("waiting on port", port, flush=True)
    while True:
        sock = need(exs.exs_blocking_accept(listener, ffi.NULL, ffi.NULL))
        try:
            serve(folder, sock)
        except OSError as error:
            print("serve_file.py:", error, file=sys.stderr)
        exs.exs_blocking_close(sock)


if __name__ == "__main__":
    main()
