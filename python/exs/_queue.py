# SPDX-License-Identifier: BSD-2-Clause
"""One event queue for each asyncio loop, which watches its descriptor."""
from __future__ import annotations

import asyncio
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from exs._exs import ffi, lib
from exs._library import NO_TIME, check, event_error, last_error, start_library

_BATCH = 64  # most events of one iteration


def set_result_of(future: asyncio.Future[int]) -> Callable[[int], None]:
    """What an operation is to call at its end, for a future that may have been cancelled."""
    def done(result: int) -> None:
        if future.done():
            return
        if result < 0:
            future.set_exception(event_error(-result))
        else:
            future.set_result(result)
    return done


class Queue:
    """The queue of a loop, and the operations that were started on it. It lives as long as it has users: each connection
    and each listener is one, until its socket is closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        start_library()
        self.loop = loop
        self._handle = lib.exs_qcreate(_BATCH)
        if self._handle == ffi.cast("exs_qhandle_t", -1):
            raise last_error()
        self._events = ffi.new("exs_event_t[]", _BATCH)
        self._operations: Dict[int, Callable[[int], None]] = {}  # by their ahandle, a number: what to call
        self._multishot: set[int] = set()
        self._last = 0
        self._users = 0
        loop.add_reader(check(lib.exs_qfd(self._handle)), self._ready)

    @classmethod
    def acquire(cls) -> Queue:
        """The running loop's, with a user more."""
        loop = asyncio.get_running_loop()
        queue = _queues.get(loop)
        if queue is None:
            queue = _queues[loop] = cls(loop)
        queue._users += 1
        return queue

    def release(self) -> None:
        """A user less: the last one deletes the queue."""
        self._users -= 1
        if self._users > 0:
            return
        del _queues[self.loop]
        handle, self._handle = self._handle, None
        self.loop.remove_reader(lib.exs_qfd(handle))
        check(lib.exs_qdelete(handle))

    def start(self, done: Callable[[int], None], call: Callable[..., int], *arguments: Any, last: Tuple[Any, ...] = (),
              multishot: bool = False) -> None:
        """Starts an operation: call(*arguments, queue, ahandle, *last). done gets its result, or -errno; of a multishot
        operation each, of which the one with an error is the last."""
        self._last += 1
        key = self._last
        self._operations[key] = done
        if multishot:
            self._multishot.add(key)
        if call(*arguments, self._handle, ffi.cast("void *", key), *last) == -1:
            error = last_error()
            self._forget(key)
            raise error

    def operation(self, call: Callable[..., int], *arguments: Any) -> asyncio.Future[int]:
        """Starts an operation, whose result the future has. The future may be cancelled; the operation goes on."""
        future = self.loop.create_future()
        self.start(set_result_of(future), call, *arguments)
        return future

    def _forget(self, key: int) -> None:
        del self._operations[key]
        self._multishot.discard(key)

    def _ready(self) -> None:
        count = check(lib.exs_qdequeue(self._handle, self._events, _BATCH, NO_TIME))
        batch: List[Any] = []
        for event in self._events[0:count]:
            batch.append((int(ffi.cast("uintptr_t", event.exs_evt_ahandle)), lib.exs_event_result(ffi.addressof(event))))
        for key, result in batch:
            done = self._operations[key]
            if result < 0 or key not in self._multishot:
                self._forget(key)
            try:
                done(result)
            except Exception as error:  # pylint: disable=broad-except # as asyncio does with callbacks
                self.loop.call_exception_handler({"message": "exs.aio: a callback failed", "exception": error})
        if count > 0:
            self.loop.call_soon(self._prepare)  # after the tasks that these events wake: what they start goes first
        else:
            self._prepare()

    def _prepare(self) -> None:
        if self._handle is not None:
            check(lib.exs_qprepare(self._handle))


_queues: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Queue] = weakref.WeakKeyDictionary()


def queue_of_running_loop() -> Optional[Queue]:
    """For the tests: the queue that the running loop has, if any."""
    return _queues.get(asyncio.get_running_loop())
