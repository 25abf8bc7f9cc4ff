"""Errors as text, whatever they are: what cannot be shown is named, and raises nothing. Where one did, its job would run for ever."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any


def shown(error: Any, show: Callable[[Any], str]) -> str:
    """The error as this shows it. Neither the ``__str__`` of an error nor ``traceback`` itself can be trusted: of a ``SyntaxError`` that a program
    made it takes the line's number for one."""
    try:
        return show(error)
    except BaseException:
        return named(error)


def named(error: BaseException) -> str:
    """What is said of one that cannot be shown."""
    return f"{type(error).__name__}, which cannot be shown"


def traced(error: BaseException, frames: int | None = None) -> str:
    """Its traceback: the last so many frames of it, and what was raised."""
    limit = None if frames is None else -frames
    return shown(error, lambda error: "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=limit)))
