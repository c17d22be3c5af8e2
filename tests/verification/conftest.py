"""Runs, and a tmux server's folder of the test's own."""

from __future__ import annotations

from tests.verification.windows import tmux_folder

__all__ = ["tmux_folder"]
