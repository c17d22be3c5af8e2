"""`relay memory`: import, recall, show, judge and forget memories (docs/memory.md, "Imports and the command line").

Invariant: the same with a running room, which then does it, and without one. Exit code 0 = did it, 1 = could not (a
line of a file too), 2 = wrong use. With `--json` the answer is JSON on standard output: one value, or for a file of
questions a line for each, in the file's order.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from relay.app.commands.person import ago, table
from relay.app.memory import questions
from relay.app.memory.lines import Piece, opened, pieces
from relay.app.memory.room_operations import Perform, opened_database, room_operations
from relay.app.runtime.daemon_requests import agents_key
from relay.app.runtime.identity import WrongUse
from relay.base.terminal_text import fail, safe, safe_line, tame
from relay.config.command_line import command
from relay.config.loading import load_for_command
from relay.config.locate import add_config_option
from relay.config.settings import Settings
from relay.memory.found import MOST_RECALLED, said_beside, whose
from relay.model import Fault, Refusal, references

if TYPE_CHECKING:
    from relay.memory.episodic.importing import ImportResult

#: Refused lines that are told to a person; characters of what was forgotten.
MOST_TOLD, MOST_FORGOTTEN = 20, 80
GO_ON = "import the same file again: what is kept already is known."
EXAMPLE = '{"event_type": "lesson", "summary": "never mock the clock"}'


def _parser() -> argparse.ArgumentParser:
    text = "What was learned here: import it, find it, judge it."
    parser = argparse.ArgumentParser(prog="relay memory", description=text)
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        add_config_option(made)
        made.add_argument("--name", help="your name in the room (the one that git has for you)")
        made.add_argument("--json", action="store_true", help="print the result as JSON")
        return made

    bring_in = action("import", "Take memories in from a file, one JSON object a line.")
    bring_in.add_argument("file", metavar="FILE", help="the file; - is standard input")
    recall = action("recall", "What is remembered that bears on a text, the most relevant first.")
    recall.add_argument("text", nargs="*", metavar="TEXT", help="what you are about to do (the newest)")
    recall.add_argument("--queries", metavar="FILE", help="lines {id, text, tags?}, each answered by a line")
    recall.add_argument("--tag", action="append", default=[], metavar="TAG", help="only with this tag")
    recall.add_argument("--limit", type=int, default=10, metavar="N", help="how many at most (10)")
    show = action("show", "One memory, with all that is kept of it.")
    forget = action("forget", "Never tell this memory, or this knowledge, again; its row and its event stay.")
    feedback = action("feedback", "Say whether a memory helped; your last word counts.")
    for each in (show, forget, feedback):
        knowledge = "; of knowledge its id, like k1a2b3c4d" if each is forget else ""
        each.add_argument("memory", metavar="MEMORY", help=f"its number, like r12, or its id{knowledge}")
    helped = feedback.add_mutually_exclusive_group(required=True)
    helped.add_argument("--useful", action="store_true", dest="useful", help="it helped")
    helped.add_argument("--not-useful", action="store_false", dest="useful", help="it did not")
    feedback.add_argument("--note", help="why")
    action("rebuild", "Make the index of the memories, and the knowledge, anew from what they come from.")
    return parser


def main(words: list[str]) -> int:
    """The command; gives its exit code."""
    parser = _parser()
    args = parser.parse_args(words)
    if args.action == "recall":
        if not 1 <= args.limit <= MOST_RECALLED:
            parser.error(f"--limit must be from 1 to {MOST_RECALLED}")
        if args.queries is not None and (args.text or args.tag):
            parser.error("--queries has the texts and their tags: give it alone")
    settings = load_for_command(args.config)
    try:
        return asyncio.run(_run(settings, args))
    except WrongUse as error:
        return fail(str(error), 2)
    except Refusal as refusal:
        if args.json and refusal.code:
            print(json.dumps(refusal.as_json()))
        return fail(str(refusal), 2 if refusal.fault is Fault.MALFORMED else 1)
    except KeyboardInterrupt:
        if args.action == "import":
            return fail(f"It was stopped. To go on, {GO_ON}")
        raise
    except BrokenPipeError:
        raise  # of the output: `relay.cli` ends quietly
    except OSError as error:
        return fail(f"{error.filename or 'standard input'}: {error.strerror or error}")


async def _run(settings: Settings, args: argparse.Namespace) -> int:
    if args.action == "rebuild":
        return await _rebuild(settings, args)
    if args.action in ("import", "recall") and (name := getattr(args, "file", None) or args.queries):
        with opened(name) as source:
            async with room_operations(settings, args.name) as perform:
                if args.action == "import":
                    return await _import(perform, pieces(source), args)
                return await questions.answer(perform, pieces(source, questions.AT_ONCE), args)
    async with room_operations(settings, args.name) as perform:
        match args.action:
            case "recall":
                # People are shown what was only said next to a hit in the places that are left.
                most = args.limit if args.json else min(3 * args.limit, MOST_RECALLED)
                values = {"task_description": " ".join(args.text), "tags": args.tag, "limit": most}
                memories = await perform("recall", values)
                if not args.json:
                    memories = sorted(memories, key=lambda memory: said_beside(memory["why"]))[: args.limit]
                answer = {"id": None, "memories": [questions.with_key(memory) for memory in memories]}
                return _print(answer, questions.in_words, args)
            case "show":
                # Each number and id has a digit. Words are paths of their own in the room.
                if not any(map(str.isdigit, args.memory)):
                    from relay.memory.episodic.showing import unknown_memory

                    raise unknown_memory(args.memory)
                memory = await perform("show_memory", {"memory_id": args.memory})
                return _print(memory, _shown, args)
            case "forget":
                done = await perform("forget", {"memory_id": args.memory})
                return _print(done, _forgotten, args)
            case _:
                values = {"memory_id": args.memory, "useful": args.useful, "note": args.note}
                return _print(await perform("feedback", values), _judged, args)


async def _import(perform: Perform, source: Iterator[Piece], args: argparse.Namespace) -> int:
    from relay.memory.episodic.importing import ImportResult

    result = ImportResult()
    while (piece := await asyncio.to_thread(next, source, None)) is not None:
        try:
            await _keep(perform, piece, result)
        except Refusal as refusal:
            if refusal.fault not in (Fault.BUSY, Fault.UNAVAILABLE):
                raise
            raise Refusal(
                refusal.message, f"{refusal.fix} Then {GO_ON}".strip(), refusal.fault, refusal.code
            ) from refusal
    if not args.json and _is_other_file(result):
        name = "Standard input" if args.file == "-" else args.file
        none = f"none of its {len(result.refused):,} lines is JSON"
        return fail(safe(f"{name} is not a JSONL file: {none}; give one JSON object a line, like {EXAMPLE}"))
    print(json.dumps(result.as_json()) if args.json else safe(_imported(result)))
    return 1 if result.refused else 0


async def _keep(perform: Perform, piece: Piece, result: ImportResult) -> None:
    try:
        done = await perform("import_memories", {"lines": piece.lines})
    except Refusal as refusal:
        if refusal.code != "too_large" or len(piece.lines) == 1:
            raise
        for half in piece.halves():
            await _keep(perform, half, result)
        return
    from relay.memory.episodic.importing import ImportResult, RefusedLine

    before = piece.first - 1
    refused = [RefusedLine(line["line"] + before, line["reason"], line["fix"]) for line in done["refused"]]
    result.add(ImportResult(done["imported"], done["merged"], done["known"], refused))


def _is_other_file(result: ImportResult) -> bool:
    """Has none of several lines been JSON?"""
    from relay.memory.episodic.importing import NOT_JSON

    kept = result.imported + result.merged + result.known
    return (
        not kept
        and len(result.refused) > 1
        and all(line.reason.startswith(NOT_JSON) for line in result.refused)
    )


def _imported(result: ImportResult) -> str:
    counts = [f"{result.imported:,} imported"]
    counts += [f"{result.merged:,} joined with one that was there"] if result.merged else []
    counts += [f"{result.known:,} known"] if result.known else []
    counts += [f"{len(result.refused):,} refused"] if result.refused else []
    lines = [f"line {line.line}: {safe_line(line.reason, 200)} {line.fix}" for line in result.refused]
    more = len(lines) - MOST_TOLD
    return "\n".join(
        [f"{', '.join(counts)}.", *lines[:MOST_TOLD], *([f"and {more:,} more (--json has all)"] * (more > 0))]
    )


def _print(answer: Any, words: Any, args: argparse.Namespace) -> int:
    done = bool(answer.get("success", True))
    if not done and not args.json:
        return fail(f"{answer['message']} {answer['fix']}")
    print(json.dumps(answer) if args.json else safe(words(tame(answer))))
    return 0 if done else 1


def _judged(answer: dict[str, Any]) -> str:
    return f"It is noted: {answer['useful']} say that it helped, {answer['useless']} that it did not."


def _forgotten(answer: dict[str, Any]) -> str:
    numbered = [] if answer["number"] is None else [references.memory(answer["number"])]
    named = [] if answer["entry"] is None else [answer["entry"]]
    names = " and ".join(named + numbered)
    if answer["content"] is None:
        return f"{names}: forgotten before; nobody is told it."
    said = safe_line(answer["content"], MOST_FORGOTTEN)
    event = answer["event_id"]
    where = f" It stays in the log: {command(f'timeline show {event[:12]} --json')}" if event else ""
    rest = ", nor what else is known of the same message" if named and numbered else ""
    return f'Forgotten: {names}, "{said}". Nobody is told it again{rest}.{where}'


def _shown(memory: dict[str, Any]) -> str:
    from relay.memory.prompt import no_longer

    imported = f", imported by {memory['imported_by']}" if memory["imported_by"] else ""
    about = [
        ("by", whose(memory, memory["agent_id"] + imported)),
        ("when", f"{ago(memory['created_at'])} ({memory['created_at']})"),
        ("type", memory["event_type"]),
        ("tags", ", ".join(memory["tags"])),
        ("keys", ", ".join(memory["keys"])),
        ("joined", f"{memory['merged']} more" if memory["merged"] else ""),
        ("from", _from(memory)),
        ("id", memory["memory_id"]),
        *(("feedback" if at == 0 else " ", _word(said)) for at, said in enumerate(memory["feedback"])),
    ]
    ended = "" if memory["is_valid"] else f"({no_longer(memory['replaced_by'])}) "
    lines = [f"{references.memory(memory['number'])} {ended}{memory['content']}", ""]
    return "\n".join([*lines, table([[name, text] for name, text in about if text])])


def _from(memory: dict[str, Any]) -> str:
    """The message, and the event: `relay timeline show` takes the beginning of its id."""
    event = f"event {memory['event_id'][:12]}" if memory["event_id"] else ""
    if memory["message_number"] is None:
        return event
    return f"{references.message(memory['message_number'])} ({event})"


def _word(said: dict[str, Any]) -> str:
    """What somebody says of a memory."""
    note = f": {said['note']}" if said["note"] else ""
    return f"{said['agent_id']}, {ago(said['at'])}: {'useful' if said['useful'] else 'not useful'}{note}"


async def _rebuild(settings: Settings, args: argparse.Namespace) -> int:
    """On the database itself, beside a running room or without one."""
    if agents_key():
        raise Refusal(
            "Only a person rebuilds what is derived.", "Ask one in the room.", Fault.FORBIDDEN, "scope"
        )
    from relay.memory.episodic.indexing import index_anew
    from relay.memory.knowledge import ingest

    async with opened_database(settings) as (store, _):
        done = {"memories": await index_anew(store), "knowledge": await ingest.rebuild(store)}
    counts = f"the index of {done['memories']:,} memories, the knowledge of {done['knowledge']:,} events"
    return _print(done, lambda _: f"Made anew: {counts}.", args)
