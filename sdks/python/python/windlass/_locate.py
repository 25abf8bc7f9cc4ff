"""Finds the app that a command line names, and says what is there instead."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from types import ModuleType, TracebackType
from typing import Any

from .app import App


def load(name: str) -> App:
    """The app of ``module:attribute``; the attribute is ``app`` where none is named."""
    module, _, attribute = name.partition(":")
    if not module:
        raise SystemExit("error: name the app's module, as in windlass worker shop.jobs:app")
    if module.endswith(".py") or "/" in module:
        dotted = module.removesuffix(".py").removeprefix("./").replace("/", ".")
        raise SystemExit(f"error: {module!r} is a file; name the module as an import does: windlass worker {dotted}:{attribute or 'app'}")
    sys.path.insert(0, os.getcwd())
    loaded = _imported(module, attribute)
    found: Any = loaded
    for part in (attribute or "app").split("."):
        found = getattr(found, part, None)
    if not isinstance(found, App):
        raise SystemExit(f"error: {_instead(loaded, module, attribute or 'app', found)}")
    return found


def _imported(module: str, attribute: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(error.name + ".")):
            raise SystemExit(f"error: there is no module {module!r} in {os.getcwd()} or on the path{_as_attribute(module, attribute)}") from None
        failed: Exception = error  # something that the module imports
    except Exception as error:
        failed = error
    _shorten(failed)
    traceback.print_exception(failed)
    raise SystemExit(f"error: the module {module!r} cannot be imported, see above")


def _as_attribute(module: str, attribute: str) -> str:
    """Who writes ``shop.app`` for ``shop:app``."""
    parent, _, last = module.rpartition(".")
    if not parent or attribute:
        return ""
    return f"; for the {last} in the module {parent!r} write windlass worker {parent}:{last}"


def _shorten(error: BaseException) -> None:
    """Leaves out the frames that are no affair of the program's: how we came to import it."""
    ours = (__file__, importlib.__file__)
    at: TracebackType | None = error.__traceback__
    while at is not None and (at.tb_frame.f_code.co_filename in ours or at.tb_frame.f_code.co_filename.startswith("<frozen importlib")):
        at = at.tb_next
    error.__traceback__ = at


def _instead(loaded: ModuleType, module: str, attribute: str, found: Any) -> str:
    apps = [f"{module}:{key}" for key, value in vars(loaded).items() if isinstance(value, App)]
    hint = f"; it has {', '.join(apps)}" if apps else ""
    if found is None:
        return f"{module} has no {attribute!r}{hint or ', and no other windlass.App'}"
    if inspect.isfunction(found):
        return f"{module}:{attribute} is a function, no windlass.App; in the module, write app = {attribute}()"
    kind = type(found).__name__
    return f"{module}:{attribute} is {'an' if kind[0] in 'aeiou' else 'a'} {kind}, no windlass.App{hint}"
