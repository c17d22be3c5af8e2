"""A guard for tests: an advisory stands on the files that the test says."""

from __future__ import annotations

from relay.model import GuardDecision, Location, LockRefusal

REASON = "STEER: CODEX changes lines 40-58 of new.txt (advisory a1); take other work first."


class Standing:
    """Every agent is told to steer clear of `contested`, told `notes` by path, and refused `locks`; `asked` is what
    was asked about, and `sessions` in which."""

    def __init__(self, *contested: str) -> None:
        self.contested = set(contested)
        self.notes: dict[str, str] = {}
        self.locks: dict[str, LockRefusal] = {}
        self.asked: list[tuple[str, Location]] = []
        self.sessions: list[str | None] = []

    async def decide(self, agent: str, location: Location, session: str | None = None) -> GuardDecision:
        self.asked.append((agent, location))
        self.sessions.append(session)
        if location.path in self.locks:
            return GuardDecision.of_lock(self.locks[location.path])
        if location.path in self.contested:
            return GuardDecision(True, REASON, "a1")
        return GuardDecision(note=self.notes.get(location.path, ""))
