"""Models of pydantic as args, with others in them: they come back as they were, or are refused."""

import random
from typing import Any

import pytest

pydantic = pytest.importorskip("pydantic")

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
