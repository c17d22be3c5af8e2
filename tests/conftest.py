"""What every test shares."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# No example has a deadline: on a loaded machine it would fail for being slow, and no test asserts speed.
settings.register_profile("relay", deadline=None)
settings.load_profile("relay")

#: Folders whose tests share something costly (a browser, a room) or measure: each stays in one process.
TOGETHER = ("browser", "bench", "faults", "acceptance")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """For `pytest -n`: what belongs together is one group; all else goes to whoever is free."""
    here = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(here).parts[0]
        if folder in TOGETHER:
            item.add_marker(pytest.mark.xdist_group(folder))
