"""The place that verifies and lands, and a folder for tmux."""

from tests.app.verification.place import open_place
from tests.verification.windows import tmux_folder

__all__ = ["open_place", "tmux_folder"]
