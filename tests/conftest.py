"""What every test shares."""

from __future__ import annotations

from hypothesis import settings

# No example has a deadline: on a loaded machine it would fail for being slow, and no test asserts speed.
settings.register_profile("relay", deadline=None)
settings.load_profile("relay")
