"""The function of a job: how args reach it, and what becomes of what it returns or raises."""

from __future__ import annotations

import asyncio
import inspect
import typing
from typing import Any, Callable

from . import _native
from ._pydantic import misfit
from ._shown import named, shown, traced
from ._signatures import hints, is_context, signature, takes_context, takes_contexts
from ._telling import logger
from .args import Model, encode
from .context import Context
from .errors import InvalidArgs, InvalidOption
from .options import OPTIONS
from .outcome import Complete, Discard, Outcome, Retry

_FRAMES = 10  # of a traceback that is kept with the job
_HEAD, _TAIL = 10_000, 6_000  # bytes of a text that is longer than a store keeps: at its end stands what was raised, behind its causes
_NEAR = 256  # so near where a text is cut a line ends, or else a word, it is cut there


def refuse_odd(function: Any, what: str) -> None:
    """Refuses what is no function, or one that would not run when it is called."""
    if not callable(function) or not inspect.isroutine(function):
        kind = type(function).__qualname__
        raise InvalidOption(f"{what} takes a function, got a {kind}; where it is to call something else, decorate a function that does")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        name = function.__qualname__
        raise InvalidOption(f"{name} is a generator function, which runs only while somebody takes what it yields: {what} takes one that returns")


class AnyHandler:
    """How the function of ``@app.handle_any`` is called."""

    def __init__(self, function: Callable[[Context, Any], Any]) -> None:
        refuse_odd(function, "@app.handle_any")
        self.function = function
        self.is_async: bool = inspect.iscoroutinefunction(function)
        try:
            signature(function).bind(None, None)
        except TypeError:
            raise InvalidOption(f"{function.__qualname__} handles jobs of any kind, so it takes a Context and the args, whatever these are") from None

    def call(self, job: _native.Job, context: Context) -> Any:
        """Calls it; a coroutine of an async one."""
        return self.function(context, job.args)


