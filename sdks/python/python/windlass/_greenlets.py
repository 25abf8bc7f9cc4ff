"""Whether the threads of this process are real ones."""

from __future__ import annotations

import sys


def patched_by() -> str | None:
    """What has replaced them with greenlets: none of ours may wait outside the interpreter there, since that would stop all others."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and gevent.is_module_patched("threading"):
        return "gevent"
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        return "eventlet"
    return None
