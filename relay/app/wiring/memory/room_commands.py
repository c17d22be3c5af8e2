"""The room's `/recall`, `/remember`, `/decide`, `/forget` and `/useful`, and what the room answers to them.

Invariant: what is remembered stands in an answer as a quotation, so no line of it passes for the room's own; what a
person orders is kept, or forgotten, in the transaction of the answer, and what that ends or lets hold again is taken
in there too: so the answer names what is ended, by the same function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from relay.app.wiring.memory.recalled import MOST_AUTHOR, quote_of, recalled
from relay.memory.episodic.feedback import give_feedback
from relay.memory.episodic.forgetting import forget
from relay.memory.episodic.keeping import NewMemory, keep
from relay.memory.episodic.recalling import HOP_DECAY, of_number
from relay.memory.episodic.showing import was_forgotten
from relay.memory.experience import Experience
from relay.memory.found import said_beside
from relay.memory.given import memory_of_event
from relay.memory.knowledge.entry import Extractor, Kind
from relay.memory.knowledge.forgetting import ended_by, that_hold
from relay.memory.knowledge.ingest import take_in_now
from relay.memory.knowledge.line_forms import parse
from relay.memory.knowledge.recording import record
from relay.memory.knowledge.service import with_ended
from relay.memory.prompt import cut, on_one_line
from relay.model import Caller, Message, Refusal, references
from relay.model.actions import Decide, Forget, JudgeMemory, Recall, Remember
from relay.model.names import STEWARD, listed
from relay.model.references import Thing
from relay.room.journal import ledger
from relay.store.ports import Row, Store, Tx

#: Memories that an answer shows.
MOST_SHOWN = 8
#: What was found that is looked at for one.
MOST_FOUND = 24
#: Statements that an answer names, and characters of one.
MOST_NAMED, MOST_NAMED_CHARACTERS = 3, 120
NOTHING = "Nothing that is remembered bears on it."
EMPTY = (
    "Nothing is remembered yet. What people say here, what agents answer and how work ends is remembered by itself; "
    "`/remember` keeps what you want to be known later, `/decide` a decision."
)
UNKNOWN = "what it contradicts or replaces once the room has read its past anew"
TAKE_BACK = "`/forget` with its number, or the id of knowledge, and nobody is told it again."


class MemoryActions:
    """Carries the room's actions out."""

    def __init__(self, store: Store, *, hop_decay: Callable[[], bool] = lambda: HOP_DECAY) -> None:
        self._store, self._hop_decay = store, hop_decay

    async def recall(self, action: Recall) -> str:
        """What is remembered that bears on it, as markdown: it stands in the room, so nothing that is not for
        everybody, whoever asks. Raises Refusal."""
        caller = Caller(STEWARD, ledger.ROOM)
        named = await self._store.read(partial(_of_number, text=action.text), actor=caller)
        if named:
            return named
        asking = partial(
            recalled, caller=caller, text=action.text, limit=MOST_FOUND, hop_decay=self._hop_decay()
        )
        found = await self._store.read(asking, actor=caller)
        found = [each for each in found if not said_beside(each.why)][:MOST_SHOWN]
        if not found:
            return NOTHING if action.text else EMPTY
        first = "The newest" if not action.text else "What is remembered that bears on it, the best first"
        return "\n\n".join([f"{first}:", *(quote_of(each).line() for each in found), TAKE_BACK])

    async def carry_out(
        self,
        tx: Tx,
        action: Remember | Decide | Forget | JudgeMemory,
        *,
        by: str,
        message: Message,
        cause: Sequence[str],
    ) -> str:
        """Keep, forget or judge what a person orders; the room's answer. Raises Refusal."""
        match action:
            case Remember(text):
                kept = await self._keep(tx, Experience("note", text), by, cause)
                told = "Agents are told it with a turn that it bears on"
                return f"Remembered as {kept}. {told}; `/forget {kept}` takes it back."
            case Decide(text, because):
                recorded = await self._decided(tx, action, by, message, cause)
                lessons = (f"because {because}",) if because else ()
                kept = await self._keep(tx, Experience("decision", text, lessons=lessons), by, [recorded])
                named = await _named(tx, await ended_by(tx, recorded)) if await take_in_now(tx) else UNKNOWN
                ends = f" It ends {named}." if named else ""
                return f"Decided, and remembered as {kept}.{ends} `/forget {kept}` takes it back."
            case JudgeMemory(number, useful):
                name, person = references.memory(number), Caller(by, ledger.ROOM, person=True)
                said = await give_feedback(tx, person, name, useful)
                judged = "helped" if useful else "did not help"
                counted = f"{said['useful']} say that it helped, {said['useless']} that it did not"
                return f"{by} says that {name} {judged}: {counted}."
            case Forget(memory):
                name = memory if isinstance(memory, str) else references.memory(memory)
                person = Caller(by, ledger.ROOM, person=True)
                await take_in_now(tx)
                forgotten = await forget(tx, person, name, cause=cause)
                names = " and ".join(forgotten.names)
                if forgotten.content is None:
                    was = "were" if " " in names else "was"
                    return f"{names} {was} forgotten before: nobody is told it."
                both = "are forgotten, with all else that is known of the same message: they are"
                are = both if " " in names else "is forgotten: it is"
                ended = [] if forgotten.event_id is None else await ended_by(tx, forgotten.event_id)
                await take_in_now(tx)
                again = await that_hold(tx, ended)
                holds = f" {await _named(tx, again)} hold{'s' * (len(again) == 1)} again." if again else ""
                return f"{names} {are} told to nobody any more.{holds}"

    async def _decided(self, tx: Tx, action: Decide, by: str, message: Message, cause: Sequence[str]) -> str:
        """Record the decision as knowledge; the id of its event."""
        said = parse(Kind.DECISION, action.text)
        if said is None:
            raise Refusal("That decides nothing.", "Say what is decided: `/decide use tabs because ...`.")
        recorded = await record(
            tx,
            ledger.person_lane(by),
            by,
            [replace(said, rationale=action.because or said.rationale)],
            extractor=Extractor.PERSON,
            cause=cause,
            inputs={"message": message.id},
        )
        return recorded.id

    async def _keep(self, tx: Tx, experience: Experience, by: str, cause: Sequence[str]) -> str:
        now = await tx.now()
        event_id = cause[0] if cause else None
        kept = await keep(tx, NewMemory(experience, by, ledger.ROOM, now, event_id=event_id))
        return references.memory(kept.number)


async def _named(tx: Tx, entries: Sequence[Row]) -> str:
    """Entries of the knowledge with whose they are and what they say; empty: there are none."""
    named = []
    for entry in entries[:MOST_NAMED]:
        memory = await memory_of_event(tx, entry["event_id"])
        name = references.named(None if memory is None or memory.forgotten else memory.number, entry["id"])
        said = cut(on_one_line(entry["content"]), MOST_NAMED_CHARACTERS)
        named.append(f"{name} ({on_one_line(entry['agent_id'])[:MOST_AUTHOR]}: {said})")
    more = len(entries) - MOST_NAMED
    return listed([*named, f"{more} more"] if more > 0 else named) if named else ""


async def _of_number(tx: Tx, *, text: str) -> str:
    """What is said of the one memory that a text like `r14` names; empty where it names none."""
    reference = references.read(text)
    if reference is None or reference[0] is not Thing.MEMORY:
        return ""
    number = references.memory(reference[1])
    if await was_forgotten(tx, reference[1]):
        return f"{number} is forgotten: nobody is told it."
    found = await of_number(tx, reference[1])
    told = [quote_of(each).line() for each in await with_ended(tx, found)]
    return "\n\n".join([f"{number}:", *told, TAKE_BACK]) if told else ""
