"""The configuration of merging (`merge`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from relay.config.checks import Problem, setting

Ladder = Literal["on", "git"]
Use = Literal["join", "ask", "agent", "confidence"]


@dataclass(frozen=True, slots=True)
class MergeStrategy:
    """What becomes of files that git cannot merge, by their paths (003, section 6.4)."""

    paths: tuple[str, ...] = setting(
        "globs: `**/` any folders, `*` within a name; without a slash the file's name, in any folder"
    )
    use: Use = setting(
        "`join` = relay joins what it can, and people are asked about the rest; `ask` = people are asked about all; "
        "`agent` = an agent is asked about what relay cannot join; `confidence` = both sides' agents are, and the "
        "answer with the higher figure stands"
    )
    agent: str = setting("who is asked with `agent`; empty = the agent of the branch", "", empty=True)
    attempts: int = setting("answers that an agent may give before people are asked", 2, low=1, high=10)
    tests: bool = setting(
        "with `agent` and `confidence`: an answer with which `merge.test` fails counts for nothing", True
    )


#: Of a path that none names.
JOIN = MergeStrategy(("**",), "join")


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """How two agents' work is joined, and what is run to see whether it still works."""

    ladder: Ladder = setting(
        "`on` = what git's text merge leaves is joined by imports, added definitions and entities where that is "
        "safe; `git` = git's own answer stands",
        "on",
    )
    timeout_ms: int = setting(
        "milliseconds for the merge of one file; beyond them git's own answer stands",
        2000,
        low=1,
        high=600_000,
    )
    check_timeout_s: float = setting(
        "seconds for a look at what one agent changes and another relies on across files, while both work; "
        "0 = nobody looks",
        20.0,
        low=0,
        high=600,
    )
    strategies: tuple[MergeStrategy, ...] = setting(
        "what becomes of files that git cannot merge: the first whose paths match; `join` where none does", ()
    )
    test: tuple[str, ...] = setting(
        "the program with its arguments that tests a merged tree, in an export of it; no shell reads it. "
        "[] = nothing is tested, and that is said",
        (),
        words=True,
    )
    test_timeout_s: float = setting(
        "seconds until the tests of a merged tree and all they started are ended", 600.0, low=1, high=86400
    )
    test_every_s: float = setting(
        "seconds between two rounds in which each two agents' work is merged and tested by `merge.test` while both "
        "work; 0 = never",
        0.0,
        low=0,
        high=86400,
    )

    def strategy(self, path: str) -> MergeStrategy:
        """That of a path."""
        matches = (
            each for each in self.strategies if any(_glob(glob).fullmatch(path) for glob in each.paths)
        )
        return next(matches, JOIN)


@lru_cache(maxsize=1000)
def _glob(glob: str) -> re.Pattern[str]:
    """The paths that a glob means."""
    whole = glob if "/" in glob.rstrip("/") else f"**/{glob}"
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", whole + "**" * whole.endswith("/"))
    signs = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(signs.get(part) or re.escape(part) for part in parts), re.DOTALL)


def strategy_problems(tree: Mapping[str, Any], agents: Sequence[str]) -> list[Problem]:
    """What is wrong with `merge.strategies` beyond the types of their fields; these are checked elsewhere."""
    section = tree.get("merge")
    listed = section.get("strategies") if isinstance(section, Mapping) else None
    problems = []
    for at, strategy in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(strategy, Mapping):
            continue
        where, paths, use = f"merge.strategies[{at}]", strategy.get("paths"), strategy.get("use")
        if isinstance(paths, list) and not (paths and all(paths)):
            problems.append(
                Problem(f"{where}.paths", "names no file", 'globs, like ["src/**/*.py", "*.lock"]')
            )
        agent = strategy.get("agent")
        if not isinstance(agent, str) or not agent:
            continue
        if use != "agent":
            problems.append(
                Problem(
                    f"{where}.agent", f'found with use "{use}"', 'only with use "agent"', 'take out "agent"'
                )
            )
        elif agent not in agents:
            names = ", ".join(agents) or "there is none"
            problems.append(
                Problem(f"{where}.agent", f'found "{agent[:40]}"', f"a configured agent: {names}")
            )
    return problems
