"""Locks on the storage that you already have: a directory, a bucket, a database.

    import holdfast

    with holdfast.lock("nightly") as guard:
        work(token=guard.token)

    async with holdfast.lock("nightly") as guard:  # in asyncio
        await work(token=guard.token)

lock starts the command `holdfast hold` and takes one lock. A Client, or an AsyncClient in
asyncio, holds any number of locks with one command, which renews them all. If you name no
`store`, the environment and holdfast.conf name it, as for every command.

The end of the block releases the lock. The end of the program does so too, however it ends.

If the lock is lost, Lost is raised in the thread that acquired it, or the task in the block is
cancelled and the block raises Lost. If the work has not left the block when the grace ends, the
program ends with status 76, because another client can have the lock then.

Lost has a reason, for example: another user broke the lock, the command was killed, stopped or ended,
or no renewal succeeded in time. A storage system that checks guard.token can refuse late writes.
"""
from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Unpack

from ._asyncio import AsyncClient, AsyncGuard
from ._client import (
    Busy,
    Client,
    ClientEnded,
    ClientOptions,
    CommandNotFound,
    Error,
    Guard,
    InvalidRequest,
    LockOptions,
    Lost,
    Unreachable,
    YieldRequest,
    find_command,
)

__all__ = [
    "AsyncClient", "AsyncGuard", "Busy", "Client", "ClientEnded", "ClientOptions", "CommandNotFound", "Error",
    "Guard", "InvalidRequest", "LockOptions", "Lost", "Unreachable", "YieldRequest", "find_command", "lock",
]


class Options(ClientOptions, LockOptions, total=False):
    """The options of lock: those of Client and those of Client.acquire."""


class _Lock:
    """What lock returns: a context manager for one `with` or one `async with`."""

    def __init__(self, name: str, options: Options):
        self._name = name
        self._lock: LockOptions = {key: options[key] for key in LockOptions.__annotations__ if key in options}  # type: ignore
        self._client: ClientOptions = {key: options[key] for key in options if key not in self._lock}  # type: ignore
        self._stack = contextlib.ExitStack()
        self._async_stack = contextlib.AsyncExitStack()

    def __enter__(self) -> Guard:
        with contextlib.ExitStack() as stack:
            client = stack.enter_context(Client(**self._client))
            guard = stack.enter_context(client.acquire(self._name, **self._lock))
            self._stack = stack.pop_all()
            return guard

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.__exit__(kind, error, trace)

    async def __aenter__(self) -> AsyncGuard:
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(AsyncClient(**self._client))
            guard = await stack.enter_async_context(client.acquire(self._name, **self._lock))
            self._async_stack = stack.pop_all()
            return guard
        raise AssertionError  # the stack above hides no error

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._async_stack.__aexit__(kind, error, trace)


def lock(name: str, **options: Unpack[Options]) -> _Lock:
    """Takes a lock for the block of a `with` or `async with`, and releases it at the end.

    The options are those of Client and of Client.acquire: lock("nightly", wait=0) raises Busy at
    once if another client has the lock. Each call starts a process. For many locks, use a Client.
    """
    return _Lock(name, options)
