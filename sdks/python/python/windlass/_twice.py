"""A program whose file is also imported as a module: what Python makes of it twice is there twice."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def twice() -> str | None:
    """Says it where the program's file is also imported as a module: what decorates there makes jobs of another app."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if file is None:
        return None
    for name, module in list(sys.modules.items()):
        other = getattr(module, "__file__", None)
        if module is not main and isinstance(other, str) and os.path.realpath(other) == os.path.realpath(file):
            return f"{Path(file).name} runs as __main__ and was imported as {name!r}, too, so there are two apps: move the app into a module that both import"
    return None
