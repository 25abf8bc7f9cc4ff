"""What the package has to say, by the program's logging: what goes wrong there costs no job its end."""

from __future__ import annotations

import contextlib
import logging
import traceback


class Teller:
    """Tells by a logger. What its handlers and filters raise, which are the program's, is shown on stderr and goes no further."""

    def __init__(self, logger: logging.Logger) -> None:
        self.logger: logging.Logger = logger

    def info(self, text: str, *args: object) -> None:
        """Tells what is good to know."""
        self._tell(logging.INFO, text, args)

    def warning(self, text: str, *args: object, exc_info: BaseException | None = None) -> None:
        """Tells what somebody should look at, with an error where there is one."""
        self._tell(logging.WARNING, text, args, exc_info)

    def error(self, text: str, *args: object) -> None:
        """Tells what somebody has to mend."""
        self._tell(logging.ERROR, text, args)

    def log(self, level: int, text: str, *args: object) -> None:
        """The same at any level."""
        self._tell(level, text, args)

    def _tell(self, level: int, text: str, args: tuple[object, ...], error: BaseException | None = None) -> None:
        try:
            self.logger.log(level, text, *args, exc_info=error, stacklevel=3)
        except Exception:
            with contextlib.suppress(Exception):  # there is no stderr, or it is closed
                traceback.print_exc()


logger: Teller = Teller(logging.getLogger("windlass"))
