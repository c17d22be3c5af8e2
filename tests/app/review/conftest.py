"""The place of the landing queue's tests: a repository with agents' worktrees over a real store."""

from tests.app.verification.place import open_place

__all__ = ["open_place"]
