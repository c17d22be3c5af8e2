"""The configuration of the memory (`memory`)."""

from __future__ import annotations

from dataclasses import dataclass

from relay.config.checks import setting


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """What the room keeps of what happens, and what an agent is told of it."""

    observe: bool = setting(
        "true = the room keeps what is said and what becomes of work, so that it can be found again", True
    )
    prompt_tokens: int = setting(
        "tokens of memories that bear on it which an agent gets with a turn (four characters are counted as a "
        "token); 0 = none",
        800,
        low=0,
        high=100_000,
    )
    working_tokens: int = setting(
        "tokens of an agent's working memory in one session; above it the older is compressed",
        8000,
        low=100,
        high=1_000_000,
    )
    hop_decay: bool = setting(
        "true = in ranking, what stood beside a memory in its session counts less with each hop (docs/memory.md); "
        "false = what stood two before or behind counts as what stood beside it",
        False,
    )
    embedding_model: str = setting(
        "the Ollama model that makes vectors of memories, on the server of the dispatcher; empty = none", ""
    )
    llm_extract: bool = setting(
        "true = the dispatcher's model reads what people and agents say for knowledge too; what it finds is marked "
        "as such",
        False,
    )
