"""The client for threads, and what the client for asyncio shares with it."""
from __future__ import annotations

import base64
import calendar
import contextlib
import ctypes
import importlib.metadata
import io
import itertools
import json
import logging
import math
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Any, Protocol, Self, TypedDict, Unpack

log = logging.getLogger("holdfast")

_LATE = "the command has not renewed it in time"
_STORE_TIMEOUT = 30.0  # of the command, in seconds: then it reports that the store does not answer


class Error(Exception):
    """An error of the command, with its message. `kind` is one of the kinds of docs/json.md."""

    kind = "failed"


class CommandNotFound(Error):
    """The command holdfast is missing, or cannot be executed."""

    kind = "command_not_found"


class InvalidRequest(Error):
    """An argument is wrong: the name of a lock, or an option."""

    kind = "usage"


class Unreachable(Error):
    """The store did not answer."""

    kind = "unreachable"


class ClientEnded(Error):
    """The client was closed, or its command has ended. Make a new client."""


class Busy(Error):
    """Another holder has the lock: `holder`, with the token `token`."""

    kind = "busy"
    holder: str | None = None
    token: int | None = None


class Lost(Error):
    """The lock is over although it was not released: another client can have it."""

    kind = "lost"


_kinds: dict[str, type[Error]] = {error.kind: error for error in (Error, InvalidRequest, Unreachable, Busy, Lost)}


def stop() -> None:
    """Ends this program at once, whatever it is doing, also if stderr is closed or full."""
    try:
        printing = threading.Thread(target=_print_end, daemon=True)
        printing.start()
        printing.join(0.2)
    finally:
        os._exit(76)


def _print_end() -> None:
    if sys.stderr:
        print("the lock is lost, and the work goes on: stopping", file=sys.stderr, flush=True)


def find_command() -> str:
    """Returns the path of the command that was installed with this package, or else "holdfast"."""
    name = "holdfast.exe" if os.name == "nt" else "holdfast"
    try:
        files = importlib.metadata.files("holdfast-locks") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    places = [pathlib.Path(os.path.normpath(str(file.locate()))) for file in files if file.name == name]
    places.append(pathlib.Path(__file__).parents[1] / "bin" / name)  # of pip install --target
    return next((str(place) for place in places if place.is_file()), "holdfast")


class YieldRequest(TypedDict, total=False):
    """Another client requests the lock. Release the lock, or call refuse."""

    requested_by: str
    reason: str


class LockOptions(TypedDict, total=False):
    """wait is how many seconds to wait for the lock at most; without it there is no limit.

    shared takes the lock beside other readers. slots=N takes one of N slots, whose number is then
    `slot` of the guard. fair waits in the queue.
    """

    wait: float | None
    shared: bool
    slots: int | None
    fair: bool


class ClientOptions(TypedDict, total=False):
    """store, ttl and holder are the options --store, --ttl and --holder; options are further ones of "holdfast hold".

    command is the program, by default the one that was installed with this package, or else holdfast
    in PATH. stop_within is the time in seconds in which the work must stop after a loss without a grace: the
    command was killed, for example, or the lock was broken with --now. The default is one second. Then
    on_stuck is called, which by default ends the program with status 76.
    """

    store: str | None
    ttl: str | None
    holder: str | None
    options: Sequence[str]
    command: str | None
    stop_within: float
    on_stuck: Callable[[], None]


class _Answers(Protocol):
    def put(self, line: dict[str, Any], /) -> None: ...


