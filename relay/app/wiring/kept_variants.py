"""What variants of explorations left is kept for as long as snapshots are, and then let go.

Invariant: only an exploration that is over loses what it left, and all of it at once; a ref that was moved meanwhile
stays. What git has on a branch is not touched.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from datetime import datetime

from relay.config.settings import TimelineSettings
from relay.git.run import Git
from relay.merge.exploration import journal
from relay.merge.exploration.journal import OVER, REFS, Exploration
from relay.model import Fault, Refusal
from relay.store.ports import Store, Tx

#: Explorations whose variants are kept, however new they are, beyond `timeline.keep_all_s`.
MOST_KEPT = 100
_REF = re.compile(re.escape(REFS) + r"x([0-9]{1,9})/")


async def prune_variants(
    git: Git, store: Store, policy: TimelineSettings, now: float | None = None
) -> list[str]:
    """Let go of the refs of explorations that the policy does not keep; gives those. `git`: of the repository; `now`:
    Unix seconds. Raises GitError, and what the store raises."""
    listed = await git.line("for-each-ref", "--format=%(refname) %(objectname)", REFS)
    refs = [line.split(" ") for line in listed.split("\n") if line]
    by_number: dict[int, list[tuple[str, str]]] = {}
    for ref, commit in refs:
        if (match := _REF.match(ref)) is not None:
            by_number.setdefault(int(match[1]), []).append((ref, commit))

    async def work(tx: Tx) -> list[Exploration]:
        found = []
        for number in by_number:
            try:
                found.append(await journal.load(tx, number))
            except Refusal as refusal:
                if refusal.fault is not Fault.UNKNOWN:  # another room's, say: its age is not known
                    raise
        return found

    going = expired(await store.read(work), policy, time.time() if now is None else now)
    gone = [one for number in going for one in by_number[number]]
    if gone:
        # The commit is named too: git refuses where a ref was moved meanwhile.
        lines = "".join(f"delete {ref} {commit}\n" for ref, commit in gone)
        await git.run("update-ref", "--no-deref", "--stdin", stdin=lines.encode())
    return [ref for ref, _ in gone]


def expired(explorations: Iterable[Exploration], policy: TimelineSettings, now: float) -> list[int]:
    """The numbers of those that are over and that the policy does not keep, the newest first. Pure."""
    ages: Mapping[int, float] = {
        each.number: now - datetime.fromisoformat(each.at).timestamp()
        for each in explorations
        if each.state in OVER
    }
    newest = sorted(ages, reverse=True)
    return [
        number
        for place, number in enumerate(newest)
        if ages[number] >= policy.keep_all_s
        and (place >= MOST_KEPT or ages[number] >= policy.keep_days * 86_400)
    ]
