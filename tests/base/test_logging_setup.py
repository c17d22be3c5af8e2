from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from relay.base import logging_setup


@pytest.fixture
def as_before() -> Iterator[None]:
    """The process's logging, as the other tests have it."""
    root = logging.getLogger()
    handlers, level, mask = root.handlers[:], root.level, os.umask(0o022)
    yield
    os.umask(mask)
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.usefixtures("as_before")
def test_each_file_of_the_log_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging_setup, "ROTATE_BYTES", 200)
    logging_setup.configure(tmp_path / "relay.log", readable=False)
    for number in range(20):
        logging.getLogger("relay").warning("line %d of many", number)
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert {"relay.log", "relay.log.1", "relay.log.2"} <= set(modes)
    assert set(modes.values()) == {0o600}
