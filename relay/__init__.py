"""relay: the shared room where people and coding agents work on one codebase without colliding."""

from __future__ import annotations

__version__ = "0.1.0"
