"""The client for asyncio: a Client whose waits are those of the event loop."""
from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import threading
from collections.abc import Generator
from types import TracebackType
from typing import Any, Self, Unpack

from ._client import Busy, Client, ClientOptions, Grant, LockOptions, Lost, _acquire, _error, _try


class _Answers:
    """A queue of the event loop that another thread fills."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def put(self, line: dict[str, Any]) -> None:
        self.call(self._queue.put_nowait, line)

    def call(self, *what: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: no task waits
            self._loop.call_soon_threadsafe(*what)

    async def get(self) -> dict[str, Any]:
        return await self._queue.get()


class AsyncGuard(Grant):
    """A lock that is held, from AsyncClient.acquire. Leave its `async with`, or await release.

    If the lock is lost, the task that runs the block of `async with` is cancelled, and the block
    raises Lost. Without a block, only `ended` tells.
    """

    def __init__(self, client: AsyncClient, name: str):
        super().__init__(client._client, name, next(client._client._ids), answers := _Answers())
        self.ended = asyncio.Event()  # set when the lock is lost or released
        self._replies, self._sender = answers, client
        self._turn = asyncio.Lock()  # one line at a time
        self._task: asyncio.Task[Any] | None = None  # which runs the block
        self._before = 0  # how often the block's task was cancelled before this guard did so
        self._cancelled = False

    async def store(self, data: str | bytes | None) -> None:
        """Stores text or bytes in the record of the lock, where every program can read it.
        None removes it. At most 32,768 bytes."""
        await self._write(self._data(data), "stored")

    async def refuse(self, reason: str) -> None:
        """Answers the client that requests the lock: this program keeps it, for this reason."""
        await self._write(self._refusal(reason), "refused")

    async def release(self) -> None:
        """Releases the lock. Raises Lost if it was lost before.

        If the task is cancelled meanwhile, the lock is released all the same.
        """
        if self._over:
            return
        try:
            self._released(await self._ask(self._release()))
        finally:
            self._over = True
            self.ended.set()

    async def __aenter__(self) -> Self:
        self._task = asyncio.current_task()
        self._before = self._task.cancelling() if self._task else 0
        try:
            self.check()
        except Lost:
            self._over = True
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        task, self._task = self._task, None
        ours = bool(self._cancelled and task and task.uncancel() <= self._before)
        try:
            await self.release()
        except Lost as lost:
            if ours or kind is not asyncio.CancelledError:  # else another cancelled the task, too
                raise lost from (None if kind is Lost else error)

    def _end(self) -> None:
        self._replies.call(self._end_here)

    def _end_here(self) -> None:
        """Does what _end does, in the thread of the event loop."""
        self.ended.set()
        if self._task and self.lost and not (self._leaving or self._over or self._client._closing):
            self._cancelled = True
            self._task.cancel(self.lost)

    async def _write(self, line: dict[str, Any], done: str) -> None:
        answer = await self._ask(line)
        if answer["event"] != done:
            raise _error(answer)

    async def _ask(self, line: dict[str, Any]) -> dict[str, Any]:
        """Sends a line about this lock, and returns what answers it. If the caller is cancelled,
        the answer is still awaited before the next line is sent."""
        return await asyncio.shield(asyncio.ensure_future(self._ask_in_turn(line)))

    async def _ask_in_turn(self, line: dict[str, Any]) -> dict[str, Any]:
        async with self._turn:
            self._begin(line)
            return await self._exchange(line)

    async def _exchange(self, line: dict[str, Any]) -> dict[str, Any]:
        await asyncio.wrap_future(self._sender._send(line))
        return await self._replies.get()


class _Acquiring:
    """What AsyncClient.acquire returns: await it, or use it in `async with`."""

    def __init__(self, client: AsyncClient, name: str, line: dict[str, Any]):
        self._client, self._name, self._line = client, name, line

    def __await__(self) -> Generator[Any, None, AsyncGuard]:
        return self._client._take(self._name, self._line).__await__()

    async def __aenter__(self) -> AsyncGuard:
        self._guard = await self
        return await self._guard.__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._guard.__aexit__(kind, error, trace)


def _close(client: Client, started: concurrent.futures.Future[None]) -> None:
    """Closes a client that no task waits for any more."""
    if not started.cancelled() and not started.exception():
        client.close()


class AsyncClient:
    """Holds locks through one command, `holdfast hold`, for the tasks of one event loop.

        async with AsyncClient() as client, client.acquire("jobs/a") as guard:
            ...

    The options are those of Client. One task at a time can use each guard.
    """

    def __init__(self, **options: Unpack[ClientOptions]):
        self._options = options
        # One thread, so that lines leave in order, and a full pipe stops no task.
        self._writer = concurrent.futures.ThreadPoolExecutor(1, "holdfast")
        self._closing: concurrent.futures.Future[None] | None = None

    async def open(self) -> None:
        """Starts the command. `async with` does so, too."""
        client = Client.__new__(Client)
        starting = self._writer.submit(functools.partial(Client.__init__, client, **self._options))
        try:
            await asyncio.wrap_future(starting)
        except asyncio.CancelledError:
            client._abandon()
            starting.add_done_callback(functools.partial(_close, client))
            raise
        self._client = client

    async def close(self) -> None:
        """Releases all locks, and ends the command, if it has started."""
        if not hasattr(self, "_client"):
            return self._writer.shutdown(wait=False)
        if not self._closing:
            self._closing = self._writer.submit(self._client.close)
            # The writer can wait for a command that is stopped, and whose pipe is full.
            killer = threading.Timer(self._client._patience, self._client._process.kill)
            killer.daemon = True
            killer.start()
            self._closing.add_done_callback(lambda _: killer.cancel())
        try:
            await asyncio.shield(asyncio.wrap_future(self._closing))
        finally:
            self._writer.shutdown(wait=False)

    def acquire(self, name: str, **options: Unpack[LockOptions]) -> _Acquiring:
        """Takes a lock, and waits for it. After `wait` seconds, it raises Busy.

        Use it in `async with`, or await it for an AsyncGuard.
        """
        return _Acquiring(self, name, _acquire(name, **options))

    async def try_acquire(self, name: str, *, shared: bool = False, slots: int | None = None) -> AsyncGuard | None:
        """Takes a lock if it is free now, or returns None."""
        try:
            return await self._take(name, _try(name, shared, slots))
        except Busy:
            return None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _take(self, name: str, line: dict[str, Any]) -> AsyncGuard:
        guard = AsyncGuard(self, name)
        self._client._add(guard, line)
        try:
            answer = await guard._exchange(line)
        except BaseException:  # the caller was cancelled: the lock is not to be held
            guard._over = True
            self._send(guard._release())
            raise
        guard._held(answer)
        return guard

    def _send(self, line: dict[str, Any]) -> concurrent.futures.Future[None]:
        return self._writer.submit(self._client._send, line)
