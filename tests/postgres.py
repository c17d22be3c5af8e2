"""The tests' PostgreSQL server: one a test run (`scripts/bench/postgres_server.py`)."""

from __future__ import annotations

import functools
import os

import pytest

from scripts.bench.postgres_server import SETTINGS, Server, binaries, make_server, run

__all__ = ["SETTINGS", "Server", "binaries", "end", "make_server", "run", "server"]


@functools.cache
def server() -> Server:
    """The one server of this test run, started when it is first wanted. Skips, or where it is required fails,
    without binaries."""
    found = binaries()
    if found is None:
        missing = "there is no PostgreSQL: install postgresql, or the test packages (bash scripts/test.sh)"
        if os.environ.get("CI") == "true" or os.environ.get("RELAY_REQUIRE_BROWSER") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    made = make_server(found)
    _running.append(made)
    return made


_running: list[Server] = []


def end() -> None:
    """End the run's server, if there is one."""
    while _running:
        _running.pop().end()
