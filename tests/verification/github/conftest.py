"""The fake GitHub."""

from tests.fakes.github import github

__all__ = ["github"]
