"""What goes wrong, as one class for each kind. Every error of Windlass is a :class:`WindlassError`."""

from __future__ import annotations


class WindlassError(Exception):
    """The base of all errors. Its message says what was wrong, with which value, and what to do."""

    code = "internal"
    """The stable name of the kind, as the command line and the logs write it."""
    retryable = False
    """Whether the same call may succeed later without anybody changing anything."""
    ambiguous = False
    """Whether what was to be written may have been written: the connection broke before the answer."""


class InvalidArgs(WindlassError, ValueError):
    """Args are not JSON, too large, nested too deep, or contain NUL."""

    code = "invalid_args"


class InvalidName(WindlassError, ValueError):
    """A name of a queue, a kind or a schema breaks the rules."""

    code = "invalid_name"


class InvalidOption(WindlassError, ValueError):
    """An option is unknown, malformed or out of range; a store's URL among them."""

    code = "invalid_option"


class UniqueConflict(WindlassError):
    """A unique job that is not to be enqueued twice: another has its key."""

    code = "unique_conflict"


class NotFound(WindlassError, LookupError):
    """The job, queue or schedule does not exist."""

    code = "not_found"


class Unavailable(WindlassError, ConnectionError):
    """The store cannot be reached now. Nothing was changed."""

    code = "unavailable"


class Ambiguous(WindlassError, ConnectionError):
    """The connection broke after a write was sent: it may or may not have happened."""

    code = "ambiguous"


class LeaseLost(WindlassError):
    """The job was taken from this worker: whatever it writes is refused. Roll back."""

    code = "lease_lost"


class SchemaMissing(WindlassError):
    """The store is not migrated yet: run ``windlass --store URL migrate``."""

    code = "schema_missing"


class SchemaTooNew(WindlassError):
    """The store was migrated by a newer version of Windlass."""

    code = "schema_too_new"


class SchemaTooOld(WindlassError):
    """The store has yet to be migrated for this: run ``windlass --store URL migrate``."""

    code = "schema_too_old"


class PermissionDenied(WindlassError, PermissionError):
    """The store's user lacks a privilege."""

    code = "permission_denied"


class StorageFull(WindlassError):
    """The store's disk is full."""

    code = "storage_full"


class Undecryptable(WindlassError):
    """Encrypted data cannot be read here: its key is missing, or it was changed."""

    code = "undecryptable"


class EventsExpired(WindlassError):
    """Events behind the cursor were removed, or the cursor is of another log."""

    code = "events_expired"


class Unsupported(WindlassError, NotImplementedError):
    """The store does not have this capability."""

    code = "unsupported"


class InternalError(WindlassError):
    """A defect in Windlass or a damaged store. Please report it."""


_CLASSES: dict[str, type[WindlassError]] = {
    error.code: error
    for error in (
        InvalidArgs, InvalidName, InvalidOption, UniqueConflict, NotFound, Unavailable, Ambiguous, LeaseLost, SchemaMissing,
        SchemaTooNew, SchemaTooOld, PermissionDenied, StorageFull, Undecryptable, EventsExpired, Unsupported, InternalError,
    )
}  # fmt: skip


# By itself the command would migrate the store of the environment, or a file of its own. Keys are given by another word than in Rust.
_MIGRATE = "run `windlass --store URL migrate` or app.sync.migrate()"
_KEYS = "give it some by App(url, keys=...)"


def error_of(code: str, message: str, *, retryable: bool = False, ambiguous: bool = False) -> WindlassError:
    """The error of a code; the native module raises what this makes."""
    error = _CLASSES.get(code, InternalError)(message.replace("run `windlass migrate`", _MIGRATE).replace("give it some by with_keyring", _KEYS))
    error.code, error.retryable, error.ambiguous = code, retryable, ambiguous
    return error
