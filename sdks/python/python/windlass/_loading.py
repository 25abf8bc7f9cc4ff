"""Loads the native part, or says what to do when there is none for this interpreter and machine."""

import platform

try:
    from ._native import __version__
except ImportError as error:
    what = "is missing" if isinstance(error, ModuleNotFoundError) else f"does not load ({error})"
    raise ImportError(
        f"the native part of windlass for {platform.system()} {platform.machine()} {what}: install the wheel for this machine "
        "with `pip install --force-reinstall windlass`, or in a checkout build it with `make test-python`"
    ) from error

__all__ = ["__version__"]
