"""What came of a verification, as a commit status on GitHub.

Invariant: only what passed is `success`. What was not tested, could not run or was cancelled is `error`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relay.verification.github.client import Github
from relay.verification.verification import OVER, Result, State, Verification, newest

#: How GitHub tells our statuses from others'; and characters of its description.
CONTEXT = "relay/verification"
MOST_DESCRIPTION = 140
_STATES = {State.PASSED: "success", State.FAILED: "failure"}


@dataclass(frozen=True, slots=True)
class CommitStatus:
    """As `POST /repos/owner/name/statuses/sha` takes it. `target_url`: where a person sees more; None = nowhere."""

    state: str
    description: str
    target_url: str | None = None
    context: str = CONTEXT


def status_of(verification: Verification, results: Sequence[Result] = ()) -> CommitStatus:
    """How a verification stands, for its commit. Pure."""
    last = newest(results)
    state = verification.state
    if state not in OVER:
        code = "pending"
        what = "waits for a person" if state is State.WAITING else state.value
    else:
        code = _STATES.get(state, "error")
        what = state.value.replace("_", " ")
    named = ", ".join(result.policy for result in last)
    why = verification.reason if state in OVER and verification.reason else named
    text = f"{verification.name} {what}{': ' if why else ''}{why}"
    if len(text) > MOST_DESCRIPTION:
        text = text[: MOST_DESCRIPTION - 3] + "..."
    return CommitStatus(code, text, next((result.url for result in last if result.url), None))


async def post_status(github: Github, sha: str, status: CommitStatus) -> None:
    """Tell GitHub; the last status of a commit counts. Raises GithubError."""
    told = {"state": status.state, "description": status.description, "context": status.context}
    if status.target_url is not None:
        told["target_url"] = status.target_url
    await github.post(f"statuses/{sha}", told)
