"""Locks of Holdfast for Python, in one file that needs the standard library alone.

    import holdfast

    with holdfast.Client() as client:
        with client.acquire("jobs/nightly") as lock:
            work(token=lock.token)

A Client starts one `holdfast hold --commands`, which holds any number of locks, and renews them
all. They are given back at the end of the client, and at the end of the program however that
happens. The environment and holdfast.conf say where the locks lie, unless `store` does.

When a lock is lost, or the helper has given it back unasked (a service manager has stopped it,
say), has ended or falls silent, Lost is raised in the thread that acquired the lock, wherever
that is. The main thread is woken for it, except on Windows; another
thread gets it when the call returns that it waits in. If the work has not left the `with` by
the end of the lock's grace, the program ends with status 76: another may have the lock then. In
asyncio, do the work in a thread (asyncio.to_thread) that acquires the lock.

python3 holdfast.py NAME [OPTION...] is an example: STEPS is how many steps its work has, PAUSE
the seconds that each takes.
"""
import base64
import calendar
import ctypes
import io
import itertools
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import weakref

log = logging.getLogger("holdfast")


class Error(Exception):
    """What the helper could not do. `kind` is one of the kinds of docs/json.md."""

    kind = "failed"


class Busy(Error):
    """Another holder has the lock: `holder`, with the token `token`."""

    kind, holder, token = "busy", None, None


class Lost(Error):
    """The lock is over although it was not released: another may have it."""

    kind = "lost"


def stop():
    """Ends this program at once, whatever it is doing."""
    print("the lock is lost, and the work goes on: stopping", file=sys.stderr, flush=True)
    os._exit(76)


class Lock:
    """A lock that is held, from Client.acquire. Leave its `with`, or call release."""

    def __init__(self, client, name, id):
        self.client, self.name, self.id = client, name, id
        self.token = None  # the fencing token
        self.slot = None  # of a semaphore: the number of its slot, from 1 on
        self.yield_request = None  # if another client asks for the lock: a dict with "requested_by" and "reason"
        self.thread = threading.current_thread()
        self.answers = queue.SimpleQueue()
        self.lost = None  # why the lock is lost
        self.leaving = False  # its release was asked for
        self.over = False  # released, or left after its loss

    def check(self):
        """Raises Lost if the lock is over."""
        if not self.lost and not self.over:
            self.client._look()
        if self.lost or self.over:
            raise Lost(self.lost or f"lock {self.name} was released")

    def store(self, data):
        """Stores text or bytes in the record of the lock, where every program can read it.
        None removes it."""
        line = {"command": "data", "id": self.id}
        if isinstance(data, str):
            line["data"] = data
        elif data is not None:
            line["data_base64"] = base64.b64encode(data).decode()
        self._write(line, "stored")

    def refuse(self, reason):
        """Answers the client that asks for the lock: it is kept, and why."""
        self._write({"command": "refuse", "id": self.id, "reason": reason}, "refused")

    def _write(self, line, done):
        answer = self.client._ask(self, line)
        if answer["event"] != done:
            raise _error(answer)

    def release(self):
        """Gives the lock back. Raises Lost if it was lost before."""
        if self.over:
            return
        try:
            answer = self.client._ask(self, {"command": "release", "id": self.id})
            if answer["event"] == "lost":
                raise _error(answer)
            if "error" in answer:
                log.warning("%s: %s", self.name, answer["error"])  # others may have to wait
        finally:
            self.over = True
            if self.lost:
                _raise_in(self.thread, None)  # it need not be told again

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        try:
            self.release()
        except Lost as lost:
            raise lost from (None if kind is Lost else error)


