"""Keys of a dict that JSON cannot tell apart, such as ``1`` and ``"1"``: it has texts alone, and of two that are the same one value is lost."""

from __future__ import annotations

import json
import re
from collections import Counter

# Keys that need not have been texts. No others can be the same, and it costs little to look for one.
_OF_NO_TEXT = re.compile(r'"(?:-?[0-9][0-9.e+-]*|true|false|null)":')


def refuse_same_keys(text: str) -> None:
    """Raises ``ValueError`` where an object of a text that Python has written has two such keys."""
    if _OF_NO_TEXT.search(text):
        json.loads(text, object_pairs_hook=_differ, parse_int=str, parse_float=str)


def _differ(pairs: list[tuple[str, object]]) -> None:
    for name, count in Counter(name for name, _ in pairs).items():
        if count > 1:
            raise ValueError(f"{count} keys are {name!r} as text, which is all that JSON has for keys, so only one of their values would be kept")
