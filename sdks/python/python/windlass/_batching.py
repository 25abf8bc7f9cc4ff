"""How many jobs of a kind run in one call."""

from __future__ import annotations

from typing import NamedTuple

from .duration import Duration, millis
from .errors import InvalidOption

_MOST = 10_000
_LONGEST = 600_000


class Batching(NamedTuple):
    """Up to ``max_size`` jobs run in one call; the first of them waits this long for others."""

    max_size: int
    wait_ms: int

    @staticmethod
    def checked(max_size: int, wait: Duration) -> Batching:
        """What the user gave."""
        if not isinstance(max_size, int) or isinstance(max_size, bool) or not 1 <= max_size <= _MOST:
            raise InvalidOption(f"max_size must be 1 to {_MOST}, got {max_size!r}")
        wait_ms = millis(wait, "wait")
        if wait_ms > _LONGEST:
            raise InvalidOption(f"wait must be at most 10 minutes, since others could run the jobs meanwhile; got {wait!r}")
        return Batching(max_size, wait_ms)
