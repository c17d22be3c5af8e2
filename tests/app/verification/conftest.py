"""The place that verifies and lands."""

from tests.app.verification.place import open_place

__all__ = ["open_place"]
