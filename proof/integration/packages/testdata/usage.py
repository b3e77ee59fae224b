"""What a user of the package writes: mypy checks the types, and python runs it."""
import asyncio
import os
import sys

import holdfast


def work(store: str) -> int:
    with holdfast.lock("job", store=store, wait=10.0) as guard:
        token: int = guard.token
    with holdfast.Client(store=store) as client, client.acquire("job", fair=True) as guard:
        assert guard.token > token
    return token


async def work_in_tasks(store: str) -> int:
    async with holdfast.lock("job", store=store) as guard:
        await guard.store(b"data")
    async with holdfast.AsyncClient(store=store) as client, client.acquire("job", slots=None) as guard:
        again: holdfast.AsyncGuard | None = await client.try_acquire("job")
        assert again is None
        return guard.token


if __name__ == "__main__":
    print(holdfast.find_command(), os.path.dirname(holdfast.__file__))
    print(work(sys.argv[1]) < asyncio.run(work_in_tasks(sys.argv[1])))
