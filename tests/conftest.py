"""What every test shares."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# No example has a deadline: on a loaded machine it would fail for being slow, and no test asserts speed.
settings.register_profile("relay", deadline=None)
settings.load_profile("relay")


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


#: Folders whose tests share something costly (a browser, a room) or measure: each stays in one process.
TOGETHER = ("browser", "bench", "faults", "acceptance")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """For `pytest -n`: what belongs together is one group; all else goes to whoever is free."""
    here = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(here).parts[0]
        if folder in TOGETHER:
            # A room of the acceptance tests belongs to one file.
            name = item.path.stem if folder == "acceptance" else folder
            item.add_marker(pytest.mark.xdist_group(name))
