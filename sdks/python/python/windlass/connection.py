"""The native client of a process, opened on first use, and its calls: awaited on any event loop, or waited for."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import threading
import weakref
from itertools import count
from typing import Any, Callable

from . import _logs, _native
from ._in_thread import in_thread
from .args import encode
from .errors import InvalidOption


_FEW = 24  # operations: a store takes fewer together, however they come. As many as in the store's group commit (group_commit.rs).


class Mailbox:
    """Where the answers of calls come in for one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.port: _native.Port = _native.Port()
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[str]] = {}
        self._begun: dict[_native.Client, list[tuple[int, str, str]]] = {}
        self._calls: dict[int, _native.Call] = {}
        self._half = _FEW
        self._opening: dict[Connection, asyncio.Task[_native.Client]] = {}
        loop.add_reader(self.port.fileno(), self._drain)

    async def opened(self, connection: Connection) -> _native.Client:
        """Opens a store, once for all who wait for that, in a thread that keeps no process from ending: the server may not answer."""
        task = self._opening.get(connection)
        if task is None:
            task = self._opening[connection] = asyncio.ensure_future(in_thread(Connection.native, connection))
            task.add_done_callback(functools.partial(self._forget, connection))
        return await asyncio.shield(task)

    def _forget(self, connection: Connection, task: asyncio.Task[_native.Client]) -> None:
        del self._opening[connection]
        if not task.cancelled():
            task.exception()  # looked at, should all who waited be gone

    async def operate(self, native: _native.Client, op: str, payload: str) -> str:
        """Does an operation.

        Those that are asked for in one turn of the loop are started together, so that what they store is stored together. Where nothing is under way
        and many wait, half of them go ahead: Python has the others ready by the time that the store has these, and from then on one half is stored
        while the other is prepared.
        """
        loop, number = asyncio.get_running_loop(), next(self._numbers)
        answer: asyncio.Future[str] = loop.create_future()
        self._waiting[number] = answer
        if not self._begun:
            loop.call_soon(self.start)
        begun = self._begun.setdefault(native, [])
        begun.append((number, op, payload))
        if len(begun) >= self._half and not self._calls:
            self.start()
        try:
            return await answer
        except asyncio.CancelledError:
            self.start()
            self._waiting.pop(number, None)
            call = self._calls.pop(number, None)
            if call is not None:  # else nothing could be started, or it has ended
                call.abort()
            raise

    def start(self) -> None:
        """Starts what was asked for and waits for the next turn."""
        begun, self._begun = self._begun, {}
        for native, calls in begun.items():
            try:
                started = native.start(self.port, calls)
            except Exception as error:
                for number, _, _ in calls:
                    self._end(number, None, error)
            else:
                self._calls.update(zip((number for number, _, _ in calls), started))

    async def call(self, start: Callable[[_native.Port, int], _native.Call]) -> str:
        """Starts a call with this port and a number, and waits for its answer. Who is cancelled while it waits ends the call."""
        number = next(self._numbers)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            call = start(self.port, number)
            try:
                return await answer
            except asyncio.CancelledError:
                call.abort()
                raise
        finally:
            self._waiting.pop(number, None)

    def _drain(self) -> None:
        answers = self.port.drain()
        self._half = max(_FEW, len(answers) // 2)
        for number, answer, error in answers:
            self._end(number, answer, error)

    def _end(self, number: int, answer: str | None, error: BaseException | None) -> None:
        self._calls.pop(number, None)
        future = self._waiting.pop(number, None)
        if future is None or future.done():
            return  # whoever waited was cancelled
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(answer or "null")


_mailboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox] = weakref.WeakKeyDictionary()


