"""How much one caller may ask.

Invariant: a bucket's level depends only on the clock and on what was taken from it. The memory of all buckets is
bounded: a bucket that is full again is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Rate:
    """`per_s` tokens a second come in, `burst` at most are kept."""

    per_s: float
    burst: float


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of HTTP.

    `body_bytes` is for every request but a message, whose limit follows `workspace.max_entry_bytes`; `body_s` the
    seconds that a body may take to arrive, `header_s` those that the headers of a request may take (the first one's
    from the connection on); `strangers`: connections at once that have shown no credential, or half of what the
    system lets the process open. `socket_buffer_bytes`: what may wait for one slow client; `sockets`: how many at
    once; `session_look_s`: seconds between two looks whether their session ended. `requests` counts a credential's,
    `refused` a remote's without a good one, `sign_ins` a remote's failed attempts.
    """

    body_bytes: int = 64 * 1024
    body_s: float = 30.0
    header_s: float = 15.0
    strangers: int = 200
    sockets: int = 500
    socket_buffer_bytes: int = 2 * 1024 * 1024
    first_frame_s: float = 10.0
    heartbeat_s: float = 20.0
    session_look_s: float = 60.0
    close_s: float = 5.0
    requests: Rate = field(default=Rate(1000, 3000))
    refused: Rate = field(default=Rate(20, 200))
    sign_ins: Rate = field(default=Rate(1 / 6, 10))


class Buckets:
    """A token bucket for each key. `clock` gives seconds, monotonic."""

    def __init__(
        self, rate: Rate, *, clock: Callable[[], float] = time.monotonic, most: int = 10_000
    ) -> None:
        self._rate, self._clock, self._most = rate, clock, most
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, key: str) -> float:
        """Take a token: 0 when there was one, else the seconds until there is."""
        level, now = self._level(key)
        if level < 1:
            return (1 - level) / self._rate.per_s
        self._put(key, level - 1, now)
        return 0.0

    def give_back(self, key: str) -> None:
        """Undo a `take`: what it was for did not count."""
        level, now = self._level(key)
        self._put(key, min(level + 1, self._rate.burst), now)

    def _level(self, key: str) -> tuple[float, float]:
        now = self._clock()
        level, since = self._levels.get(key, (self._rate.burst, now))
        return min(self._rate.burst, level + (now - since) * self._rate.per_s), now

    def _put(self, key: str, level: float, now: float) -> None:
        if key not in self._levels and len(self._levels) >= self._most:
            self._forget(now)
        self._levels[key] = (level, now)

    def _forget(self, now: float) -> None:
        full = self._rate.burst
        levels = {k: v for k, v in self._levels.items() if v[0] + (now - v[1]) * self._rate.per_s < full}
        while len(levels) >= self._most:
            levels.pop(next(iter(levels)))
        self._levels = levels
