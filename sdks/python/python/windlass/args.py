"""Args and results: JSON on one side, Python's values on the other."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import json.encoder
import threading
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any, Callable
from uuid import UUID

from . import _no_json, _pydantic
from ._same_keys import refuse_same_keys
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
    refuse_same_keys(text)
    if not text.isascii():
        text.encode()  # refuses halves of surrogate pairs, which are no text
    return text


def encode(value: object) -> str:
    """The value as JSON."""
    try:
        return _text(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgs(f"no JSON: {_no_json.words(value, error, _text)}") from None


def _refuse_more(model: type, names: list[str]) -> None:
    """What a dataclass takes and does not keep, such as an InitVar, cannot be given to the handler's."""
    for name, parameter in inspect.signature(model).parameters.items():
        if name not in names and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InvalidArgs(f"{model.__name__}({name}=..) is no field, so a job cannot carry it: make it one, or leave it out")


class Model:
    """How the args of a job that has a model become one, and the other way round."""

    def __init__(self, model: type) -> None:
        self.model = model
        self.read: Callable[[Any], Any]
        self._write: Callable[[Any], object]
        if hasattr(model, "model_validate_json"):
            _pydantic.refuse_secrets(model)
            validate: Callable[[str], Any] = model.model_validate_json
            self.read = lambda job: validate(job.args_json)
            self._write = _pydantic.writer(model)
        elif dataclasses.is_dataclass(model):
            names = [field.name for field in dataclasses.fields(model) if field.init]
            _refuse_more(model, names)
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
            raise InvalidArgs(f"the {self.model.__name__} cannot be written as JSON: {_pydantic.misfit(error)}") from error
