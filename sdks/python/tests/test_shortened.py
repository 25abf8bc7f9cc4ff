"""Errors that are longer than a store keeps."""
from __future__ import annotations

import re

from windlass.handler import _HEAD, _TAIL, _shortened

SECRET = "hunter2-päss"


def test_a_word_is_kept_whole_or_left_out_wherever_a_text_is_cut() -> None:
    for offset in range(len(SECRET.encode()) + 2):
        for space in (" ", "\n"):
            begin = "x" * (_HEAD - offset - 1) + space + SECRET + space
            end = space + SECRET + space + "y" * (_TAIL - offset - 1)
            text = (begin + "z" * 5_000 + end).encode()
            # What the server looks for: Limits::left_out of crate windlass-core.
            head, left_out, tail = re.fullmatch(r"(?s)(.*)\n\[(\d+) bytes are left out\]\n(.*)", _shortened(text)).groups()  # type: ignore[union-attr]
            assert len(head.encode()) + int(left_out) + len(tail.encode()) == len(text)
            assert all(part.count("hunt") == part.count("päss") == part.count(SECRET) for part in (head, tail)), offset


def test_a_text_without_words_is_cut_where_it_must_be() -> None:
    text = "ä" * 10_001
    assert _shortened(text.encode()) == "ä" * 5_000 + "\n[4002 bytes are left out]\n" + "ä" * 3_000
    assert _shortened(b"x" * (_HEAD + _TAIL)) == "x" * (_HEAD + _TAIL)
