"""Models of pydantic as args: what is written of one is read as the same, or refused."""

from __future__ import annotations

import json
from typing import Any, Callable, get_args, get_origin

from .errors import InvalidArgs


def misfit(error: Exception) -> str:
    """Why args do not fit, in words that show none of them, which may be encrypted: pydantic's own do."""
    if type(error).__module__.split(".")[0] != "pydantic_core":
        return str(error)
    found: Any = error
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'the whole'}: {one['msg']}" for one in found.errors())


def _models(annotation: Any, found: dict[type, dict[str, Any]]) -> dict[type, dict[str, Any]]:
    """The fields of the model, and of each in it: models, and dataclasses of pydantic."""
    fields = getattr(annotation, "model_fields", None) or getattr(annotation, "__pydantic_fields__", None)
    if isinstance(annotation, type) and isinstance(fields, dict) and annotation not in found:
        found[annotation] = fields
        for field in fields.values():
            _models(field.annotation, found)
    for part in get_args(annotation):
        _models(part, found)
    return found


def _is_secret(annotation: Any) -> bool:
    kind = get_origin(annotation) or annotation
    if getattr(kind, "__module__", "") == "pydantic.types" and getattr(kind, "__name__", "") in ("Secret", "SecretStr", "SecretBytes"):
        return True
    return any(_is_secret(part) for part in get_args(annotation))


def _writes_itself(model: Any) -> bool:
    decorators = getattr(model, "__pydantic_decorators__", None)
    return bool(getattr(decorators, "field_serializers", None) or getattr(decorators, "model_serializers", None))


def refuse_secrets(model: Any) -> None:
    """What pydantic writes of a secret is stars: the handler would be given these."""
    if _writes_itself(model):
        return  # it may write those of the models in it, too
    for part, fields in _models(model, {}).items():
        for name, field in () if _writes_itself(part) else fields.items():
            written = any(type(note).__name__ in ("PlainSerializer", "WrapSerializer") for note in field.metadata)
            if not written and _is_secret(field.annotation):
                raise InvalidArgs(
                    f"{part.__name__}.{name} is a secret, and pydantic writes stars for it: give the field a serializer, "
                    "or make it a plain text and the job encrypted=True"
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
    has_aliases = any(part != name for fields in _models(model, {}).values() for name, field in fields.items() for part in _names(name, field))
    has_read = False

    def dump(value: Any, form: tuple[bool, dict[str, str]]) -> Any:
        by_alias, renamed = form
        dumped = value.model_dump(mode="json", by_alias=by_alias, round_trip=True)
        if renamed and isinstance(dumped, dict):
            return {renamed.get(name, name): part for name, part in dumped.items()}
        return dumped

    def write(value: Any) -> object:
        nonlocal has_read
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