class Grant:
    """A lock that is held. Guard and AsyncGuard add what waits."""

    def __init__(self, client: Client, name: str, id: str, answers: _Answers):
        self.name = name
        self.token = 0  # each new holder gets a higher one
        self.slot: int | None = None  # of a semaphore: the number of its slot, from 1
        self.yield_request: YieldRequest | None = None
        self.lost: str | None = None  # why the lock is lost
        self._client, self._id, self._answers = client, id, answers
        self._leaving = False  # its release was asked for
        self._over = False  # released, or left after its loss
        self._limit = math.inf  # for the answer to acquire or try, if the command renews no lock
        self._thread: threading.Thread | None = None  # to raise Lost in after a loss

    def check(self) -> None:
        """Raises Lost if the lock is over."""
        limit = time.monotonic() + 1
        while not self.lost and not self._over:
            if not self._client._late():
                return
            if time.monotonic() > limit:
                raise Lost(f"lock {self.name} is lost: {_LATE}")
            time.sleep(0.01)  # another thread reads what renews the lock, or ends all locks
        raise Lost(self.lost or f"lock {self.name} was released")

    def _end(self) -> None:
        """Hears of the loss or the release."""
        raise NotImplementedError

    def _forked(self) -> None:
        """Ends the guard in a child of fork, where the threads and their locks are those of the parent."""

    def _forget_answers(self) -> None:
        """Drops answers that no caller has waited for."""

    def _begin(self, line: dict[str, Any]) -> None:
        """Checks that a line about this lock can be sent."""
        if self.token:
            self.check()
            with self._client._mutex:  # a loss that is heard of after this is an answer, and stays
                if self.lost:
                    raise Lost(self.lost)
                self._leaving = line["command"] == "release"
                self._forget_answers()

    def _held(self, answer: dict[str, Any]) -> None:
        if answer["event"] != "held":
            raise _error(answer)

    def _data(self, data: str | bytes | None) -> dict[str, Any]:
        line = {"command": "data", "id": self._id}
        if isinstance(data, str):
            line["data"] = data
        elif data is not None:
            line["data_base64"] = base64.b64encode(data).decode()
        return line

    def _refusal(self, reason: str) -> dict[str, Any]:
        return {"command": "refuse", "id": self._id, "reason": reason}

    def _release(self) -> dict[str, Any]:
        return {"command": "release", "id": self._id}

    def _released(self, answer: dict[str, Any]) -> None:
        if answer["event"] == "lost":
            raise _error(answer)
        if "error" in answer:
            log.warning("%s: %s", self.name, answer["error"])  # others may have to wait


class Guard(Grant):
    """A lock that is held, from Client.acquire. Leave its `with`, or call release."""

    def __init__(self, client: Client, name: str, id: str):
        self._queue: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        super().__init__(client, name, id, self._queue)
        self.ended = threading.Event()  # set when the lock is lost or released
        self._thread = threading.current_thread()

    def store(self, data: str | bytes | None) -> None:
        """Stores text or bytes in the record of the lock, where every program can read it.
        None removes it. At most 32,768 bytes."""
        self._write(self._data(data), "stored")

    def refuse(self, reason: str) -> None:
        """Answers the client that requests the lock: this program keeps it, for this reason."""
        self._write(self._refusal(reason), "refused")

    def release(self) -> None:
        """Releases the lock. Raises Lost if it was lost before."""
        if self._over:
            return
        try:
            self._released(self._ask(self._release()))
        finally:
            self._over = True
            with self._client._mutex:  # after this, no loss is told of any more
                if self.lost:
                    _raise_in(self._thread, None)  # it need not be told again
            self.ended.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self.release()
        except Lost as lost:
            raise lost from (None if kind is Lost else error)

    def _end(self) -> None:
        self.ended.set()

    def _forked(self) -> None:
        self.ended = threading.Event()
        self.ended.set()

    def _forget_answers(self) -> None:
        while not self._queue.empty():
            self._queue.get()

    def _write(self, line: dict[str, Any], done: str) -> None:
        answer = self._ask(line)
        if answer["event"] != done:
            raise _error(answer)

    def _ask(self, line: dict[str, Any]) -> dict[str, Any]:
        """Sends a line about this lock, and returns what answers it."""
        self._begin(line)
        self._client._send(line)
        return self._queue.get()


