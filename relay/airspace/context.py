"""What the parts of a running airspace share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from relay.config.airspace import AirspaceSettings
from relay.store.ports import Store


@dataclass(frozen=True, slots=True)
class LiveContext:
    """The room's store; `current` gives the settings in use, and `clock` the time (Unix seconds)."""

    store: Store
    current: Callable[[], AirspaceSettings]
    clock: Callable[[], float] = time.time

    @property
    def settings(self) -> AirspaceSettings:
        return self.current()
