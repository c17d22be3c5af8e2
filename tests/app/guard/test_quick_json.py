"""JSON without `json`: the same values, texts and errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relay import guard_cli
from relay.app.guard import quick_json

TEXTS = [
    '{"a": [1, -2.5e3, null, true, false], "b": {"\\u00e9": "\\ud83d\\ude00 \\ud800"}}',
    " [] \n",
    '"\U0001f600"',
    "12",
    "[NaN, Infinity, -Infinity]",
]
WRONG = ["", "{", "[1,]", "1 2", "nul", '{"a" 1}', '"\x01"', "\ufeff{}", "[" * 100_000]
VALUES: list[Any] = [
    {"a": [1, 2.5, None, True, "\u00e9\ud800\n"], "b": {}},
    [],
    "x",
    1e308,
    {"1": float("inf")},
]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_read_is_what_json_reads(text: str) -> None:
    assert repr(quick_json.loads(text)) == repr(json.loads(text))
    assert repr(quick_json.loads(text.encode())) == repr(json.loads(text))


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_json_is_the_same_error(text: str) -> None:
    """In a process that has not loaded `json` before."""
    with pytest.raises((ValueError, RecursionError)) as said:
        json.loads(text)
    asks = f"import sys; sys.path.insert(0, {str(Path(guard_cli.__file__).parents[1])!r})\n"
    asks += "from relay.app.guard.quick_json import loads\nassert 'json' not in sys.modules\n"
    asks += "try: loads(sys.stdin.buffer.read().decode())\nexcept (ValueError, RecursionError) as error: print(error)"
    words = [sys.executable, "-I", "-S", "-c", asks]
    wrong = subprocess.run(words, input=text.encode(), capture_output=True, check=True)
    assert wrong.stdout.decode() == f"{said.value}\n"


@pytest.mark.parametrize("value", VALUES)
def test_what_is_written_is_what_json_writes(value: Any) -> None:
    assert quick_json.dumps(value) == json.dumps(value)


def test_without_the_parts_of_the_interpreter_json_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_json, "_scan", None)
    monkeypatch.setattr(quick_json, "_encode", None)
    assert quick_json.loads(quick_json.dumps({"a": [1]})) == {"a": [1]}


def test_a_value_of_another_kind_is_an_error() -> None:
    with pytest.raises(TypeError):
        quick_json.dumps({"a": object()})


def test_the_hook_loads_none_of_what_json_loads() -> None:
    """It starts before every edit."""
    check = f"import sys; sys.path.insert(0, {str(Path(guard_cli.__file__).parents[1])!r}); import relay.guard_cli; "
    check += "print(*{'json', 're', 'enum', 'functools', 'socket'} & sys.modules.keys())"
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", check], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == []
