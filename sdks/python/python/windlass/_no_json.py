"""What is said of a value that has no JSON form: where in it the part is that has none, and what to write instead."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

_DEEPEST = 50  # parts of parts that are looked at, so that a circle ends


def words(value: Any, error: Exception, encode: Callable[[Any], object]) -> str:
    """``encode`` raised this error for the value."""
    path, part = _culprit(value, encode, _DEEPEST)
    what = _of(part, error)
    return f"{path.lstrip('.')}: {what}" if path else what


def _culprit(value: Any, encode: Callable[[Any], object], depth: int) -> tuple[str, Any]:
    """The innermost part that cannot be encoded, and its place. A list of one, as of the args of one job, is no place."""
    for place, part in _parts(value):
        try:
            encode(part)
        except (TypeError, ValueError, RecursionError):
            if depth == 0:
                return "", value
            path, culprit = _culprit(part, encode, depth - 1)
            return place + path, culprit
    return "", value


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f".{name}", part) for name, part in value.items())
    elif isinstance(value, (list, tuple)):
        yield from (("" if len(value) == 1 else f"[{at}]", part) for at, part in enumerate(value))
    elif isinstance(value, (set, frozenset)):
        yield from (("", part) for part in value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((f".{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value))


def _of(part: Any, error: Exception) -> str:
    kind = type(part).__name__
    if isinstance(part, float):
        return f"{part} has no JSON form; write None or a text"
    if isinstance(part, str):
        return "half of a surrogate pair is no text"
    if isinstance(part, (bytes, bytearray, memoryview)):
        return "bytes have no JSON form; write a text, as base64.b64encode(value).decode() makes one"
    if inspect.isawaitable(part):
        return f"a {kind} has no JSON form; await it first"
    if isinstance(part, Iterable) and not isinstance(part, (dict, list, tuple, type)):
        return f"a {kind} has no JSON form; write {'dict' if isinstance(part, Mapping) else 'list'}(...) of it"
    return str(error)