class Client:
    """Holds locks through one command, `holdfast hold`.

    Any number of threads can use a client, and one thread at a time each guard.
    """

    def __init__(self, *, store: str | None = None, ttl: str | None = None, holder: str | None = None,
                 options: Sequence[str] = (), command: str | None = None, stop_within: float = 1.0,
                 on_stuck: Callable[[], None] = stop):
        program = command or find_command()
        line = [program, "hold", "--commands", "--json", *options]
        for name, value in (("store", store), ("ttl", ttl), ("holder", holder)):
            if value is not None:
                line.append(f"--{name}={value}")
        self._stop_within, self._on_stuck = stop_within, on_stuck
        self._mutex = threading.Lock()  # not held while anything is waited for
        self._writing = threading.Lock()
        self._locks: dict[str, Grant] = {}
        self._ids = map(str, itertools.count(1))
        self._ended: str | None = None  # why there are no locks any more
        self._failure: dict[str, Any] | None = None  # the last error that the command printed
        self._closing = False
        self._is_copy = False  # in a child of fork
        self._records: queue.SimpleQueue[tuple[int, str, str] | None] = queue.SimpleQueue()  # to log
        self._deadline = (0.0, 0.0)  # by the monotonic and the wall clock
        _wake_main_thread()
        try:
            # A signal from the terminal is for this program, which ends the command when it is
            # ready to.
            self._process = subprocess.Popen(line, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=subprocess.PIPE, start_new_session=True)
        except (FileNotFoundError, PermissionError) as error:
            raise CommandNotFound(f"the command {program} does not start: {error.strerror}") from error
        try:
            if self._abandoned:
                raise ClientEnded("the start was given up")
            self._start(program)
        except BaseException:  # KeyboardInterrupt, for example
            self._process.kill()
            if self._process.stdin:
                self._process.stdin.close()
            self._records.put(None)
            raise

    _abandoned = False  # the start was given up

    def _abandon(self) -> None:
        """Ends a start in another thread."""
        self._abandoned = True
        if process := getattr(self, "_process", None):
            process.kill()

    def _start(self, program: str) -> None:
        """Starts the threads, and waits until the command is ready."""
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._input, self._output = self._process.stdin, io.BufferedReader(self._process.stdout)  # type: ignore[type-var]
        clients.add(self)
        self._messages = threading.Thread(target=self._read_messages, args=[self._process.stderr], daemon=True)
        self._messages.start()
        self._logger = threading.Thread(target=self._log, daemon=True)
        self._logger.start()
        first: Any = {}
        with contextlib.suppress(ValueError):  # from another program
            first = self._read()
        if not isinstance(first, dict) or "ttl_ms" not in first:
            if first is not None:  # it goes on
                self._process.kill()
            self._input.close()
            self._output.close()
            status = self._process.wait()
            self._messages.join()
            raise _error(self._failure or {"event": "failed", "error": f"{program} hold does not start: exit status {status}"})
        self._ttl, self._grace = first["ttl_ms"] / 1000, first.get("grace_ms", 0) / 1000
        self._patience = self._ttl + 5  # with the end of the command
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        threading.Thread(target=self._watch, daemon=True).start()

    def acquire(self, name: str, **options: Unpack[LockOptions]) -> Guard:
        """Takes a lock, and waits for it. After `wait` seconds, it raises Busy."""
        return self._take(Guard(self, name, next(self._ids)), _acquire(name, **options))

    def try_acquire(self, name: str, *, shared: bool = False, slots: int | None = None) -> Guard | None:
        """Takes a lock if it is free now, or returns None."""
        try:
            return self._take(Guard(self, name, next(self._ids)), _try(name, shared, slots))
        except Busy:
            return None

    def close(self) -> None:
        """Releases all locks, and ends the command. In a child of fork, it does nothing."""
        if self._is_copy:
            return
        self._closing = True
        with contextlib.suppress(OSError):  # it has ended
            self._input.close()
        self._listener.join(self._patience)
        if self._listener.is_alive():  # the command is stopped, for example
            self._process.kill()
        self._listener.join()
        self._output.close()
        self._process.wait()
        self._messages.join()
        self._logger.join(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, lock: Guard, line: dict[str, Any]) -> Guard:
        self._add(lock, line)
        try:
            answer = lock._ask(line)
        except BaseException:  # KeyboardInterrupt, for example: the lock is not to be held
            lock._over = True
            self._send(lock._release())
            raise
        lock._held(answer)
        return lock

    def _add(self, lock: Grant, line: dict[str, Any]) -> None:
        """Makes the client listen to what answers the line that takes a lock."""
        line["id"] = lock._id
        _text(line)
        with self._mutex:
            if self._ended:
                raise ClientEnded(self._ended)
            if line["command"] == "try" or "wait_ms" in line:
                lock._limit = time.monotonic() + line.get("wait_ms", 0) / 1000 + _STORE_TIMEOUT + self._patience
            self._locks[lock._id] = lock

    def _send(self, line: dict[str, Any]) -> None:
        text = _text(line)
        try:
            with self._writing:
                while text:
                    text = text[self._input.write(text):]
        except (OSError, ValueError):
            pass  # the command has ended, or its input is closed: the end of its output tells

    def _read(self) -> dict[str, Any] | None:
        """Reads a line of the output. A part of a line is none."""
        text = self._output.readline()
        line: dict[str, Any] | None = json.loads(text) if text.endswith(b"\n") else None
        return line

    def _read_messages(self, stderr: IO[bytes]) -> None:
        """Reads the messages of the command in a thread of its own."""
        with io.BufferedReader(stderr) as lines:  # type: ignore[type-var]
            for text in lines:
                try:
                    message = json.loads(text)
                    level = message["level"]
                except (ValueError, KeyError, TypeError):  # of a crash, for example
                    self._records.put((logging.WARNING, "%s", text.decode(errors="replace").rstrip()))
                    continue
                if level == "error":
                    error = "\n".join([message["message"], *message.get("hints", ())])
                    self._failure = {"event": "failed", "kind": message.get("kind"), "error": error}
                else:
                    self._records.put((logging.INFO, "%s", message["message"]))

    def _log(self) -> None:
        """Logs in a thread of its own. A handler can be blocked, or use this client."""
        while record := self._records.get():
            with contextlib.suppress(Exception):  # of a handler
                log.log(*record)

    def _listen(self) -> None:
        """Reads the output of the command in a thread of its own."""
        why = "the command holdfast hold has ended"
        try:
            while (line := self._read()) and line["event"] != "closed":
                with self._mutex:
                    self._hear(line)
            if line and "error" in line:
                why += ": " + line["error"]
        finally:  # what cannot be read ends it, too
            with self._mutex:
                self._end("the client was closed" if self._closing else why)
            self._messages.join()
            self._records.put(None)  # nothing more is to be logged

    def _hear(self, line: dict[str, Any]) -> None:
        event, lock = line["event"], self._locks.get(line.get("id", ""))
        if event in ("held", "stored", "renewed"):
            self._believe(line["deadline"])
        elif event == "at_risk":
            self._records.put((logging.WARNING, "the locks are at risk: %s", line.get("error", "")))
        if not lock:
            return
        if event == "failed" and line["command"] == "release":  # of what had just been lost, or was never asked for
            if not lock.token:
                del self._locks[lock._id]
            return
        if event == "released" and lock.token and not (lock._leaving or lock._over or self._closing):
            event, line = "lost", {"event": "lost", "error": "the command has released it without a request"}
        if event == "held":
            lock.token, lock.slot = line["token"], line.get("slot")
        elif event == "released":
            lock._over = True
            lock._end()
        elif event == "yield_requested":
            lock.yield_request = {"requested_by": line.get("requested_by", ""), "reason": line.get("reason", "")}
            return  # it answers nothing
        if event in ("busy", "lost", "released") or not lock.token:
            del self._locks[lock._id]
        if event == "lost":
            self._lose([lock], line["error"], line.get("grace_ms", 0) / 1000)
        lock._answers.put(line)

    def _believe(self, deadline: str) -> None:
        """Sets until when the locks can be relied on, if the command falls silent.

        That is not later than a TTL from now: the clock may have been set back since the command has written the line.
        """
        wall = calendar.timegm(time.strptime(deadline[:19], "%Y-%m-%dT%H:%M:%S")) + float("0" + deadline[19:-1])
        wall = min(wall, time.time() + self._ttl)
        self._deadline = max(self._deadline, (time.monotonic() + wall - time.time(), wall))

    def _late(self) -> bool:
        """Tells whether the deadline has passed: the command was stopped, for example."""
        return time.monotonic() > self._deadline[0] or time.time() > self._deadline[1]

    def _watch(self) -> None:
        """Ends all locks after their deadline. It does so in a thread of its own, where no exception interrupts it."""
        pause = min(0.25, self._ttl / 40)
        while not self._ended:
            time.sleep(pause)
            looks = 0  # if this program stood still, the renewals are still to be read
            while self._locks and self._late() and looks < 5:
                time.sleep(pause / 5)
                looks += 1
            if looks < 5:
                continue
            with self._mutex:
                locks = self._locks.values()
                if not self._late():
                    continue
                if any(lock.token for lock in locks):
                    why = _LATE
                elif any(lock._limit < time.monotonic() for lock in locks):
                    why = "the command has not answered in time"
                else:
                    continue
                self._process.kill()  # so that it does not go on
                self._end(why, self._grace)

    def _end(self, why: str, grace: float = 0.0) -> None:
        if not self._ended:
            self._ended = why
            locks, self._locks = list(self._locks.values()), {}
            self._lose([lock for lock in locks if lock.token], why, grace)
            for lock in locks:
                lock._answers.put({"event": "lost" if lock.token else "ended", "error": f"lock {lock.name}: {why}"})

    def _lose(self, locks: list[Grant], why: str, grace: float) -> None:
        locks = [lock for lock in locks if not lock._over]
        for lock in locks:
            lock.lost = f"lock {lock.name} is lost: {why}"
        for thread in set() if self._closing else {lock._thread for lock in locks}:
            _raise_in(thread, Lost)
        for lock in locks:
            lock._end()  # not before: a thread that this wakes can leave its block at once
        if locks and not self._closing:
            timer = threading.Timer(max(grace, self._stop_within), self._stuck, [locks])
            timer.daemon = True
            timer.start()

    def _stuck(self, locks: list[Grant]) -> None:
        if not all(lock._over for lock in locks):
            self._on_stuck()

    def _forked(self) -> None:
        """A child of fork holds nothing, and does not keep the command's input open."""
        self._input.close()
        self._is_copy, self._ended = True, "the locks are those of the parent process"
        self._mutex, self._writing = threading.Lock(), threading.Lock()  # another thread of the parent can have them
        for lock in self._locks.values():
            lock.lost = self._ended
            lock._forked()


