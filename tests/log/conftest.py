"""The log is tested on the same stores as the store's contract."""

from tests.store.conftest import *  # noqa: F403
