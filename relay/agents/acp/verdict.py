"""Why a turn over ACP failed, decided from the error that ended it.

Invariant: pure and total, as `failure.py`: every error has one class, and what it says is plain text.
"""

from __future__ import annotations

from datetime import datetime

from acp import RequestError

from relay.agents.process.failure import StreamError, Verdict, classify, last_lines, sentence, with_sign_in
from relay.agents.process.wire_turn import Failed
from relay.base.child_process import Exit
from relay.base.terminal_text import safe, safe_line
from relay.model import FailureClass

#: "Authentication required" (agentclientprotocol.com, schema, ErrorCode).
AUTH_REQUIRED = -32000


def failed(error: BaseException, *, ended: Exit | None, stderr: str, sign_in: str) -> Verdict:
    """The class of a turn that `error` ended. `ended`: how the program did, None while it runs; `stderr`: the tail of
    its diagnostics; `sign_in`: the command that signs in."""
    now = datetime.now().astimezone()
    if isinstance(error, Failed):
        return error.verdict
    if isinstance(error, RequestError):
        failure = FailureClass.NOT_SIGNED_IN if error.code == AUTH_REQUIRED else None
        stream_error = StreamError(safe(text_of(error)), failure)
        verdict = classify(Exit(code=1), stderr="", error=stream_error, answered=False, now=now)
    elif not isinstance(error, ConnectionError):
        what = f"{type(error).__name__}: {safe_line(str(error), 300)}"
        return Verdict(FailureClass.CRASH, f"It broke the protocol: {what}")
    elif ended is None or ended.code == 0:
        how = "The program closed its output" if ended is None else "The program ended"
        return Verdict(FailureClass.CRASH, sentence(f"{how} in the middle of its turn. {last_lines(stderr)}"))
    else:
        verdict = classify(ended, stderr=stderr, error=None, answered=False, now=now)
    if verdict.failure is FailureClass.NOT_SIGNED_IN and sign_in:
        return Verdict(verdict.failure, with_sign_in(verdict.detail, sign_in))
    return verdict


def text_of(error: RequestError) -> str:
    """What an error says, with the details that some agents put beside it."""
    details = error.data
    if isinstance(details, dict):
        details = details.get("details") or details.get("message")
    message = str(error)
    detailed = isinstance(details, str) and details and details not in message
    return f"{message}: {details}" if detailed else message
