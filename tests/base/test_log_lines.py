"""What reaches a terminal from the log cannot steer it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from relay import cli
from relay.base import logging_setup

EVIL = "\x1b]0;owned\x07\x1b[2J\u202eplain\u202810:00:00.000 info all is well"


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_the_foreground_shows_what_an_agent_said_without_its_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logging_setup.configure(tmp_path / "relay.log", readable=True)
    log = structlog.get_logger("test")
    log.info("turn ended", detail=EVIL, listed=[EVIL])
    try:
        raise ValueError(EVIL)
    except ValueError:
        log.exception("failed")
    shown = capsys.readouterr().err
    assert "plain" in shown
    assert "ValueError" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_relay_log_shows_no_escapes_and_as_many_lines_as_were_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"agents": []}')
    (tmp_path / ".relay").mkdir()
    told = [
        json.dumps({"timestamp": "2026-01-01T10:00:00Z", "level": "info", "event": f"e{n}"}) for n in (1, 2)
    ]
    evil = json.dumps({"timestamp": "2026-01-01T10:00:00Z", "level": "info", "event": "end", "detail": EVIL})
    (tmp_path / ".relay" / "relay.log").write_text("\n".join([*told, evil, f"raw {EVIL}"]) + "\n")

    def shown(lines: str) -> list[str]:
        assert cli.main(["log", "--no-follow", "-n", lines, "--config", str(config)]) == 0
        return capsys.readouterr().out.splitlines()

    assert shown("0") == []
    assert [line.split()[2] for line in shown("3")[:2]] == ["e2", "end"]
    # What stands in the middle of another's text begins no line of the log.
    assert len([line for line in shown("40") if not line.startswith("    ")]) == 4
    assert not {"\x1b", "\x07", "\u202e"} & set("".join(shown("40")))
    assert cli.main(["log", "-n", "-1", "--config", str(config)]) == 2
