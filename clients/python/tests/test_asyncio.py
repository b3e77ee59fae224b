"""The tests of the client for asyncio, run as those in test_client.py."""
import asyncio
import os
import signal
import tempfile
import threading
import time
import unittest

import holdfast


class AsyncTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        os.environ["HOME"] = place.name
        self.store = f"file:{place.name}/store"
        self.stuck = threading.Event()

    def client(self, **options):
        return holdfast.AsyncClient(**{"store": self.store, "ttl": "30s", "on_stuck": self.stuck.set, **options})

    async def run_command(self, *args):
        process = await asyncio.create_subprocess_exec(
            "holdfast", "--store", self.store, *args, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        output = (await process.communicate())[0].decode()
        self.assertEqual(process.returncode, 0, args)
        return output

    async def take_away(self, guard):
        """Breaks the lock, and lets its holder write, so that it hears of that at once."""
        await self.run_command("break", "--now", guard.name, "--token", str(guard.token))
        try:
            await guard.store("x")
        except holdfast.Lost:
            pass

    async def loses(self, guard, cause, why):
        """The cause ends the block of guard, although the block waits for a minute."""
        with self.assertRaisesRegex(holdfast.Lost, why):
            async with asyncio.timeout(40), guard as guard:
                causing = asyncio.ensure_future(cause(guard))
                await asyncio.sleep(60)
        await causing
        self.assertRegex(guard.lost, why)
        self.assertTrue(guard.ended.is_set())
        self.assertEqual(asyncio.current_task().cancelling(), 0)
        await asyncio.sleep(0)  # no cancellation is left over

    async def test_lock(self):
        async with holdfast.lock("job", store=self.store) as guard:
            self.assertGreater(guard.token, 0)
            with self.assertRaises(holdfast.Busy):
                async with holdfast.lock("job", store=self.store, wait=0):
                    self.fail("two holders")
            await guard.store("step 1")
            self.assertIn("step 1", await self.run_command("show", "job"))
            self.assertFalse(guard.ended.is_set())
        self.assertTrue(guard.ended.is_set())
        self.assertIn("free", await self.run_command("show", "job"))
        with self.assertRaises(holdfast.Lost):
            guard.check()

    async def test_many_tasks(self):
        counter = 0

        async def work(name):
            nonlocal counter
            async with client.acquire(name):
                n = counter
                await asyncio.sleep(0.001)
                counter = n + 1

        async with self.client() as client:
            await asyncio.gather(*(work("job") for _ in range(40)))  # more than there are threads
            self.assertEqual(counter, 40)
            guards = await asyncio.gather(*(client.acquire(f"l/{i}") for i in range(20)))
            self.assertIsNone(await client.try_acquire("l/7"))
            self.assertEqual(len({guard.token for guard in guards}), 20)
            await asyncio.gather(*(guard.release() for guard in guards))
            await guards[0].release()  # once more changes nothing
            async with await client.try_acquire("l/7"):
                pass
        with self.assertRaises(holdfast.ClientEnded):
            await client.acquire("job")

    async def test_close_twice(self):
        async with self.client() as client, client.acquire("job"):
            await asyncio.gather(client.close(), client.close())
            await client.close()

    async def test_close_ends_beside_a_stopped_command_whose_pipe_is_full(self):
        client = self.client()
        await client.open()
        client._client._patience = 0.5
        client._client._process.send_signal(signal.SIGSTOP)
        os.waitpid(client._client._process.pid, os.WUNTRACED)  # now it reads no more
        timer = threading.Timer(10, client._client._process.kill)
        timer.start()
        waiting = [asyncio.ensure_future(self.acquired(client, "x" * 100_000)) for _ in range(2)]
        await asyncio.sleep(0.1)
        await client.close()
        self.assertTrue(timer.is_alive())
        timer.cancel()
        for ended in await asyncio.gather(*waiting, return_exceptions=True):
            self.assertIsInstance(ended, holdfast.ClientEnded)

    async def test_the_loss_of_a_lock_cancels_the_task(self):
        async with self.client() as client, client.acquire("other") as other:
            await self.loses(client.acquire("job"), self.take_away, "broken")
            other.check()
        self.assertFalse(self.stuck.is_set())

    async def test_both_blocks_of_a_task_end(self):
        async with self.client() as client:
            with self.assertRaisesRegex(holdfast.Lost, "lock outer.*has ended"):
                async with client.acquire("outer"):
                    await self.loses(client.acquire("inner"), self.kill(client), "has ended")
            self.assertEqual(asyncio.current_task().cancelling(), 0)
            with self.assertRaises(holdfast.ClientEnded):
                await client.acquire("job")

    def kill(self, client, number=signal.SIGKILL):
        async def cause(_):
            client._client._process.send_signal(number)
        return cause

    async def test_the_silence_of_the_command_cancels_the_task(self):
        async with self.client(ttl="3s") as client:
            await self.loses(client.acquire("job"), self.kill(client, signal.SIGSTOP), "has not renewed")

    async def test_a_stop_of_the_command_cancels_the_task(self):
        async with self.client() as client:
            await self.loses(client.acquire("job"), self.kill(client, signal.SIGTERM), "without a request|has ended")

    async def test_a_cancelled_wait_leaves_nothing(self):
        async with self.client() as client, self.client() as other:
            held = await other.acquire("job")
            for wait in (0, 0.2):  # before the line is sent, and after
                waiting = asyncio.ensure_future(self.acquired(client))
                await asyncio.sleep(wait)
                waiting.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waiting
            await held.release()
            async with asyncio.timeout(20), other.acquire("job"):
                pass

    async def acquired(self, client, name="job"):
        return await client.acquire(name)

    async def test_a_cancelled_block_is_cancelled(self):
        """A cancellation from outside is not taken for a loss, also if both come."""
        async with self.client() as client:
            for lose in (False, True):
                entered = asyncio.Event()

                async def work():
                    async with client.acquire("job"):
                        entered.set()
                        await asyncio.sleep(60)

                task = asyncio.ensure_future(work())
                await entered.wait()
                task.cancel()
                if lose:
                    await self.kill(client)(None)
                with self.assertRaises(asyncio.CancelledError):
                    await task
                if not lose:
                    self.assertIn("free", await self.run_command("show", "job"))

    async def test_a_cancelled_store_confuses_no_answers(self):
        async with self.client() as client, client.acquire("job") as guard:
            for i in range(20):
                with self.assertRaises(TimeoutError):
                    async with asyncio.timeout(0):
                        await guard.store("x" * 30000)
            await guard.store("last")
            self.assertIn("last", await self.run_command("show", "job"))

    async def test_work_that_hides_the_loss(self):
        async with self.client(stop_within=0.1) as client:
            with self.assertRaises(holdfast.Lost):
                async with client.acquire("job"):
                    await self.kill(client)(None)
                    try:
                        await asyncio.sleep(60)
                    except asyncio.CancelledError:
                        pass
                    while not self.stuck.is_set():  # and goes on
                        await asyncio.sleep(0.01)

    async def test_a_loop_that_never_waits_ends_the_program(self):
        async with self.client(stop_within=0.1) as client:
            with self.assertRaises(holdfast.Lost):
                async with client.acquire("job"):
                    client._client._process.kill()
                    self.assertTrue(self.stuck.wait(30))  # it blocks the event loop
        self.assertEqual(asyncio.current_task().cancelling(), 0)

    async def test_without_a_block_the_event_tells(self):
        async with self.client() as client:
            guard = await client.acquire("job")
            await self.kill(client)(None)
            async with asyncio.timeout(30):
                await guard.ended.wait()
            self.assertRegex(guard.lost, "has ended")
            with self.assertRaises(holdfast.Lost):
                async with guard:
                    self.fail("the lock is lost")
            with self.assertRaises(holdfast.Lost):
                guard.check()

    async def test_bad_input(self):
        with self.assertRaises(holdfast.CommandNotFound):
            async with self.client(command="no-such-program"):
                pass
        with self.assertRaisesRegex(holdfast.Unreachable, "127.0.0.1:1"):
            async with self.client(store="nats://127.0.0.1:1/locks", ttl="2s"):
                pass
        async with self.client() as client:
            with self.assertRaises(holdfast.InvalidRequest):
                await client.acquire("../job")
            with self.assertRaises(TypeError):
                client.acquire("job", timeout=3)
            async with client.acquire("job"):
                pass

    async def test_a_cancelled_start_leaves_no_command(self):
        client = self.client()
        opening = asyncio.ensure_future(client.open())
        await asyncio.sleep(0)
        opening.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await opening
        await asyncio.to_thread(client._writer.shutdown)
        self.assertTrue(all(client._process.poll() is not None for client in holdfast._client.clients))

    async def test_close_after_a_start_that_failed(self):
        client = self.client(command="no-such-program")
        with self.assertRaises(holdfast.CommandNotFound):
            await client.open()
        await client.close()

    async def test_a_cancelled_start_does_not_wait_for_the_command(self):
        path = os.path.join(os.environ["HOME"], "slow")
        with open(path, "w") as f:
            f.write("#!/bin/sh\nexec sleep 20\n")
        os.chmod(path, 0o755)
        for pause in 0, 0.3:
            client = self.client(command=path)
            with self.assertRaises(TimeoutError):
                await asyncio.wait_for(client.open(), pause)
            began = time.monotonic()
            await asyncio.to_thread(client._writer.shutdown)  # the end of the program does so, too
            self.assertLess(time.monotonic() - began, 10)
