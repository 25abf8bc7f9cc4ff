"""Loads the native part, or says what to do when there is none for this interpreter and machine."""

from __future__ import annotations

import importlib
import platform
import sysconfig
from typing import Any

VERSION = "0.1.0"
"""That of the package, which its native part has to have, too."""


def _is_in_subinterpreter() -> bool:
    for name in ("_interpreters", "_xxsubinterpreters"):  # from Python 3.13 on, and before
        try:
            interpreters: Any = importlib.import_module(name)
        except ImportError:
            continue
        return bool(interpreters.get_current() != interpreters.get_main())
    return False


if _is_in_subinterpreter():
    raise ImportError(
        "windlass does not work in subinterpreters: import it in the main one (of mod_wsgi: WSGIApplicationGroup %{GLOBAL}); jobs that need "
        "interpreters of their own can run in child processes (process=True)"
    )

try:
    from ._native import __version__
except ImportError as error:
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise ImportError(f"for free-threaded Python there is no windlass yet: use a Python with the GIL ({platform.python_version()} has one, too)") from error
    what = "is missing" if isinstance(error, ModuleNotFoundError) else f"does not load ({error})"
    raise ImportError(
        f"the native part of windlass for {platform.system()} {platform.machine()} {what}: install the wheel for this machine "
        "with `pip install --force-reinstall windlass`, or in a checkout build it with `make test-python`"
    ) from error

if __version__ != VERSION:
    raise ImportError(
        f"the package windlass is version {VERSION} and its native part is version {__version__}: install both of one version, "
        "with `pip install --force-reinstall windlass`, and start anew what ran meanwhile"
    )

__all__ = ["__version__"]
