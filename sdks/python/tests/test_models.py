"""Models of pydantic as args, with others in them: they come back as they were, or are refused."""

import dataclasses
import random
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, NewType

import pytest

pydantic = pytest.importorskip("pydantic")

from typing_extensions import TypeAliasType, TypedDict  # noqa: E402  (comes with pydantic)

from windlass.args import Model  # noqa: E402
from windlass.errors import InvalidArgs  # noqa: E402

BaseModel: Any = pydantic.BaseModel
Camel = pydantic.ConfigDict(alias_generator=lambda name: name.replace("_n", "N").replace("_t", "T").replace("_i", "I"), populate_by_name=True)


class Item(BaseModel):
    model_config = Camel
    item_name: str
    tags: set[str]
    of_names: dict[str, list[frozenset[int]]] = {"alias": []}


class Order(BaseModel):
    model_config = Camel
    order_id: int
    items: list[Item]


def test_sets_in_lists_of_models_come_back_in_any_order() -> None:
    model = Model(Order)

    def some() -> set[str]:
        return {f"tag{random.randrange(1_000)}" for _ in range(random.randrange(2, 8))}

    for n in range(300):
        items = [Item(item_name="a", tags=some(), of_names={"x": [frozenset(map(len, some())), frozenset(range(0, 90, n % 9 + 1))]}) for _ in range(3)]
        order = Order(order_id=n, items=items)
        written: Any = model.check(order)
        assert Order(**written) == order and written["orderId"] == n
    with pytest.raises(InvalidArgs, match="takes a Order"):
        model.check({})


class Inner(BaseModel):
    street: str = pydantic.Field(default="?", validation_alias="in_street", serialization_alias="out_street")


class Login(BaseModel):
    password: pydantic.SecretStr


class Open(BaseModel):
    password: Annotated[pydantic.SecretStr, pydantic.PlainSerializer(lambda secret: secret.get_secret_value())]


def shapes(of: Any) -> dict[str, Any]:
    """What may be in a model, each with one field of this type."""
    plain = dataclasses.make_dataclass("Plain", [("inner", of)])
    typed: Any = TypedDict("Typed", {"inner": of})  # type: ignore[misc]
    named: Any = NamedTuple("Named", [("inner", of)])  # type: ignore[misc]
    alias: Any = TypeAliasType("Alias", dict[str, of])  # type: ignore[valid-type]
    new: Any = NewType("New", of)  # type: ignore[valid-newtype]
    return {"Plain": plain, "Typed": typed, "Named": named, "Alias": alias, "New": new, "Sequence": Sequence[plain], "Maybe": list[typed | None]}


def outer(of: Any) -> Any:
    return pydantic.create_model("Outer", x=(of, ...))


def given(name: str, kind: Any, value: Any) -> Any:
    """A value of a shape."""
    plain = {"Alias": lambda: {"a": value}, "New": lambda: value, "Named": lambda: kind(value), "Plain": lambda: kind(value), "Typed": lambda: {"inner": value}}
    return plain[name]() if name in plain else [{"inner": value}]


@pytest.mark.parametrize("name", shapes(int))
def test_a_model_that_does_not_read_what_it_writes_is_refused_in_whatever_it_is(name: str) -> None:
    kind = shapes(Inner)[name]
    made = outer(kind)
    model = Model(made)
    with pytest.raises(InvalidArgs, match="a Outer does not read what it writes"):
        model.check(made(x=given(name, kind, Inner(in_street="Main"))))
    # What is written as it is read comes back, in whichever value, and is tried in each.
    made = outer(kind | None)
    model = Model(made)
    assert model.check(made(x=None)) == {"x": None}
    with pytest.raises(InvalidArgs, match="a Outer does not read what it writes"):
        model.check(made(x=given(name, kind, Inner(in_street="Main"))))


@pytest.mark.parametrize("name", shapes(int))
def test_a_secret_is_refused_in_whatever_it_is(name: str) -> None:
    for of, place in ((Login, "Login.password"), (pydantic.SecretStr, "")):
        with pytest.raises(InvalidArgs, match=rf"{place}.* is a secret, and pydantic writes stars for it"):
            Model(outer(shapes(of)[name]))
    kind = shapes(Open)[name]
    made = outer(kind)
    written: Any = Model(made).check(made(x=given(name, kind, Open(password="hunter2"))))
    assert "hunter2" in str(written) and "*" not in str(written)


class Node(BaseModel):
    children: list["Node"] = []
    token: pydantic.SecretStr | None = None


class Wrapped(BaseModel):
    login: Annotated[Login, pydantic.PlainSerializer(lambda login: {"password": login.password.get_secret_value()})]


class Key(pydantic.SecretStr):  # type: ignore[misc, name-defined]
    """A secret of the user's."""


def test_secrets_are_told_from_what_a_serializer_writes() -> None:
    with pytest.raises(InvalidArgs, match="Node.token is a secret"):
        Model(Node)
    with pytest.raises(InvalidArgs, match="Outer.x is a secret"):
        Model(outer(list[Key]))
    assert Model(Wrapped).check(Wrapped(login=Login(password="hunter2"))) == {"login": {"password": "hunter2"}}


class Later(BaseModel):
    inner: "list[Known] | None" = None


def test_a_model_of_types_that_come_later_is_looked_at_when_they_are_there() -> None:
    model = Model(Later)
    Later.model_rebuild(_types_namespace={"Known": Login})
    with pytest.raises(InvalidArgs, match="Login.password is a secret"):
        model.check(Later())
