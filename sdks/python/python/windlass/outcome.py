"""What a handler can say of its job besides that it is done. Return one, or raise it from however deep."""

from __future__ import annotations

from typing import Any

from .args import encode
from .duration import Duration, seconds


class Outcome(Exception):
    """The base of all outcomes."""

    def _told(self) -> tuple[str, float | None, str | None]:
        """The word, the seconds and the text that the engine takes."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Outcome) and other._told() == self._told()

    def __hash__(self) -> int:
        return hash(self._told())


class Complete(Outcome):
    """The job is done, with this result. A handler just returns the result; middleware is told this."""

    def __init__(self, result: Any = None) -> None:
        super().__init__(result)
        self.result = result

    def _told(self) -> tuple[str, float | None, str | None]:
        return "complete", None, encode(self.result)


class Retry(Outcome):
    """The attempt failed. It is tried again after this delay, by default that of the job's retry policy, until the attempts are used up."""

    _raised: BaseException | None = None
    """What the handler raised, where that was no outcome and this was made of it."""

    def __init__(self, error: str = "asked for another attempt", *, after: Duration | None = None) -> None:
        super().__init__(error)
        self.error = error
        self.after: float | None = None if after is None else seconds(after, "after", years=100)

    def _told(self) -> tuple[str, float | None, str | None]:
        return "retry", self.after, str(self.error)


class Snooze(Outcome):
    """Not now: run again after this time. Uses up no attempt."""

    def __init__(self, after: Duration) -> None:
        self.after: float = seconds(after, "after", years=100)
        super().__init__(f"again in {self.after:g} s")

    def _told(self) -> tuple[str, float | None, str | None]:
        return "snooze", self.after, None


class Cancel(Outcome):
    """The job is no longer wanted: it ends as cancelled."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def _told(self) -> tuple[str, float | None, str | None]:
        return "cancel", None, str(self.reason)


class Discard(Outcome):
    """The job can never succeed: it ends as discarded, without further attempts."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def _told(self) -> tuple[str, float | None, str | None]:
        return "discard", None, str(self.reason)
