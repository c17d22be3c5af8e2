"""What happens now and is not stored: streaming text, who is here, how agents stand.

Invariant: publishing never waits. A subscriber that is too slow loses the oldest frames of its own feed, is told
how many, and slows nobody else; all of it can be asked for again.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from relay.model.speaker_names import posing_as
from relay.room.journal.values import Frame

#: Frames that a feed holds for a reader that is busy.
DEPTH = 2000


class LiveFeed:
    """One reader's frames. Iterate over it; `close` ends it. `dropped` counts what it was too slow for."""

    def __init__(self, feeds: set[LiveFeed], listened: asyncio.Event) -> None:
        self._feeds, self._listened = feeds, listened
        self._frames: deque[Frame] = deque()
        self._ready = asyncio.Event()
        self._closed = False
        self.dropped = 0
        feeds.add(self)
        listened.set()

    def put(self, frame: Frame) -> None:
        if len(self._frames) >= DEPTH:
            self._frames.popleft()
            self.dropped += 1
        self._frames.append(frame)
        self._ready.set()

    async def __aiter__(self) -> AsyncIterator[Frame]:
        while not self._closed:
            await self._ready.wait()
            self._ready.clear()
            while self._frames:
                yield self._frames.popleft()

    def close(self) -> None:
        self._closed = True
        self._feeds.discard(self)
        if not self._feeds:
            self._listened.clear()
        self._ready.set()


class Live:
    """The room's bus for what is not stored, and the list of who is here."""

    def __init__(self) -> None:
        self._feeds: set[LiveFeed] = set()
        #: Set while somebody listens: until then nobody needs to make what is published.
        self.listened = asyncio.Event()
        self._people: Counter[str] = Counter()
        self._elsewhere: Mapping[str, Sequence[str]] = {}
        #: Called when somebody came or went here.
        self.moved: Callable[[], None] = lambda: None

    def feed(self) -> LiveFeed:
        return LiveFeed(self._feeds, self.listened)

    def publish(self, type: str, data: dict[str, Any]) -> None:
        if self._feeds:
            frame = Frame(None, type, data)
            for feed in self._feeds:
                feed.put(frame)

    @property
    def connected(self) -> list[str]:
        """Who is connected to this relay now, each once."""
        return sorted(self._people)

    @property
    def people(self) -> list[str]:
        """Who is in the room now, at whichever member of the fleet, each once."""
        return sorted({*self._people, *self.people_at})

    @property
    def people_at(self) -> dict[str, str]:
        """Of those that are connected to other members alone: to which."""
        return {
            name: member
            for member, names in self._elsewhere.items()
            for name in names
            if name not in self._people
        }

    def places(self, here: str) -> dict[str, list[str]]:
        """Who is in the room now, by name, with all members of the fleet that they are connected to. `here`: the name
        of this one."""
        found: dict[str, list[str]] = {}
        for member, names in sorted([*self._elsewhere.items(), (here, self.connected)]):
            for name in names:
                found.setdefault(name, []).append(member)
        return dict(sorted(found.items()))

    def meet(self, elsewhere: Mapping[str, Sequence[str]]) -> None:
        """Who is connected to the other members, by the member."""
        if elsewhere != self._elsewhere:
            self._elsewhere = elsewhere
            self._publish_people()

    def _publish_people(self) -> None:
        self.publish("people", {"people": self.people, "people_at": self.people_at})

    def _move(self) -> None:
        self._publish_people()
        self.moved()

    @contextmanager
    def here(self, name: str) -> Iterator[None]:
        """While this is open, the person is in the room. Several windows of one person count as one. A name that
        reads like that of somebody who is here is not listed."""
        if posing_as(name, self.people) is not None:
            yield
            return
        self._people[name] += 1
        if self._people[name] == 1:
            self._move()
        try:
            yield
        finally:
            self._people[name] -= 1
            if self._people[name] <= 0:
                del self._people[name]
                self._move()
