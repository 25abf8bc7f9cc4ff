"""What the parameters of a function say of themselves."""

from __future__ import annotations

import collections.abc
import inspect
import sys
import typing
from typing import Any, Callable

from .context import Context


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """Its signature. From Python 3.14 on names in it are looked up only now, and those that are there for type checkers alone stay names."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def takes_context(function: Callable[..., Any]) -> bool:
    """Whether its first parameter is a ``Context``."""
    return is_context(_first_hint(function))


def is_context(hint: Any) -> bool:
    """Whether a parameter of this type is one."""
    return hint is Context or getattr(hint, "__forward_arg__", hint) in ("Context", "windlass.Context")


def takes_contexts(function: Callable[..., Any]) -> bool:
    """Whether its first parameter is a list of them."""
    hint = _first_hint(function)
    if typing.get_origin(hint) in (list, collections.abc.Sequence):
        return any(map(is_context, typing.get_args(hint)))
    return hint in ("list[Context]", "list[windlass.Context]")


def _first_hint(function: Callable[..., Any]) -> Any:
    return next(iter(hints(function).values()), None)


def hints(function: Callable[..., Any]) -> dict[str, Any]:
    """What is said of each parameter: a type, the text or the name of one that only a type checker can read, or nothing."""
    parameters = signature(function).parameters
    try:
        known = typing.get_type_hints(function)
    except Exception:
        known = {name: one.annotation for name, one in parameters.items() if one.annotation is not one.empty}
    return {name: known.get(name) for name in parameters}
