"""Models of pydantic as args: what is written of one is read as the same, or refused."""

from __future__ import annotations

import json
from typing import Any, Callable

from .errors import InvalidArgs


def misfit(error: Exception) -> str:
    """Why args do not fit, in words that show none of them, which may be encrypted: pydantic's own do."""
    if type(error).__module__.split(".")[0] != "pydantic_core":
        return str(error)
    found: Any = error
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'the whole'}: {one['msg']}" for one in found.errors())


def _schema(model: Any) -> Any:
    """What pydantic made of a model and all that is in it, of whatever kind: models, dataclasses, typed dictionaries, named tuples, aliases of types.
    None where it cannot yet, as while a type of it is to be defined."""
    try:
        return dict(model.__pydantic_core_schema__)
    except Exception:  # of pydantic's, which has several
        return None


# What is in a schema that are no schemas: values of the user's, and what is made of models but written for nobody.
_NO_SCHEMA = {"metadata", "config", "default", "expected", "members", "custom_error_context", "computed_fields"}


def _has_aliases(schema: Any) -> bool:
    """Whether anything in it may be written under another name than it is read by."""
    if isinstance(schema, (list, tuple)):
        return any(map(_has_aliases, schema))
    if not isinstance(schema, dict):
        return False
    if any(isinstance(schema.get(name), (str, list)) for name in ("validation_alias", "serialization_alias", "alias")):
        return True
    return any(_has_aliases(part) for name, part in schema.items() if name not in _NO_SCHEMA)


class _Secrets:
    """Looks for a secret of which pydantic writes stars, and no serializer of the user's something else."""

    def __init__(self) -> None:
        self._defined: dict[str, Any] = {}
        self._followed: set[str] = set()

    def find(self, schema: Any, owner: str, place: str) -> str | None:
        """Where it is, if there is one. The owner is the type that the place is in."""
        if isinstance(schema, (list, tuple)):
            places = (f"{owner}.{part['name']}" if isinstance(part, dict) and "name" in part else place for part in schema)
            return next(filter(None, (self.find(part, owner, where) for part, where in zip(schema, places, strict=True))), None)
        if not isinstance(schema, dict):
            return None
        serializer = schema.get("serialization")
        function = serializer.get("function") if isinstance(serializer, dict) else None
        module = getattr(function, "__module__", None) or ""
        if module == "pydantic.types" and "secret" in getattr(function, "__qualname__", "").lower():
            return place
        if function is not None and module.split(".")[0] != "pydantic":
            return None  # it may write what is in this, too
        if schema.get("type") == "definitions":
            self._defined.update({part["ref"]: part for part in schema["definitions"]})
            return self.find(schema["schema"], owner, place)
        if schema.get("type") == "definition-ref":
            name = schema["schema_ref"]
            if name in self._followed:
                return None
            self._followed.add(name)
            return self.find(self._defined.get(name), owner, place)
        owner = getattr(schema.get("cls"), "__name__", owner)
        parts = [part for name, part in schema.items() if name not in _NO_SCHEMA]
        fields = schema.get("fields")
        if isinstance(fields, dict):
            parts = [part for part in parts if part is not fields]
            parts.extend({**field, "name": name} for name, field in fields.items())
        return self.find(parts, owner, place)


def refuse_secrets(model: Any) -> None:
    """What pydantic writes of a secret is stars: the handler would be given these."""
    place = _Secrets().find(_schema(model), model.__name__, model.__name__)
    if place is not None:
        raise InvalidArgs(
            f"{place} is a secret, and pydantic writes stars for it: give the field a serializer, or make it a plain text and the job encrypted=True"
        )


def _names(name: str, field: Any) -> tuple[str, str, Any]:
    """A field's own name, and those under which it is written and read by alias."""
    read = field.validation_alias or field.alias or name
    choices = getattr(read, "choices", None)  # of AliasChoices
    return name, field.serialization_alias or name, choices[0] if choices else read


def _in_one_order(value: Any) -> Any:
    """A value of JSON with its lists in one order, at any depth: some of them are sets, which come back in another one."""
    if isinstance(value, dict):
        return {name: _in_one_order(part) for name, part in value.items()}
    if isinstance(value, list):
        return sorted(map(_in_one_order, value), key=lambda part: json.dumps(part, sort_keys=True))
    return value


def _difference(one: Any, other: Any, place: str) -> str | None:
    """Where two values of JSON differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in one.keys() | other.keys():
            if name not in one or name not in other:
                return f"{place}.{name}"
            if (found := _difference(one[name], other[name], f"{place}.{name}")) is not None:
                return found
        return None
    return None if one == other else place


def writer(model: Any) -> Callable[[Any], object]:
    """Writes a model of pydantic under the names by which it is read."""
    names = [_names(name, field) for name, field in model.model_fields.items()]
    # By which aliases models inside this one are written, which may not be those that they read; and what this one's fields are called instead.
    forms: list[tuple[bool, dict[str, str]]] = [
        (True, {written: read for _, written, read in names if isinstance(read, str) and read != written}),
        (False, {name: read for name, _, read in names if isinstance(read, str) and read != name}),
        (False, {}),
    ]
    # Each value is tried where a name may be written that is not read: a model that is not in this value may be in the next one.
    has_aliases = True
    has_read = False

    def dump(value: Any, form: tuple[bool, dict[str, str]]) -> Any:
        by_alias, renamed = form
        dumped = value.model_dump(mode="json", by_alias=by_alias, round_trip=True)
        if renamed and isinstance(dumped, dict):
            return {renamed.get(name, name): part for name, part in dumped.items()}
        return dumped

    def write(value: Any) -> object:
        nonlocal has_read, has_aliases
        if not has_read:  # types that were still to be defined are there by now
            refuse_secrets(model)
            schema = _schema(model)
            has_aliases = schema is None or _has_aliases(schema)
        if has_read and not has_aliases:
            return dump(value, forms[0])
        why: str | None = None
        for form in forms:
            written = dump(value, form)
            try:
                read = model.model_validate_json(json.dumps(written, allow_nan=False))
            except ValueError as refused:
                why = why or misfit(refused)
                continue
            place = _difference(_in_one_order(written), _in_one_order(dump(read, form)), model.__name__) if has_aliases else None
            if place is None:
                has_read = True
                return written
            why = why or f"{place} comes back as another value; give the field one name for both, by alias="
        raise InvalidArgs(f"a {model.__name__} does not read what it writes: {why}")

    return write
