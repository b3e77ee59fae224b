"""python3 -m unittest discover tests, with holdfast in PATH and src in PYTHONPATH or the package installed."""
import contextlib
import ctypes
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import holdfast


class ClientTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        os.environ["HOME"] = place.name
        self.store = f"file:{place.name}/store"
        self.stuck = threading.Event()

    def client(self, **options):
        options.setdefault("ttl", "30s")
        client = holdfast.Client(store=self.store, on_stuck=self.stuck.set, **options)
        self.addCleanup(client.close)
        return client

    def show(self, name):
        command = ["holdfast", "--store", self.store, "show", "--json", name]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    def take_away(self, lock):
        """Breaks the lock, and lets its holder write, so that it hears of that at once."""
        command = ["holdfast", "--store", self.store, "break", "--now", lock.name, "--token", str(lock.token)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        with contextlib.suppress(holdfast.Lost):
            lock.store("x")

    def test_many_locks(self):
        client = self.client(holder="ada")
        with contextlib.ExitStack() as stack:
            locks = [stack.enter_context(client.acquire(f"l/{i}")) for i in range(50)]
            self.assertEqual(len({lock.token for lock in locks}), 50)
            self.assertEqual(self.show("l/7")["holder"], "ada")
            for lock in locks:
                lock.check()
            self.assertIsNone(client.try_acquire("l/7"))
            with self.assertRaises(holdfast.Busy) as busy:
                client.acquire("l/7", wait=1)
            self.assertEqual((busy.exception.holder, busy.exception.token), ("ada", locks[7].token))
            locks[7].store("step 1")
            self.assertEqual(self.show("l/7")["data"], "step 1")
            locks[7].store(b"\xff")
            self.assertEqual(self.show("l/7")["data_base64"], "/w==")
            locks[7].store(None)
            self.assertNotIn("data", self.show("l/7"))
            with self.assertRaises(holdfast.Error):
                locks[7].store("x" * 40000)
        self.assertEqual(self.show("l/7")["state"], "free")
        with self.assertRaises(holdfast.Lost):
            locks[7].check()

    def test_threads_exclude_each_other(self):
        client, counter = self.client(), [0]

        def work():
            for _ in range(5):
                with client.acquire("job"):
                    n = counter[0]
                    time.sleep(0.001)
                    counter[0] = n + 1

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(counter[0], 20)

    def test_bad_names_are_errors(self):
        client = self.client()
        for name in ("../job", "", "a//b", "\ud800", "a\0b", "x" * 5000):
            with self.assertRaises(holdfast.InvalidRequest) as error:
                client.acquire(name)
            self.assertIn("lock" if name == "\ud800" else "name", str(error.exception))
        with client.acquire("job"):  # and end nothing
            pass

    def test_too_much_for_one_line_is_an_error(self):
        client = self.client()
        with self.assertRaisesRegex(holdfast.Error, "262144") as error:
            client.acquire("x" * 300000)
        self.assertEqual(error.exception.kind, "usage")
        with client.acquire("job") as lock:
            with self.assertRaisesRegex(holdfast.Error, "262144"):
                lock.store("x" * 1000000)
            lock.store("\x01" * 32768)  # the most that fits, and the longest form of it

    def test_an_ask_is_no_answer(self):
        client = self.client(ttl="30s")
        with client.acquire("job") as lock:
            self.assertIsNone(lock.yield_request)
            command = ["holdfast", "--store", self.store, "ask", "job", "--reason", "noon", "--holder", "bob"]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            lock.store("step 1")  # this write meets the ask
            while not lock.yield_request:
                time.sleep(0.01)
            self.assertEqual((lock.yield_request["requested_by"], lock.yield_request["reason"]), ("bob", "noon"))
            lock.store("step 2")
        self.assertEqual(self.show("job")["state"], "free")

    def test_an_ask_is_refused(self):
        client = self.client(ttl="30s")
        with client.acquire("job") as lock:
            with self.assertRaises(holdfast.Error) as error:
                lock.refuse("why")  # what no client has asked
            self.assertEqual(error.exception.kind, "condition_not_met")
            command = ["holdfast", "--store", self.store, "ask", "job"]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            while not lock.yield_request:
                lock.store("a write meets the ask")
            lock.refuse("the backup runs")
            self.assertEqual(self.show("job")["yield_request"]["refusal"], "the backup runs")
            lock.check()

    def test_readers_and_slots(self):
        client = self.client()
        with client.acquire("doc", shared=True) as one, client.try_acquire("doc", shared=True) as two:
            self.assertEqual((one.token, one.slot), (two.token, None))
            self.assertIsNone(client.try_acquire("doc"))
        with client.acquire("doc", fair=True):
            with self.assertRaises(holdfast.Busy):
                client.acquire("doc", wait=1, shared=True)
        with client.acquire("pool", slots=2) as one, client.try_acquire("pool", slots=2) as two:
            self.assertEqual((one.slot, two.slot), (1, 2))
            self.assertIsNone(client.try_acquire("pool", slots=2))
            with self.assertRaisesRegex(holdfast.Error, "has 2 slots") as error:
                client.acquire("pool", slots=3)
            self.assertEqual(error.exception.kind, "condition_not_met")
        with self.assertRaisesRegex(holdfast.Error, "slots"):
            client.acquire("pool", slots=0)

    def test_no_helper(self):
        with self.assertRaisesRegex(holdfast.CommandNotFound, "no-such-program"):
            self.client(command="no-such-program")
        with self.assertRaisesRegex(holdfast.InvalidRequest, "no-such-flag"):
            self.client(options=["--no-such-flag"])
        for script in ("echo 'usage: other'", "echo '{}' | tr -d '\\n'", "exit 3", "echo '[]'; exec sleep 600", "echo usage; exec sleep 600"):
            path = os.path.join(os.environ["HOME"], "other")
            with open(path, "w") as f:
                f.write("#!/bin/sh\n" + script + "\n")
            os.chmod(path, 0o755)
            with self.assertRaisesRegex(holdfast.Error, "other hold does not start"):
                self.client(command=path)

    def test_a_store_that_is_away(self):
        with self.assertRaisesRegex(holdfast.Unreachable, "127.0.0.1:1"):
            holdfast.Client(store="nats://127.0.0.1:1/locks", ttl="2s")

    def test_close_gives_all_back(self):
        with self.client() as client:
            lock = client.acquire("job")
        self.assertEqual(self.show("job")["state"], "free")
        with self.assertRaises(holdfast.Error):
            client.acquire("job")
        lock.release()  # or raises Lost; not twice

    def test_the_end_of_the_client_or_of_its_command_ends_a_wait(self):
        with self.client().acquire("job"):
            for end in (lambda client: client.close(), lambda client: client._process.terminate()):
                client = self.client()
                timer = threading.Timer(0.3, end, [client])
                timer.start()
                with self.assertRaises(holdfast.ClientEnded):
                    client.acquire("job")
                timer.join()

    def test_lock(self):
        with holdfast.lock("job", store=self.store, holder="ada") as guard:
            self.assertEqual(self.show("job")["holder"], "ada")
            with self.assertRaises(holdfast.Busy):
                with holdfast.lock("job", store=self.store, wait=0):
                    self.fail("two holders")
            self.assertFalse(guard.ended.is_set())
        self.assertTrue(guard.ended.is_set())
        self.assertIsNone(guard.lost)
        self.assertEqual(self.show("job")["state"], "free")
        with self.assertRaises(TypeError):
            with holdfast.lock("job", store=self.store, timeout=3):  # type: ignore
                pass

    def test_a_lost_lock_has_a_reason(self):
        with self.assertRaisesRegex(holdfast.Lost, "broken"):
            with holdfast.lock("job", store=self.store, on_stuck=self.stuck.set) as guard:
                threading.Timer(0.1, self.take_away, [guard]).start()
                time.sleep(60)
        self.assertRegex(guard.lost, "lock job is lost: .*broken")
        self.assertTrue(guard.ended.is_set())
        self.assertFalse(self.stuck.is_set())

    def test_interrupted_wait_leaves_nothing(self):
        client, other = self.client(), self.client()
        lock = other.acquire("job")
        previous = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(InterruptedError()))
        self.addCleanup(signal.signal, signal.SIGALRM, previous)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with self.assertRaises(InterruptedError):
            client.acquire("job")
        lock.release()
        with other.acquire("job", wait=20):
            pass

    def test_interrupted_start_leaves_no_command(self):
        path = os.path.join(os.environ["HOME"], "slow")
        with open(path, "w") as f:
            f.write('#!/bin/sh\nsleep 0.5\ncat >&2\nexec sleep 600\n')
        os.chmod(path, 0o755)
        previous = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(InterruptedError()))
        self.addCleanup(signal.signal, signal.SIGALRM, previous)
        processes = []
        popen = subprocess.Popen

        def interrupted_later(*args, **options):
            processes.append(popen(*args, **options))
            signal.setitimer(signal.ITIMER_REAL, 0.1)  # while the client waits for the command
            return processes[0]

        with unittest.mock.patch("subprocess.Popen", interrupted_later):
            with self.assertRaises(InterruptedError):
                self.client(command=path)
        self.addCleanup(processes[0].kill)
        self.assertEqual(processes[0].wait(10), -signal.SIGKILL)
        self.assertTrue(processes[0].stdin.closed)

    def raises(self, lock, cause, why):
        """Waits in the main thread for cause to make it lose the lock."""
        timer = threading.Timer(0.1, cause)
        began = time.monotonic()
        with self.assertRaisesRegex(holdfast.Lost, why):
            with lock:
                timer.start()
                time.sleep(60)
        self.assertLess(time.monotonic() - began, 30)
        timer.join()

    def test_loss_of_one_lock_raises(self):
        client = self.client(ttl="3s")
        other = client.acquire("other")
        lock = client.acquire("job")
        self.raises(lock, lambda: self.take_away(lock), "broken")
        other.check()
        other.release()
        self.assertFalse(self.stuck.is_set())

    def test_loss_of_the_helper_raises(self):
        client = self.client()
        lock = client.acquire("job")
        self.raises(lock, client._process.kill, "has ended")
        with self.assertRaises(holdfast.ClientEnded):
            client.acquire("job")

    def test_a_stop_of_the_helper_raises(self):
        client = self.client()
        lock, late = client.acquire("job"), client.acquire("late")
        self.raises(lock, client._process.terminate, "")  # it gives all locks back
        with self.assertRaises(holdfast.Lost):
            while True:
                time.sleep(0.01)
                late.check()
        with self.client().acquire("job", wait=20):
            pass

    def test_a_release_beside_a_stop_of_the_helper_ends(self):
        for _ in range(5):
            client = self.client()
            lock = client.acquire("job")
            client._process.terminate()
            with contextlib.suppress(holdfast.Lost):
                lock.release()
            with self.assertRaises(holdfast.Lost):
                lock.check()
        self.assertFalse(self.stuck.is_set())

    def test_what_ends_the_output_raises(self):
        for last in ('{"event":"closed"}\n', '{"event":"released","id":"1","token":7}\n', "no JSON\n"):
            # It does not end by itself: the line alone is the end.
            lock = self.client(command=self.helper(last + "%s")).acquire("job")
            self.raises(lock, lambda: self.go_on(lock), "without a request|has ended")
        lock = self.client(command=self.helper('{"event":"rel')).acquire("job")
        self.raises(lock, lambda: self.go_on(lock), "has ended")

    def go_on(self, lock):
        """Lets what helper made go on."""
        lock._client._send({})

    def helper(self, last):
        """Makes a program that gives one lock, and prints last after a second line; it then waits for
        its end if that has a %s."""
        lines = ('{"event":"ready","ttl_ms":30000}', '{"event":"held","id":"1","token":7,"deadline":"2999-01-01T00:00:00Z"}')
        path = os.path.join(os.environ["HOME"], "helper")
        with open(path, "w") as f:
            print(f"#!/bin/sh\necho '{lines[0]}'\nread line\necho '{lines[1]}'\nread line", file=f)
            print(f"printf '%b' '{last.replace('%s', '')}'", file=f)
            print("cat >/dev/null" if "%s" in last else "exit", file=f)
        os.chmod(path, 0o755)
        return path

    def test_silence_of_the_helper_raises(self):
        client = self.client(ttl="3s")
        lock = client.acquire("job")
        self.raises(lock, lambda: client._process.send_signal(signal.SIGSTOP), "has not renewed")

    def test_a_deadline_is_at_most_a_ttl_away(self):
        # The clock was set back after the command had written the line.
        helper = self.helper("%s")
        with open(helper) as f:
            text = f.read()
        with open(helper, "w") as f:
            f.write(text.replace("30000", "2000").replace("read line\nprintf", "exec sleep 10\nprintf"))
        self.raises(self.client(command=helper).acquire("job"), lambda: None, "has not renewed")

    def test_silence_that_check_meets_is_told_to_all_threads(self):
        client, worked = self.client(ttl="3s"), []

        def work(name):
            with contextlib.suppress(holdfast.Lost), client.acquire(name):
                held.release()
                for _ in range(400):
                    time.sleep(0.05)
                worked.append(name)

        held = threading.Semaphore(0)
        threads = [threading.Thread(target=work, args=[f"l/{i}"]) for i in range(8)]
        for thread in threads:
            thread.start()
        for _ in threads:
            held.acquire()
        with self.assertRaises(holdfast.Lost):
            with client.acquire("job") as lock:
                client._process.send_signal(signal.SIGSTOP)
                while True:
                    lock.check()
        for thread in threads:
            thread.join()
        self.assertEqual(worked, [])

    def test_a_command_that_is_stopped_keeps_no_caller(self):
        for call in (lambda client: client.acquire("job", wait=0.5), lambda client: client.try_acquire("job"), None):
            client = self.client(ttl="3s")
            client._patience = 0.5
            client._process.send_signal(signal.SIGSTOP)
            timer = threading.Timer(10, client._process.kill)
            timer.start()
            if call:
                with unittest.mock.patch("holdfast._client._STORE_TIMEOUT", 0):
                    with self.assertRaisesRegex(holdfast.ClientEnded, "not answered in time"):
                        call(client)
            client.close()
            self.assertTrue(timer.is_alive())
            timer.cancel()

    def test_a_pause_of_the_program_is_no_silence(self):
        lib = ctypes.PyDLL(None)
        with self.client(ttl="3s").acquire("job") as lock:
            for _ in range(2):
                lib.sleep(4)  # no other thread reads what the command prints meanwhile
                lock.check()

    def test_a_loss_is_raised_once(self):
        raise_in = holdfast._client._raise_in

        def raise_late(thread, error):
            if error:
                time.sleep(0.1)
            raise_in(thread, error)

        def check(lock):
            while True:
                lock.check()

        for wait in (lambda lock: lock.ended.wait(30), check):
            client = self.client()
            with unittest.mock.patch("holdfast._client._raise_in", raise_late):
                with self.assertRaises(holdfast.Lost), client.acquire("job") as lock:
                    client._process.kill()
                    wait(lock)
                time.sleep(0.3)  # Lost is not raised here again

    def test_a_loop_that_waits_in_nothing_is_stopped(self):
        client = self.client()

        def work(raised):
            with contextlib.suppress(holdfast.Lost), client.acquire("job"):
                client._process.kill()
                while True:
                    pass
            raised.set()

        raised = threading.Event()
        threading.Thread(target=work, args=[raised], daemon=True).start()
        self.assertTrue(raised.wait(30))

    def test_a_handler_of_logging_delays_no_loss(self):
        """It waits for the loss, or asks for a lock, when the locks are at risk."""
        line = '{"event":"at_risk","error":"away"}'
        for act in (lambda lock, lost: lost.wait(60), lambda lock, lost: lock._client.try_acquire("job")):
            lock = self.client(command=self.helper(line + "\n")).acquire("job")
            called, lost = threading.Event(), threading.Event()

            class Handler(logging.Handler):
                def emit(self, record):
                    called.set()
                    act(lock, lost)

            handler = Handler()
            logging.getLogger("holdfast").addHandler(handler)
            self.addCleanup(logging.getLogger("holdfast").removeHandler, handler)
            self.addCleanup(lost.set)
            threading.Timer(10, lost.set).start()
            self.raises(lock, lambda: self.go_on(lock), "has ended")
            self.assertTrue(called.wait(10))
            self.assertFalse(lost.is_set())
            lost.set()

    def test_work_that_does_not_stop_ends_the_program(self):
        client = self.client(stop_within=0.1)
        lock = client.acquire("job")
        client._process.kill()
        try:
            time.sleep(60)
        except holdfast.Lost:
            pass  # and goes on under the lock
        self.assertTrue(self.stuck.wait(30))
        with self.assertRaises(holdfast.Lost):
            lock.release()

    def test_no_state_of_stderr_keeps_the_program(self):
        text = f"""if True:
            import holdfast, time
            client = holdfast.Client(store={self.store!r}, stop_within=0.1)
            lock = client.acquire("job")
            client._process.kill()
            for _ in range(40):
                try:
                    time.sleep(0.1)
                except holdfast.Lost:
                    pass  # and goes on"""
        for state in ("open", "broken", "full", "closed"):
            reader, writer = os.pipe()
            if state == "broken":
                os.close(reader)
            if state == "full":
                os.set_blocking(writer, False)
                with contextlib.suppress(BlockingIOError):
                    while os.write(writer, b"x"):
                        pass
                os.set_blocking(writer, True)
            command = [sys.executable, "-c", text]
            if state == "closed":
                command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command]
            status = subprocess.run(command, stderr=writer).returncode
            os.close(writer)
            if state != "broken":
                said = b"" if state == "full" else os.read(reader, 1000)
                os.close(reader)
                self.assertEqual(b"the work goes on" in said, state == "open", said)
            self.assertEqual(status, 76, state)

    def test_locks_live_on_between_renewals(self):
        client = self.client(ttl="3s")
        with client.acquire("job") as lock:
            time.sleep(client._deadline[0] + 0.2 - time.monotonic())  # the first deadline has passed then
            lock.check()

    def test_a_forked_child_holds_nothing(self):
        client = self.client()
        with client.acquire("job") as lock:
            pid = os.fork()
            if pid == 0:
                try:
                    lock.check()
                except holdfast.Lost:
                    os._exit(7)
                os._exit(0)
            self.assertEqual(os.waitpid(pid, 0)[1], 7 << 8)
            lock.check()

    def test_a_forked_child_leaves_the_blocks(self):
        with self.client() as client, client.acquire("job") as lock:
            pid = os.fork()
            if pid == 0:
                signal.alarm(10)
                ended = lock.ended.is_set()
                with contextlib.suppress(holdfast.Lost), client, lock:
                    pass
                os._exit(7 if ended else 0)
            self.assertEqual(os.waitpid(pid, 0)[1], 7 << 8)
            self.assertFalse(lock.ended.is_set())
            lock.check()

    def test_end_of_the_program_is_the_end_of_its_locks(self):
        text = f"import holdfast, os; holdfast.Client(store={self.store!r}).acquire('job'); os.kill(os.getpid(), 9)"
        self.assertEqual(subprocess.run([sys.executable, "-c", text]).returncode, -9)
        with self.client().acquire("job", wait=20):
            pass


if __name__ == "__main__":
    unittest.main()
