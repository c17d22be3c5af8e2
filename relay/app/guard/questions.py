"""Who asks before a commit, and that nobody could be asked."""

from __future__ import annotations

import os
from dataclasses import dataclass

from relay.app.guard.hook import whose

#: What an agent's program sets in the shells that it opens, and no person in theirs: Claude Code (env-vars of its
#: documentation); Codex (codex-rs/core: exec_env.rs, spawn.rs, unified_exec/process_manager.rs); Gemini CLI
#: (docs/tools/shell.md). Prefixes would not do: CLAUDE_CODE_USE_BEDROCK and CODEX_HOME are settings of people.
MARKS = (
    ("CLAUDECODE", "Claude Code"),
    ("CODEX_THREAD_ID", "Codex"),
    ("CODEX_CI", "Codex"),
    ("CODEX_SANDBOX", "Codex"),
    ("CODEX_SANDBOX_NETWORK_DISABLED", "Codex"),
    ("GEMINI_CLI", "Gemini CLI"),
)


class Unasked(Exception):
    """Nobody could be asked; the message says why. `final`: the room runs and does not take the question."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


@dataclass(frozen=True, slots=True)
class Asker:
    """Who is about to write. `agent` None: the person at the keyboard, or the key's own, or
    (`program`) whoever works in that agent's program and does not say who it is."""

    agent: str | None
    session: str | None
    key: bool
    override: str
    program: str | None = None

    @classmethod
    def here(cls, config: str) -> Asker:
        """By the environment, and by the `relay mcp` of the program that this shell is of."""
        env = os.environ
        agent, session = whose(config)
        key = bool(env.get("RELAY_API_KEY"))
        program = None
        if not agent and not key:
            program = next((title for mark, title in MARKS if env.get(mark)), None)
        # An override is a person's; without a name the room could not tell the two apart.
        override = "" if program else (env.get("RELAY_GUARD_OVERRIDE") or "").strip()
        return cls(agent or None, session or None, key, override, program)

    @property
    def person(self) -> bool:
        return self.agent is None and not self.key and self.program is None