class Handler:
    """How a job's function is called."""

    def __init__(self, function: Callable[..., Any], model: type | None, is_batch: bool) -> None:
        self.function = function
        self.is_async: bool = inspect.iscoroutinefunction(function)
        self.is_batch = is_batch
        self.model: Model | None = None if model is None else Model(model)
        self.takes_context: bool = takes_contexts(function) if is_batch else takes_context(function)
        self.names: frozenset[str] = frozenset()
        self.needed: frozenset[str] = frozenset()
        self.signature: inspect.Signature = inspect.Signature()
        if not is_batch:
            self._read_signature(function)
        elif self.takes_context and len(signature(function).parameters) < 2:
            raise InvalidOption(f"{function.__qualname__} takes the contexts of several jobs, and behind them it must take the list of their args")

    def _read_signature(self, function: Callable[..., Any]) -> None:
        parameters = list(signature(function).parameters.values())
        if self.takes_context and parameters[0].kind is parameters[0].KEYWORD_ONLY:
            raise InvalidOption(f"{function.__qualname__}: the Context is handed in by its place, so {parameters[0].name} must stand before the *")
        parameters = parameters[self.takes_context :]
        said = hints(function)
        late = next((one.name for one in parameters if is_context(said[one.name])), None)
        if late is not None:
            raise InvalidOption(f"{function.__qualname__}: the Context is handed in as the first parameter, so {late} must stand there")
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
                raise InvalidOption(f"{function.__qualname__}: args have names, so the parameter {parameter} cannot be one of them")
        self.signature = inspect.Signature(parameters)
        self.names = frozenset(p.name for p in parameters if p.kind is not p.VAR_KEYWORD)
        self.needed = frozenset(p.name for p in parameters if p.default is p.empty and p.name in self.names)

    def args_of(self, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
        """The args of a job to be enqueued, of how its function would be called."""
        if self.model is not None:
            if len(args) != 1 or given:
                raise InvalidArgs(f"the job takes one {self.model.model.__name__}")
            return self.model.check(args[0])
        if self.is_batch and not args:
            return given
        if not args and self.needed <= given.keys() <= self.names:
            return given
        if self.is_batch:
            raise InvalidArgs(f"{self.function.__qualname__} takes several jobs, so the args of one are named")
        try:
            bound = self.signature.bind(*args, **given)
        except TypeError as error:
            raise InvalidArgs(f"{self.function.__qualname__} takes {self.signature}: {error}{self._hint(given)}") from None
        return {name: value for name, value in _flat(bound)}

    def _hint(self, given: dict[str, Any]) -> str:
        first = next(iter(self.signature.parameters.values()), None)
        if first is not None and first.name in ("ctx", "context") and first.annotation is first.empty and first.name not in given:
            return f"; the job's Context is handed in where the parameter says so: {first.name}: Context"
        options = [f"{name}=..." for name in given if name in OPTIONS and name not in self.names]
        if not options:
            return ""
        return f"; options of a job stand before its args: {self.function.__name__}.with_options({', '.join(options)}).enqueue(...)"

    def call(self, job: _native.Job, context: Context) -> Any:
        """Calls the function; a coroutine of an async one. Raises ``Discard`` for args that do not fit: they never will."""
        if self.model is not None:
            return self._call_with_model(self.model, job, context)
        args = job.args
        try:
            return self.function(context, **args) if self.takes_context else self.function(**args)
        except TypeError as error:
            if self._fits(args):
                raise  # the function's own
            raise unfit(job, f"{self.function.__qualname__} takes {self.signature}: {error}") from error

    def call_batch(self, contexts: list[Context], args: list[Any]) -> Any:
        """Calls the function of a batch; a coroutine of an async one."""
        return self.function(contexts, args) if self.takes_context else self.function(args)

    def _fits(self, args: Any) -> bool:
        try:
            self.signature.bind(**args)
        except TypeError:
            return False
        return True

    def _call_with_model(self, model: Model, job: _native.Job, context: Context) -> Any:
        try:
            value = model.read(job)
        except Exception as error:
            raise unfit(job, shown(error, misfit)) from error
        return self.function(context, value) if self.takes_context else self.function(value)


def _flat(bound: inspect.BoundArguments) -> Any:
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            yield from value.items()
        else:
            yield name, value


def unfit(job: _native.Job, why: str) -> Discard:
    """What becomes of a job whose args do not fit: they never will. Told here, since no handler is there that could tell."""
    logger.warning("job %d (%s) is discarded: the args do not fit: %s", job.id, job.kind, why)
    return Discard(f"the args do not fit: {why}")


Ended = tuple[str, typing.Optional[float], typing.Optional[str]]
"""What became of a job, as the engine takes it; ``None`` where it completed without a result."""


def returned(value: Any, name: str) -> Ended | None:
    """What a handler's return says."""
    if value is None:
        return None
    value = awaited(value, name)
    if isinstance(value, Complete):
        value = value.result
        if value is None:
            return None
    elif isinstance(value, Outcome):
        return value._told()
    try:
        return "complete", None, encode(value)
    except InvalidArgs as error:
        return Discard(f"what {name} returned cannot be stored: {error}")._told()


def awaited(value: Any, name: str) -> Any:
    """The same value, or what says that nobody awaits it."""
    kind = type(value).__name__
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        return Retry(f"{name} returned a {kind}, from which nobody takes anything: return a list of what it yields")
    if not inspect.isawaitable(value):
        return value
    if inspect.iscoroutine(value):
        value.close()
    return Retry(f"{name} is no async function and returned a {kind}: make it async, or await that")


def each_of(value: Any, count: int, kind: str) -> list[Any]:
    """What the return of a batch's function says of each of its jobs; of all the same where it says nothing, or what it must not."""
    if value is None:
        return [None] * count
    if isinstance(value, (list, tuple)) and len(value) == count:
        return list(value)
    got = f"{len(value)}" if isinstance(value, (list, tuple)) else f"a {type(value).__name__}"
    return [Retry(f"{kind} must return None, or a list of one outcome for each of {count} jobs; got {got}")] * count


_observer: Callable[[BaseException], None] | None = None


def observe(observer: Callable[[BaseException], None] | None) -> Callable[[BaseException], None] | None:
    """Has somebody told of what handlers raise, for tests; gives who was told before."""
    global _observer
    before, _observer = _observer, observer
    return before


def failure(error: BaseException) -> Ended:
    """What became of a job whose handler raised this."""
    if isinstance(error, Outcome):
        try:
            return error._told()
        except Exception as cause:  # of a class of the user's own
            return "retry", None, f"{type(error).__name__} does not say what becomes of the job: {shown(cause, repr)}"
    text = traced(error, _FRAMES)
    return "retry", None, text if len(text) * 4 <= _HEAD + _TAIL else _shortened(text.encode(errors="replace"))


def _shortened(text: bytes) -> str:
    """Both ends of a text. Who shows errors without secrets looks for what says so between them: `Limits::left_out` of crate windlass-core."""
    head, tail = _HEAD, len(text) - _TAIL
    if tail <= head:
        return text.decode(errors="ignore")
    ends = (b"\n", b" ")
    head = next((at for end in ends if (at := text.rfind(end, head - _NEAR, head)) >= 0), head)
    tail = next((at + 1 for end in ends if (at := text.find(end, tail, tail + _NEAR)) >= 0), tail)
    return b"".join([text[:head], b"\n[%d bytes are left out]\n" % (tail - head), text[tail:]]).decode(errors="ignore")


def raised(error: BaseException, job: _native.Job) -> Ended:
    """The same, and tells of it."""
    ended = failure(error)
    if not isinstance(error, Outcome):
        if _observer is not None:
            _observer(error)
        if ended[2] == named(error):  # what cannot be shown logging cannot show either
            logger.warning("job %d (%s) failed in attempt %d: %s", job.id, job.kind, job.attempt, ended[2])
        else:
            logger.warning("job %d (%s) failed in attempt %d", job.id, job.kind, job.attempt, exc_info=error)
    return ended


def is_thrown_away(error: BaseException, loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this is the end of a coroutine that nobody runs any more: its event loop was closed under it, and its job goes back with the worker.
    While that loop runs, a handler has raised it."""
    return isinstance(error, GeneratorExit) and asyncio._get_running_loop() is not loop


class FailedElsewhere(Exception):
    """What a handler raised in a child process, as text."""


def failed_elsewhere(text: str, job: _native.Job) -> None:
    """Tells of what a handler raised in a child process."""
    if _observer is not None:
        _observer(FailedElsewhere(text))
    logger.warning("job %d (%s) failed in attempt %d, in a child process\n%s", job.id, job.kind, job.attempt, text.rstrip())
