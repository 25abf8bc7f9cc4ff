"""Args and results: JSON on one side, Python's values on the other."""

from __future__ import annotations

import dataclasses
import enum
import json
import json.encoder
import threading
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any, Callable, get_args, get_origin
from uuid import UUID

from . import _no_json
from .errors import InvalidArgs


def _default(value: object) -> object:
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (UUID, Decimal, PurePath)):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return _in_order(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    dump = getattr(value, "model_dump", None)  # pydantic
    if callable(dump):
        return dump(mode="json")
    raise TypeError(f"a {type(value).__name__} has no JSON form; pass plain values, or give the job a model as its args")


def _in_order(values: set[Any] | frozenset[Any]) -> list[Any]:
    """In one order in every process: what is unique by its args, and what was enqueued before, is compared by the text."""
    try:
        return sorted(values)
    except TypeError:  # of several types, or enums
        return sorted(values, key=repr)


_json = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=_default)


def _encoder() -> Callable[[object, int], Iterable[str]]:
    """What ``_json`` makes anew for each text, which is a tenth of what Python does for an enqueue. It knows by a dict whether a list is in itself."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return lambda value, _: _json.encode(value)
    text, like = json.encoder.encode_basestring, _json
    encode: Callable[[object, int], Iterable[str]] = make(
        {}, like.default, text, like.indent, like.key_separator, like.item_separator, like.sort_keys, like.skipkeys, like.allow_nan
    )
    return encode


class _Encoders(threading.local):
    def __init__(self) -> None:
        self.encode = _encoder()


_encoders = _Encoders()


def _text(value: object) -> str:
    try:
        text = "".join(_encoders.encode(value, 0))
    except BaseException:
        _encoders.encode = _encoder()  # the other one may take parts of this value for parts of themselves
        raise
    if not text.isascii():
        text.encode()  # refuses halves of surrogate pairs, which are no text
    return text


def encode(value: object) -> str:
    """The value as JSON."""
    try:
        return _text(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgs(f"no JSON: {_no_json.words(value, error, _text)}") from None


def _is_secret(annotation: Any) -> bool:
    kind = get_origin(annotation) or annotation
    if getattr(kind, "__module__", "") == "pydantic.types" and getattr(kind, "__name__", "") in ("Secret", "SecretStr", "SecretBytes"):
        return True
    return any(_is_secret(part) for part in get_args(annotation))


def _refuse_secrets(model: Any) -> None:
    """What pydantic writes of a secret is stars: the handler would be given these."""
    decorators = getattr(model, "__pydantic_decorators__", None)
    if getattr(decorators, "field_serializers", None) or getattr(decorators, "model_serializers", None):
        return  # it may write its secrets
    for name, field in getattr(model, "model_fields", {}).items():
        written = any(type(note).__name__ in ("PlainSerializer", "WrapSerializer") for note in field.metadata)
        if not written and _is_secret(field.annotation):
            raise InvalidArgs(
                f"{model.__name__}.{name} is a secret, and pydantic writes stars for it: give the field a serializer, "
                "or make it a plain text and the job encrypted=True"
            )


def misfit(error: Exception) -> str:
    """Why args do not fit, in words that show none of them, which may be encrypted: pydantic's own do."""
    if type(error).__module__.split(".")[0] != "pydantic_core":
        return str(error)
    found: Any = error
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'the whole'}: {one['msg']}" for one in found.errors())


class Model:
    """How the args of a job that has a model become one, and the other way round."""

    def __init__(self, model: type) -> None:
        self.model = model
        self.read: Callable[[Any], Any]
        self._write: Callable[[Any], object]
        if hasattr(model, "model_validate_json"):
            _refuse_secrets(model)
            validate: Callable[[str], Any] = model.model_validate_json
            self.read = lambda job: validate(job.args_json)
            self._write = _writer(model)
        elif dataclasses.is_dataclass(model):
            names = [field.name for field in dataclasses.fields(model) if field.init]
            self.read = lambda job: model(**job.args)
            self._write = lambda value: {name: getattr(value, name) for name in names}
        else:
            raise InvalidArgs(f"args={getattr(model, '__name__', repr(model))} is no model: use a pydantic model or a dataclass")

    def check(self, value: object) -> object:
        """What is written of the value, when it is one of the model."""
        if not isinstance(value, self.model):
            raise InvalidArgs(f"the job takes a {self.model.__name__}, got a {type(value).__name__}")
        try:
            return self._write(value)
        except InvalidArgs:
            raise
        except Exception as error:  # of a serializer, which may be the user's
            raise InvalidArgs(f"the {self.model.__name__} cannot be written as JSON: {misfit(error)}") from error


def _writer(model: Any) -> Callable[[Any], object]:
    """Writes a model of pydantic under the names by which it is read."""
    renamed = {}
    for name, field in model.model_fields.items():
        written = field.serialization_alias or name
        read = field.validation_alias or field.alias or name
        if isinstance(read, str) and read != written:
            renamed[written] = read

    def dump(value: Any, by_alias: bool) -> Any:
        dumped = value.model_dump(mode="json", by_alias=by_alias, round_trip=True)
        if by_alias and renamed and isinstance(dumped, dict):
            return {renamed.get(name, name): part for name, part in dumped.items()}
        return dumped

    known: list[bool] = []  # whether aliases are written, once it was tried

    def write(value: Any) -> object:
        if known:
            return dump(value, known[0])
        error: Exception | None = None
        for by_alias in (True, False):  # models inside this one may write names that they do not read
            written = dump(value, by_alias)
            try:
                model.model_validate_json(_json.encode(written))
            except ValueError as refused:
                error = error or refused
            else:
                known.append(by_alias)
                return written
        raise InvalidArgs(f"a {model.__name__} does not read what it writes: {error}")

    return write
