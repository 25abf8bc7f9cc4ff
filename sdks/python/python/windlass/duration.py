"""Lengths of time as people write them."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Union

from .errors import InvalidOption

Duration = Union[timedelta, float, int, str]
"""A ``timedelta``, a number of seconds, or a text such as ``"90s"``, ``"5m"``, ``"1h30m"``, ``"2d"``."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_YEAR = 366 * 86400.0
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|w)")


def seconds(value: Duration, name: str, *, years: int = 1000) -> float:
    """The length in seconds, of at most so many years; ``name`` is what an error calls it."""
    if isinstance(value, timedelta):
        length = value.total_seconds()
    elif isinstance(value, str):
        length = _parsed(value, name)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        length = float(value)
    else:
        raise InvalidOption(f"{name} must be a timedelta, a number of seconds or a text such as '5m', got {value!r}")
    if not math.isfinite(length):
        raise InvalidOption(f"{name} must be a finite length of time, got {value!r}")
    if length < 0:
        raise InvalidOption(f"{name} must not be negative, got {value!r}")
    if length > years * _YEAR:
        raise InvalidOption(f"{name} must be at most {years} years, got {value!r}")
    return length


def millis(value: Duration, name: str) -> int:
    """The length in whole milliseconds; what is shorter than one is one."""
    length = seconds(value, name)
    return math.ceil(length * 1000 - 1e-6) if length else 0


def _parsed(text: str, name: str) -> float:
    total, at = 0.0, 0
    for part in _PART.finditer(text):
        if part.start() != at:
            break
        total += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    if at == 0 or text[at:].strip():
        raise InvalidOption(f"{name} must be a length of time such as '90s', '5m' or '1h30m', got {text!r}")
    return total
