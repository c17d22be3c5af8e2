"""What the room remembers by itself: from an event of the log to one memory, or none.

Invariants:
- an event is one memory at most, which names the event, its session and its author;
- nothing that a prompt injected becomes a memory again: what an answer quotes of it is taken out (`without_quotes`),
  and the memory's own events are not read;
- what says nothing to anybody later is not remembered: see `says_something`;
- a message that says knowledge for some readers only is none: it is knowledge, which knows its readers.

Remembered are people's messages and agents' answers (of these, decisions are told apart), tasks that ended, locks
that were taken away, advisories that are over, changesets, and explorations that are over. Not: commands, what relay
itself says, advisories as they open. `/remember` and `/decide` keep theirs when they are carried out.

Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from relay.base.durations import parse_iso
from relay.log.events import Event
from relay.memory.episodic.keeping import NewMemory
from relay.memory.experience import Experience
from relay.memory.found import UNVERIFIED, is_unverified
from relay.memory.knowledge.entry import PUBLIC
from relay.memory.knowledge.line_forms import statements
from relay.memory.prompt import SIGNS, cut, without_quotes
from relay.model import references
from relay.model.actions import COMMAND_WORD

POSTED, TASK_CHANGED, FORCED = "message.posted", "task.changed", "lock.forced"
ADVISORY, CHANGESET = "advisory.changed", "changeset.recorded"
EXPLORED, VERIFIED, PUT_OUT = "exploration.ended", "verification.ended", "landing.put_out"
#: The events that are looked at.
READS = frozenset({POSTED, TASK_CHANGED, FORCED, ADVISORY, CHANGESET, EXPLORED, VERIFIED, PUT_OUT})
#: Characters of a text that are its summary; a longer one is kept whole among the details.
MOST_SUMMARY = 600
#: Characters of a text, of a task's result, and files, that are kept; the event has all.
MOST_TEXT, MOST_RESULT, MOST_FILES = 65_536, 4000, 100
#: Tasks of one event that its memory names.
MOST_TASKS = 20
#: Words of a message that have to say something; and of an answer that quotes memories, beside these.
LEAST_WORDS, LEAST_OWN_WORDS = 2, 4

#: Not the scope of a package (`@types/node`).
_MENTION = re.compile(r"(?<![\w@/])@[\w-]++(?!/)")
_WORD = re.compile(r"[^\W_]+")
#: Scripts without blanks: each sign counts as a word.
_SIGN = re.compile(f"[{SIGNS}]")
#: Greetings, thanks, consent, and words that carry no meaning alone.
_EMPTY = frozenset(
    _WORD.findall(
        "a all am an and any are as at be but by can could did do does done for from go going good got great "
        "had has have he hello hey hi how i if in is it its just let lets me my no not nice now of off ok "
        "okay on or our out perfect please sure so some sorry super than thank thanks that the their them "
        "then there these they this those thx to too up us very was we well were what when where which who "
        "why will with would yeah yep yes you your again ahead alright anyone back bye cheers cool continue "
        "day doing evening everybody everyone fine folks guys here indeed morning much nope welcome works "
        "anything nothing lgtm ty pls right understood agreed noted team hallo danke bitte ja nein gut guten "
        "tag morgen moin servus und oder das ist der die"
    )
)
_DECISION = re.compile(
    r"^[ \t>*_-]{0,20}(?:@[\w-]+[:,]? +){0,9}\[?[ \t]*DECISION[*_]{0,3}(?: ?[(\[][^)\]\n]{0,500}[)\]])?\s*:"
    r"[\s*_]*(?P<text>[^|\]\n]+)",
    re.IGNORECASE | re.MULTILINE,
)
_ENDS = {"completed": "success", "failed": "failure", "dead": "failure"}
_CHANGES = frozenset({"completed", "failed", "dead", "cascaded", "moved", "moved_all"})

Json = Mapping[str, Any]


def observed(event: Event, given: Sequence[str] = ()) -> NewMemory | None:
    """What of an event is worth a memory. `given`: the texts of the memories that its author was given with the turn
    whose answer it is."""
    outputs = event.outputs or {}
    match event.type:
        case "message.posted":
            return _message(event, outputs["message"], given)
        case "task.changed":
            return _task_ends(event, outputs)
        case "lock.forced":
            return _forced(event, outputs)
        case "advisory.changed" if "closed" in outputs.get("what", ()):
            return _advisory(event, outputs["advisory"])
        case "changeset.recorded":
            return _changeset(event, outputs["changeset"])
        case "exploration.ended":
            return _explored(event, outputs)
        case "verification.ended":
            return _verified(event, outputs)
        case "landing.put_out" if outputs.get("failed"):
            return _put_out(event, outputs)
    return None


def says_something(text: str, least: int = LEAST_WORDS) -> bool:
    """Is there something in it to be found by, and worth finding? At least `least` different words that are no
    mention, greeting, thanks or consent, and that carry a meaning alone."""
    plain = without_mentions(text)
    words = {word for word in _WORD.findall(_SIGN.sub(" ", plain).casefold()) if word not in _EMPTY}
    return len(words) + len(set(_SIGN.findall(plain))) >= least


def without_mentions(text: str) -> str:
    """A text without the names of those whom it is for: they say nothing of what it is about."""
    return _MENTION.sub(" ", text)


def decision_in(text: str) -> str:
    """The first decision that a text states (`DECISION: ...`, or the footer of an answer); empty when none."""
    found = _DECISION.search(text)
    return found["text"].strip(" \t*_.") if found else ""


def _message(event: Event, message: Json, given: Sequence[str]) -> NewMemory | None:
    kind, meta = message["kind"], message.get("meta") or {}
    if kind not in ("human", "agent") or "notice" in meta:
        return None
    body = message["body"][:MOST_TEXT].strip()
    if kind == "human" and COMMAND_WORD.match(body):
        return None
    text = without_quotes(body, given)
    if any(statement.access != PUBLIC for statement in statements(text)):
        # Knowledge that not everybody may read: who may stands there, and not with a memory.
        return None
    # A few words around a quotation introduce it.
    if not says_something(text, LEAST_WORDS if text == body else LEAST_OWN_WORDS):
        return None
    decision = decision_in(text)
    event_type = "decision" if decision else "message" if kind == "human" else "answer"
    summary, details = _told(text, decision)
    tags = (UNVERIFIED,) if is_unverified(meta) else ()
    experience = Experience(event_type, summary, details, tags=tags)
    return _new(event, experience, message["speaker"])


def _task_ends(event: Event, outputs: Json) -> NewMemory | None:
    if outputs.get("change") not in _CHANGES:
        return None
    ended = [
        pair["after"]
        for pair in outputs.get("tasks") or ()
        if pair["after"]["status"] in _ENDS
        and (pair.get("before") or {}).get("status") != pair["after"]["status"]
    ]
    if not ended:
        return None
    first = ended[0]
    title, details = _told(str(first["task_description"]), "")
    details = (*details, *(fact for task in ended[:MOST_TASKS] for fact in _facts(task)))
    files = [str(path) for task in ended for path in task.get("files") or ()][:MOST_FILES]
    if len(ended) > 1:
        names = "; ".join(f"{references.task(task['number'])} {_line(task)}" for task in ended[:MOST_TASKS])
        title = cut(f"{len(ended)} tasks {_how(first)}: {names}", MOST_SUMMARY)
    if files:
        details = (*details, {"files": files})
    experience = Experience("task", title, details, _ENDS[first["status"]])
    return _new(event, experience, str(first.get("claimed_by") or outputs.get("by") or first["created_by"]))


def _facts(task: Json) -> list[str]:
    """How a task ended, in sentences."""
    facts = [f"{references.task(task['number'])} {_how(task)}"]
    if task.get("error_message"):
        facts.append(f"Error: {str(task['error_message'])[:MOST_RESULT]}")
    if task.get("note") and task.get("note") != task.get("error_message"):
        facts.append(str(task["note"])[:MOST_RESULT])
    result = task.get("result")
    if result is not None:
        shown = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        facts.append(f"Result: {shown[:MOST_RESULT]}")
    return facts


def _how(task: Json) -> str:
    return {"completed": "done", "failed": "failed", "dead": "given up"}[task["status"]]


def _line(task: Json) -> str:
    return " ".join(str(task["task_description"]).split())[:80]


def _forced(event: Event, outputs: Json) -> NewMemory:
    lock, by = outputs["lock"], str(outputs.get("by"))
    why = f": {outputs['reason']}" if outputs.get("reason") else ""
    summary = f"{by} took the lock on {lock['file_path']} from {lock['locked_by']}{why}"
    return _new(event, Experience("lock", cut(summary, MOST_SUMMARY)), by)


def _advisory(event: Event, advisory: Json) -> NewMemory | None:
    """An advisory that is over: what it was about, and why it ended."""
    summary, details = _told(str(advisory.get("line") or advisory.get("text") or ""), "")
    if not summary:
        return None
    answers = advisory.get("answers") or {}
    facts = [
        *([f"It ended: {advisory['closed_why']}"] if advisory.get("closed_why") else []),
        *(
            f"{agent} answered: {str(answer.get('text') or '')[:MOST_RESULT]}"
            for agent, answer in answers.items()
        ),
    ]
    files = [str(path) for path in advisory.get("files") or ()][:MOST_FILES]
    agents = ", ".join(map(str, advisory.get("agents") or ()))
    details = (*details, *facts, *([{"files": files}] if files else []))
    experience = Experience("advisory", f"{agents}: {summary}", details, str(advisory.get("verdict")))
    return _new(event, experience, "RELAY")


def _changeset(event: Event, changeset: Json) -> NewMemory | None:
    summary, details = _told(str(changeset["summary"]), "")
    files = [str(path) for path in changeset.get("changed") or changeset.get("declared") or ()][:MOST_FILES]
    details = (*details, *([{"files": files}] if files else []))
    return _new(event, Experience("changeset", summary, details), str(changeset["agent_id"]))


def _explored(event: Event, result: Json) -> NewMemory | None:
    """A task that was done in several ways: which way was kept, why, and how the others came out."""
    title, details = _told(str(result["task"]), "")
    if not title:
        return None
    winner = result.get("winner") if result.get("merged") else None
    how = f"the variant {winner} was kept" if winner else "no variant was kept"
    ways = [_variant(variant) for variant in result.get("variants") or ()]
    why = [str(result["recommendation"])[:MOST_RESULT]] if result.get("recommendation") else []
    experience = Experience(
        "exploration",
        cut(f"{title}: {how} among {len(ways)}", MOST_SUMMARY),
        (*details, *why, *ways),
        "success" if winner else "failure",
    )
    return _new(event, experience, str(result["asker"]))


def _verified(event: Event, result: Json) -> NewMemory | None:
    """A change that did not pass, with the lines that failed; and one of a task that passed. What fails in the
    landing queue is remembered of whom it puts out, and of the main branch by itself."""
    failed = result["state"] == "failed"
    of_main = result.get("source") == "landing" and (result.get("about") or {}).get("agents") == []
    if failed and result.get("source") == "landing" and not of_main:
        return None
    if not failed and not (result["state"] == "passed" and result.get("task")):
        return None
    files = [str(path) for path in result.get("files") or ()][:MOST_FILES]
    how = f"did not pass: {result.get('reason') or ''}" if failed else f"passed {result.get('decides') or ''}"
    whose = (
        f"{result.get('branch') or 'The main branch'} by itself" if of_main else f"{result['agent']}'s change"
    )
    details: tuple[Any, ...] = (str(result["summary"])[:MOST_RESULT],) if result.get("summary") else ()
    if failed and result.get("lines"):
        details = (*details, f"It said: {str(result['lines'])[-MOST_RESULT:]}")
    if files:
        details = (*details, {"files": files})
    summary = cut(" ".join(f"{whose} {how}".split()), MOST_SUMMARY)
    experience = Experience("verification", summary, details, "failure" if failed else "success")
    return _new(event, experience, str(result["agent"]))


def _put_out(event: Event, entry: Json) -> NewMemory:
    """A branch that did not land since its tests fail, with the lines that failed."""
    summary = cut(
        " ".join(f"{entry['agent']}'s branch did not land: {entry['reason']}".split()), MOST_SUMMARY
    )
    details = (f"It said: {str(entry['output'])[-MOST_RESULT:]}",) if entry.get("output") else ()
    return _new(event, Experience("verification", summary, details, "failure"), str(entry["agent"]))


def _variant(variant: Json) -> str:
    """One way, in a sentence."""
    passing = variant.get("passing")
    tests = "no test has run" if passing is None else f"its tests {'pass' if passing else 'fail'}"
    ended = variant.get("which") or variant.get("reason")
    status = str(variant["status"]).replace("_", " ")
    ended = f"{status} ({str(ended)[:MOST_SUMMARY]})" if ended else status
    figures = [f"{name} {value:g}" for name, value in (variant.get("metrics") or {}).items()]
    return f"{variant['name']} by {variant['agent']}: {', '.join([ended, tests, *figures])}"


def _told(text: str, decision: str) -> tuple[str, tuple[Any, ...]]:
    """The summary of a text, and the details. What is short is its own summary; else its first paragraph, or what it
    decides, is."""
    whole = text.strip()
    if decision:
        rest = () if len(whole) <= len(decision) + len("[DECISION: ]") else (whole,)
        return cut(decision, MOST_SUMMARY), rest
    if len(whole) <= MOST_SUMMARY:
        return whole, ()
    return cut(whole.partition("\n\n")[0].strip(), MOST_SUMMARY), (whole,)


def _new(event: Event, experience: Experience, author: str) -> NewMemory:
    return NewMemory(experience, author, event.session, parse_iso(event.at), event_id=event.id, observed=True)