def mailbox() -> Mailbox:
    """That of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _mailboxes.get(loop)
    if found is None:
        found = _mailboxes[loop] = Mailbox(loop)
    return found


def start_all() -> None:
    """Starts what was asked for in this turn of the running event loop, if one runs: its store is about to be closed."""
    try:
        found = _mailboxes.get(asyncio.get_running_loop())
    except RuntimeError:
        return
    if found is not None:
        found.start()


_connections: weakref.WeakSet[Connection] = weakref.WeakSet()
_of_parents: list[_native.Client] = []  # never dropped here: their threads are in another process


class Connection:
    """A store by its URL, with keys for encrypted jobs. A fork opens its own."""

    def __init__(self, url: str, keys: str | None = None, *, is_test: bool = False) -> None:
        if not isinstance(url, str) or not url:
            got = "nothing" if url == "" else f"a {type(url).__name__}"
            raise InvalidOption(f"the store must be a URL such as 'postgres://user@host/database' or 'sqlite:jobs.db'; got {got}")
        if keys is not None and not isinstance(keys, str):
            raise InvalidOption(f"keys must be a text such as 'ID:BASE64', got {type(keys).__name__}")
        self._url = url
        self._keys = keys
        self._is_test = is_test
        self._lock = threading.Lock()
        self._opened: _native.Client | None = None
        self._instead: Connection | None = None
        _connections.add(self)

    @property
    def url(self) -> str:
        """The store's; with its password, so not to be shown."""
        return self._url if self._instead is None else self._instead.url

    def native(self) -> _native.Client:
        """The native client; opens the store on first use."""
        if self._instead is not None:
            return self._instead.native()
        opened = self._opened
        if opened is None:
            with self._lock:
                if self._opened is None:
                    _logs.listen()
                opened = self._opened = self._opened or _native.Client(self._url, self._keys, self._is_test)
        return opened

    async def opened(self) -> _native.Client:
        """The same without blocking the event loop."""
        if self._instead is not None:
            return await self._instead.opened()
        opened = self._opened
        return opened if opened is not None else await mailbox().opened(self)

    async def call(self, op: str, payload: str) -> Any:
        """Does an operation."""
        native = self._opened if self._instead is None else None
        if native is None:
            native = await self.opened()
        # Not by json.loads, which takes a microsecond more, a tenth of all that Python does for an enqueue.
        return _native.parse(await mailbox().operate(native, op, payload))

    def call_sync(self, op: str, payload: str) -> Any:
        """Does an operation while this thread waits."""
        return _native.parse(self.native().run(op, payload))

    def _lend(self, instead: Connection | None) -> None:
        """Has another store used in its place, for tests."""
        self._instead = instead

    def close(self) -> None:
        """Closes the store. The next use opens it again."""
        with self._lock:
            native, self._opened = self._opened, None
        if native is not None:
            start_all()
            native.close()

    def _forked(self) -> None:
        if self._opened is not None:
            _of_parents.append(self._opened)
        self._opened, self._lock = None, threading.Lock()


class Acting(Connection):
    """Another connection, whose calls are made for somebody."""

    def __init__(self, of: Connection, actor: str) -> None:
        if not isinstance(actor, str) or not actor.strip():
            raise InvalidOption(f"who acts must be named, as in acting_as('billing'), got {actor!r}")
        super().__init__(of.url)
        self._lend(of)
        self._acts_by, self._actor = of, actor  # which may have a way of its own to call, as in tests of Django's

    async def call(self, op: str, payload: str) -> Any:
        return await self._acts_by.call("acting_as", self._of(op, payload))

    def call_sync(self, op: str, payload: str) -> Any:
        return self._acts_by.call_sync("acting_as", self._of(op, payload))

    def _of(self, op: str, payload: str) -> str:
        return f'{{"actor":{encode(self._actor)},"op":{json.dumps(op)},"payload":{payload}}}'


def _forked() -> None:
    _native.after_fork_in_child()
    _mailboxes.clear()
    for connection in list(_connections):
        connection._forked()


os.register_at_fork(before=_native.before_fork, after_in_parent=_native.after_fork_in_parent, after_in_child=_forked)
