"""What is read of the store's JSON equals what ``json.loads`` reads."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from windlass._native import parse

TEXTS = [
    "null", "true", "0", "-0", "-1", "9007199254740993", "18446744073709551615", "18446744073709551616", "-9223372036854775809", "1e400",
    "1.0", "0.1", "1e22", "123456789012345.678901", '""', '"\\u00e4\\n\\ud83d\\ude00"', '"\\u2028"', "[]", "{}", '{"a":1,"a":2}',
    '{"__proto__":[{}]}', "[" * 100 + "]" * 100, "[" * 200 + "]" * 200, " [ 1 , 2 ] ",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_it_reads_as_json_loads_does(text: str) -> None:
    expected = json.loads(text)
    assert repr(parse(text)) == repr(expected)


@pytest.mark.parametrize("text", ["", "{", "[1,]", "1 2", "nul"])
def test_what_is_no_json_is_refused_as_there(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        parse(text)


def test_random_values_come_back() -> None:
    chance = random.Random(7)

    def value(depth: int) -> Any:
        how = chance.randrange(8 if depth else 6)
        if how == 0:
            return chance.choice([None, True, False])
        if how in (1, 2):
            return chance.randrange(-(2**70), 2**70) >> chance.randrange(72)
        if how == 3:
            return chance.uniform(-1, 1) * 10 ** chance.randrange(-300, 300)
        if how < 6:
            return "".join(chr(chance.choice([chance.randrange(32, 127), chance.randrange(0xD7FF), chance.randrange(0x10000, 0x110000)])) for _ in range(chance.randrange(8)))
        if how == 6:
            return [value(depth - 1) for _ in range(chance.randrange(5))]
        return {str(value(0)): value(depth - 1) for _ in range(chance.randrange(5))}

    for _ in range(2_000):
        expected = value(4)
        text = json.dumps(expected, ensure_ascii=chance.random() < 0.5)
        assert repr(parse(text)) == repr(json.loads(text)), text