clients: weakref.WeakSet[Client] = weakref.WeakSet()


def _forked() -> None:
    for client in clients:
        client._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _acquire(name: str, wait: float | None = None, shared: bool = False, slots: int | None = None,
             fair: bool = False) -> dict[str, Any]:
    line: dict[str, Any] = {"command": "acquire", "lock": name, "shared": shared, "slots": slots, "fair": fair}
    if wait is not None:
        line["wait_ms"] = int(wait * 1000)
    return {key: value for key, value in line.items() if value is not None}


def _try(name: str, shared: bool, slots: int | None) -> dict[str, Any]:
    line = {"command": "try", "lock": name, "shared": shared}
    return line if slots is None else {**line, "slots": slots}


def _text(line: dict[str, Any]) -> bytes:
    """Returns a line as the command takes it. The answer to a longer one would have no id."""
    text = json.dumps(line).encode() + b"\n"
    if len(text) > 262144:
        raise InvalidRequest(f"{len(text)} bytes for one line, at most 262144 are allowed")
    return text


def _error(answer: dict[str, Any]) -> Error:
    known = {"busy": Busy, "lost": Lost, "ended": ClientEnded, "released": ClientEnded}.get(answer["event"])
    text = answer.get("error", "the client was closed, or its command has ended")
    error = (known or _kinds.get(answer.get("kind", ""), Error))(text)
    error.kind = answer.get("kind") or error.kind
    if isinstance(error, Busy):
        error.holder, error.token = answer.get("holder"), answer.get("token")
    return error


def _wake_main_thread() -> None:
    """Lets a signal that has no other meaning end what the main thread waits in."""
    if hasattr(signal, "SIGURG") and threading.current_thread() is threading.main_thread():
        if signal.getsignal(signal.SIGURG) == signal.SIG_DFL:
            signal.signal(signal.SIGURG, lambda *_: None)


def _raise_in(thread: threading.Thread | None, error: type[Error] | None) -> None:
    """Raises an exception in another thread, or takes one back that it has not met yet.

    If that thread starts a thread at this moment, CPython 3.11 can raise the exception in the new thread.
    Then the work does not stop, and on_stuck ends the program.
    """
    if not thread or not thread.is_alive():
        return
    ident = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(error) if error else None)
    if error and thread is threading.main_thread() and hasattr(signal, "SIGURG"):
        if callable(signal.getsignal(signal.SIGURG)):
            signal.pthread_kill(thread.ident or 0, signal.SIGURG)
