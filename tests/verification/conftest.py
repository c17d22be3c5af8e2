"""Runs, a tmux server's folder of the test's own, and the stand-in for E2B."""

from __future__ import annotations

from tests.fakes.e2b import fake_e2b
from tests.verification.windows import tmux_folder

__all__ = ["fake_e2b", "tmux_folder"]
