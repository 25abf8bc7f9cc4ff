"""The canonical form of a JSON value, as conformance/README.md says; written for each language anew."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from typing import Any


def canonical(value: Any) -> str:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(name)}:{canonical(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float):
        return _float(value)
    return json.dumps(value, ensure_ascii=False)


def _float(value: float) -> str:
    """As JavaScript writes it: the shortest digits that are read back as the same number."""
    if value == 0:
        return "0"
    sign, numbers, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    minus, digits = "-" * sign, "".join(map(str, numbers))
    point = len(digits) + exponent  # how many digits are before it
    if len(digits) <= point <= 21:
        return minus + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{minus}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    fraction = "." + digits[1:] if digits[1:] else ""
    return f"{minus}{digits[0]}{fraction}e{point - 1:+d}"


def digest(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()
