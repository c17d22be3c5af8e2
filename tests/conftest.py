"""What every test shares."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest
from hypothesis import settings

from relay.config import command_line

# No example has a deadline: on a loaded machine it would fail for being slow, and no test asserts speed. The examples
# are the same in each run, so that a change is judged by what it does; RELAY_EXAMPLES=new looks for others.
settings.register_profile("relay", deadline=None, derandomize=os.environ.get("RELAY_EXAMPLES") != "new")
settings.load_profile("relay")

# A shell starts what runs in the background with SIGINT ignored, and so would be what a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


#: Their files take longest: they come first, so that at the end of a run no worker is left alone with one of them.
LONG = ("tests/faults", "tests/e2e", "tests/bench", "tests/demo", "tests/agents")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folders = {folder: at for at, folder in enumerate(LONG)}
    items.sort(key=lambda item: folders.get("/".join(item.nodeid.split("/")[:2]), len(LONG)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`scripts/test.sh --quick`: a test that would begin too late is left out, and counted as skipped."""
    if time.time() > float(os.environ.get("RELAY_TESTS_UNTIL", "inf")):
        pytest.skip("the time of --quick is over")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """`--quick` that had time for no test has shown nothing: it fails."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if "RELAY_TESTS_UNTIL" in os.environ and reporter and not reporter.stats.keys() & {"passed", "failed"}:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.fixture(params=("sqlite", "postgres"))
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each engine in turn (tests/engines.py): the stores of the test are opened on it."""
    from tests import engines  # the drivers, which most runs of one test can do without

    with engines.on_engine(request.param):
        yield request.param


@pytest.fixture(scope="session", autouse=True)
def _no_server_stays() -> Iterator[None]:
    """The tests' PostgreSQL server (tests/postgres.py), if one was wanted, ends with the run."""
    yield
    if postgres := sys.modules.get("tests.postgres"):
        postgres.end()


@pytest.fixture(autouse=True)
def _of_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that runs in the test's own process says which room messages are about: for this test alone."""
    monkeypatch.setattr(command_line._Room, "config", None)
    monkeypatch.setattr(command_line._Room, "away", False)
    monkeypatch.setattr(command_line._Room, "everywhere", False)
