"""A guard for tests: an advisory stands on the files that the test says."""

from __future__ import annotations

from relay.model import GuardDecision, Location

REASON = "STEER: CODEX changes lines 40-58 of new.txt (advisory a1); take other work first."


class Standing:
    """Every agent is told to steer clear of `contested`; `asked` is what was asked about."""

    def __init__(self, *contested: str) -> None:
        self.contested = set(contested)
        self.asked: list[tuple[str, Location]] = []

    async def decide(self, agent: str, location: Location, session: str | None = None) -> GuardDecision:
        self.asked.append((agent, location))
        if location.path in self.contested:
            return GuardDecision(True, REASON, "a1")
        return GuardDecision()
