"""What a command imports before it knows what it has to do."""

from __future__ import annotations

import subprocess
import sys

import pytest

from relay.app.memory.room_operations import ADDRESSES
from relay.faces.operations.registry import OPERATIONS


@pytest.mark.parametrize(
    ("module", "left_out"),
    [
        ("relay.app.memory.command", "pydantic sqlite3 Stemmer relay.faces relay.memory.episodic.keeping"),
        ("relay.app.commands.worktrees", "aiohttp structlog sqlite3 relay.faces relay.airspace"),
        (
            "relay.app.timeline.command",
            "pydantic relay.faces relay.airspace relay.git.snapshot",
        ),
        ("relay.app.verification.commands.land_command", "sqlite3 relay.airspace tree_sitter"),
        ("relay.app.merge.exploration.command", "relay.airspace tree_sitter"),
        ("relay.faces.terminal.script", "pydantic sqlite3 relay.model.actions"),
    ],
)
def test_a_command_loads_nothing_that_only_some_of_its_actions_need(module: str, left_out: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(left_out.split()) & set(told.stdout.split()) == set()


def test_a_running_room_is_asked_where_the_operations_are() -> None:
    declared = {name: (OPERATIONS[name].method, OPERATIONS[name].path) for name in ADDRESSES}
    assert declared == ADDRESSES