class Client:
    """Holds locks through one helper.

    store, ttl and holder are those of the command's options, and `options` are further ones.
    stop_within is how many seconds the work has to stop in after Lost was raised, where the
    lock leaves no grace: its helper was killed, say, or the lock was broken with --now. Then
    on_stuck is called, which ends the program. A client may be used by any number of threads,
    each lock by one at a time.
    """

    def __init__(self, *, store=None, ttl=None, holder=None, options=(), program="holdfast",
                 stop_within=1.0, on_stuck=stop):
        command = [program, "hold", "--commands", *options]
        for name, value in (("store", store), ("ttl", ttl), ("holder", holder)):
            if value is not None:
                command.append(f"--{name}={value}")
        self._stop_within, self._on_stuck = stop_within, on_stuck
        self._mutex = threading.Lock()  # not held while anything is waited for
        self._writing = threading.Lock()
        self._locks = {}
        self._ids = map(str, itertools.count(1))
        self._ended = None  # why there are no locks any more
        self._closing = False
        self._deadline = (0, 0)  # by the monotonic and the wall clock
        _wake_main_thread()
        # A signal from the terminal is for this program, which ends the helper when it is
        # ready to.
        self._helper = subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, start_new_session=True)
        clients.add(self)
        self._output = io.BufferedReader(self._helper.stdout)
        first = self._read()
        if not first:
            self._helper.stdin.close()
            self._output.close()
            raise Error(f"{program} does not start: exit status {self._helper.wait()}")
        self._ttl, self._grace = first["ttl_ms"] / 1000, first.get("grace_ms", 0) / 1000
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        threading.Thread(target=self._watch, daemon=True).start()

    def acquire(self, name, wait=None, *, shared=False, slots=None, fair=False):
        """Takes a lock, and waits for it: at most `wait` seconds, then it raises Busy.

        shared takes it beside other readers, slots=N takes one of N slots, whose number is
        Lock.slot, and fair waits in line.
        """
        wait_ms = None if wait is None else int(wait * 1000)
        return self._take(name, command="acquire", wait_ms=wait_ms, shared=shared, slots=slots, fair=fair)

    def try_acquire(self, name, *, shared=False, slots=None):
        """Takes a lock if it is free now, or returns None."""
        try:
            return self._take(name, command="try", shared=shared, slots=slots)
        except Busy:
            return None

    def close(self):
        """Gives all locks back, and ends the helper."""
        self._closing = True
        try:
            self._helper.stdin.close()
        except OSError:
            pass  # it has ended
        self._listener.join()
        self._output.close()
        self._helper.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _take(self, name, **fields):
        line = {"lock": name, **{key: value for key, value in fields.items() if value is not None}}
        with self._mutex:
            if self._ended:
                raise Error(self._ended)
            lock = Lock(self, name, next(self._ids))
            line["id"] = lock.id
            _text(line)
            self._locks[lock.id] = lock
        try:
            answer = self._ask(lock, line)
        except BaseException:  # KeyboardInterrupt, say: the lock is not to be held
            lock.over = True
            self._send({"command": "release", "id": lock.id})
            raise
        if answer["event"] != "held":
            raise _error(answer)
        return lock

    def _ask(self, lock, line):
        """Sends a line about a lock, and returns what answers it."""
        if lock.token:
            lock.check()
            with self._mutex:  # a loss that is heard of after this is an answer, and stays
                if lock.lost:
                    raise Lost(lock.lost)
                lock.leaving = line["command"] == "release"
                while not lock.answers.empty():
                    lock.answers.get()
        self._send(line)
        return lock.answers.get()

    def _send(self, line):
        text = _text(line)
        try:
            with self._writing:
                while text:
                    text = text[self._helper.stdin.write(text):]
        except (OSError, ValueError):
            pass  # the helper has ended, or is closed: the end of its output tells

    def _read(self):
        """Reads a line of the helper's output. A part of a line is none."""
        text = self._output.readline()
        return json.loads(text) if text.endswith(b"\n") else None

    def _listen(self):
        """Reads the helper's output in a thread of its own."""
        try:
            while (line := self._read()) and line["event"] != "closed":
                with self._mutex:
                    self._hear(line)
        finally:  # what cannot be read ends it, too
            with self._mutex:
                self._end("it was given back" if self._closing else "the helper has ended")

    def _hear(self, line):
        event, lock = line["event"], self._locks.get(line.get("id"))
        if event in ("held", "stored", "renewed"):
            self._believe(line["deadline"])
        elif event == "at_risk":
            log.warning("the locks are at risk: %s", line.get("error", ""))
        if not lock or event == "failed" and line["command"] == "release":
            return  # a release of what had just been lost
        if event == "released" and lock.token and not (lock.leaving or lock.over or self._closing):
            event, line = "lost", {"event": "lost", "error": "the helper has given it back unasked"}
        if event == "held":
            lock.token, lock.slot = line["token"], line.get("slot")
        elif event == "released":
            lock.over = True
        elif event == "yield_requested":
            lock.yield_request = line
            return  # it answers nothing
        if event in ("busy", "lost", "released") or not lock.token:
            del self._locks[lock.id]
        if event == "lost":
            self._lose([lock], line["error"], line.get("grace_ms", 0) / 1000)
        lock.answers.put(line)

    def _believe(self, deadline):
        """Sets until when the locks can be relied on, if the helper falls silent."""
        wall = calendar.timegm(time.strptime(deadline[:19], "%Y-%m-%dT%H:%M:%S"))
        wall += float("0" + deadline[19:-1])
        self._deadline = max(self._deadline, (time.monotonic() + wall - time.time(), wall))

    def _look(self):
        """Ends all locks if their deadline has passed: the helper was stopped, say."""
        with self._mutex:
            late = time.monotonic() > self._deadline[0] or time.time() > self._deadline[1]
            if late and not self._ended and any(lock.token for lock in self._locks.values()):
                self._helper.kill()  # so that it does not go on
                self._end("the helper has not renewed it in time", self._grace)

    def _watch(self):
        """Looks at the deadline in a thread of its own."""
        while not self._ended:
            time.sleep(min(0.5, self._ttl / 20))
            self._look()

    def _end(self, why, grace=0.0):
        if not self._ended:
            self._ended = why
            locks, self._locks = list(self._locks.values()), {}
            self._lose([lock for lock in locks if lock.token], why, grace)
            for lock in locks:
                lock.answers.put({"event": "lost", "error": f"lock {lock.name}: {why}"})

    def _lose(self, locks, why, grace):
        locks = [lock for lock in locks if not lock.over]
        for lock in locks:
            lock.lost = f"lock {lock.name} is lost: {why}"
        if self._closing or not locks:
            return
        for thread in {lock.thread for lock in locks}:
            _raise_in(thread, Lost)
        timer = threading.Timer(max(grace, self._stop_within), self._stuck, [locks])
        timer.daemon = True
        timer.start()

    def _stuck(self, locks):
        if not all(lock.over for lock in locks):
            self._on_stuck()

    def _forked(self):
        """A child of fork holds nothing, and does not keep the helper's input open."""
        self._helper.stdin.close()
        self._ended = "the locks are those of the parent process"
        for lock in self._locks.values():
            lock.lost = self._ended


clients = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: [client._forked() for client in clients])


def _text(line):
    """Returns a line as the helper takes it. The answer to a longer one would have no id."""
    text = json.dumps(line).encode() + b"\n"
    if len(text) > 262144:
        error = f"{len(text)} bytes for one line, at most 262144 are allowed"
        raise _error({"event": "invalid", "kind": "usage", "error": error})
    return text


def _error(answer):
    kind = {"busy": Busy, "lost": Lost}.get(answer["event"], Error)
    error = kind(answer.get("error", "the lock was released"))
    error.kind = answer.get("kind", kind.kind)
    if kind is Busy:
        error.holder, error.token = answer.get("holder"), answer.get("token")
    return error


def _wake_main_thread():
    """Lets a signal that has no other meaning end what the main thread waits in."""
    if hasattr(signal, "SIGURG") and threading.current_thread() is threading.main_thread():
        if signal.getsignal(signal.SIGURG) == signal.SIG_DFL:
            signal.signal(signal.SIGURG, lambda *_: None)


def _raise_in(thread, error):
    """Raises an exception in another thread, or takes one back that it has not met yet.

    If that thread starts a thread at this moment, CPython 3.11 can raise the exception in the new thread.
    Then the work does not stop, and on_stuck ends the program.
    """
    if not thread.is_alive():
        return
    ident = ctypes.c_ulong(thread.ident)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(error) if error else None)
    if error and thread is threading.main_thread() and hasattr(signal, "SIGURG"):
        if callable(signal.getsignal(signal.SIGURG)):
            signal.pthread_kill(thread.ident, signal.SIGURG)


if __name__ == "__main__":
    try:
        with Client(options=sys.argv[2:]) as client, client.acquire(sys.argv[1]) as lock:
            for step in range(int(os.environ.get("STEPS", 3))):
                print(f"step {step} under token {lock.token}", flush=True)
                time.sleep(float(os.environ.get("PAUSE", 0)))
        print("released")
    except Busy as busy:
        print(busy, file=sys.stderr)
        sys.exit(75)
    except Lost:
        print("the lock is lost: stopping", file=sys.stderr)
        sys.exit(76)
