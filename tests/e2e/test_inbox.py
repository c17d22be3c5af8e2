"""The inbox as a person lives with it: what needs them comes, is acted on, and is gone (docs/inbox.md)."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.outside import PATIENCE_S, Json, Outside, agent, eventually, room, settings

ASKS = """\
- match: The table|Three|Name the names
  say: It is done.
- match: Count the carts
  say: How many are to be kept?
- say: "I can use a file or a table.\\n\\nWhich of the two do you **want**?"
"""
FAILS = "- fail: crash\n  detail: The disk is full.\n"
WORKS = "- say: It is done.\n"


def configuration() -> Json:
    return settings(
        agent("DAN", "works.yaml"),
        agent("BEN", "works.yaml", budget={"turns_per_hour": 1}),
        agent("CLEO", "fails.yaml"),
        agent("AVA", "asks.yaml"),
        locks={"circuit_breaker": {"failure_threshold": 1, "reset_timeout": 600}},
        queue={"max_attempts": 1},
    )


async def needs(told: Outside) -> dict[str, Json]:
    return {need["id"]: need for need in await told.get("/api/needs")}


async def comes(told: Outside, kind: str) -> Json:
    async def look() -> Json | None:
        return next((need for need in (await needs(told)).values() if need["kind"] == kind), None)

    found: Json = await eventually(look, f"a need of kind {kind}")
    return found


async def goes(told: Outside, id: str) -> None:
    async def look() -> bool:
        return id not in await needs(told)

    await eventually(look, f"{id} is gone")


async def act(told: Outside, id: str, action: str, **more: str) -> Any:
    status, done = await told.ask("POST", f"/api/needs/{id}", json={"name": "ann", "action": action, **more})
    assert status == 200, done
    return done


def names(need: Json) -> list[str]:
    return [action["name"] for action in need["actions"]]


async def test_what_needs_a_person_comes_is_acted_on_and_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    for name, script in (("asks", ASKS), ("fails", FAILS), ("works", WORKS)):
        (folder / f"{name}.yaml").write_text(script)
    async with room(folder, configuration()) as told:
        await told.start()
        assert await needs(told) == {}
        assert (await told.relay("inbox")).out.strip() == "Nothing needs you."

        # An answer that ends with a question waits until somebody answers.
        await told.post("@AVA keep the visits, please")
        question = await comes(told, "question")
        assert (question["about"], question["text"]) == ("AVA", "Which of the two do you want?")
        # What AVA says of other things meanwhile answers nothing, and may ask more.
        await told.post("/task Name the names")
        await told.post("/give t1 @AVA")
        await told.until_said("It is done", speaker="AVA")
        assert question["id"] in await needs(told)
        await told.post("/task Count the carts")
        await told.post("/give t2 @AVA")
        asked = await told.until_said("How many are to be kept", speaker="AVA")
        assert {f"question:m{asked['number']}", question["id"]} <= {*await needs(told)}
        # Nor does a review of its branch.
        reviewed = await told.post("/review @AVA Name the names better.")
        await told.reply_to(reviewed["id"], "AVA")
        # Nor a line that AVA may have written.
        told.echo("[ann] @AVA The table, never mind the rest")
        line = await told.until_said("never mind the rest", speaker="ann")
        await told.reply_to(line["id"], "AVA")
        # Nor any other order about it.
        for order in (f"/apply @AVA m{reviewed['number']}.1", "/land @AVA", "/abort @AVA", "/pause @AVA"):
            await told.reply_to((await told.post(order))["id"], "RELAY")
        await told.reply_to((await told.post("/resume @AVA"))["id"], "RELAY")
        assert {f"question:m{asked['number']}", question["id"]} <= {*await needs(told)}
        # The button answers one of them, in its thread.
        answered = await act(told, f"question:m{asked['number']}", "answer", text="Three.")
        assert (answered["success"], answered["undo"]) == (True, None)
        await goes(told, f"question:m{asked['number']}")
        said = await told.until_said("/steer @AVA Three", speaker="ann")
        assert said["in_reply_to"] == asked["id"] and question["id"] in await needs(told)
        # One that needs no answer is out for good, and the room says so in words.
        done = await act(told, question["id"], "later")
        words = f"ann gives no answer to AVA's question {question['ref']} (“Which of the two do you want?”)."
        assert done["reason"].startswith(f"{words} `{done['undo']}` brings it back"), done
        await goes(told, question["id"])
        twice = await told.relay("inbox", question["id"], "later")
        assert twice.code and f"{question['id']} needs no answer, said ann." in twice.err, twice.all
        back = await told.reply_to((await told.post(done["undo"]))["id"], "RELAY")
        assert back["body"].startswith("AVA's question") and question["id"] in await needs(told)
        # A message to AVA that answers none in its thread answers all.
        await told.post("@AVA The table.")
        await goes(told, question["id"])

        # A circuit that opened: its task goes to another agent, and to a third no more once that one has it.
        await told.post("/task Mend the build")
        await told.post("/give t3 @CLEO")
        failed = await comes(told, "failed_agent")
        assert "The disk is full." in failed["text"] and "1 failure in a row" in failed["text"]

        async def offered() -> Json | None:  # when the board has it that the message was given up
            need = (await needs(told))[failed["id"]]
            return need if len(need["actions"]) > 1 else None

        offer = await eventually(offered, "the task can be given")
        assert names(offer) == ["try", "give-AVA", "give-BEN", "give-DAN", "drop"]
        assert offer["actions"][3]["label"] == "Give t3 “Mend the build” to DAN"
        assert (await act(told, failed["id"], "give-DAN"))["success"]
        assert names((await needs(told))[failed["id"]]) == ["try"]

        # A spent budget: raised by the button, in the file too. What was skipped meanwhile is tried again.
        await told.post("@BEN one")
        budget = await comes(told, "budget")
        skipped = await told.post("@BEN two")
        await told.until_job(skipped["id"], "BEN", "skipped")
        assert (await comes(told, "budget"))["at"] == budget["at"]
        raised = await act(told, budget["id"], "raise")
        assert (raised["success"], raised["undo"]) == (True, "/budget @BEN turns_per_hour 1")
        assert json.loads(told.path.read_text())["agents"][1]["budget"] == {"turns_per_hour": 2}
        missed = await comes(told, "unanswered")
        assert missed["about"] == "BEN" and budget["id"] not in await needs(told)
        assert (await act(told, missed["id"], "retry"))["success"]
        await told.reply_to(skipped["id"], "BEN")
        await goes(told, missed["id"])

        # Many that were skipped are one need, whose button tries them all again. A limit that is lowered below what
        # was used is raised to one that frees the agent.
        await comes(told, "budget")
        many = [await told.post(f"@BEN number {n}") for n in range(5)]
        for each in many:
            await told.until_job(each["id"], "BEN", "skipped")
        await told.post("/budget @BEN turns_per_hour 1")
        await told.until_said("ann set BEN's .turns_per_hour. to 1", speaker="RELAY")
        lowered = await comes(told, "budget")
        assert lowered["actions"][0]["command"] == "/budget @BEN turns_per_hour 4"
        assert (await act(told, lowered["id"], "wait"))["success"]
        await told.post("/budget @BEN turns_per_hour 12")
        folded = await comes(told, "unanswered")
        assert "It has not answered 5 messages: " in folded["text"] and "and 2 more." in folded["text"]
        assert folded["short"] == "jobs:BEN"
        assert (await act(told, "jobs:BEN", "retry"))["success"]
        for each in many:
            await told.until_job(each["id"], "BEN", "done")
        await goes(told, folded["id"])

        # Spent again: it comes although the former limit was put off. Put off until it is free, and brought back.
        await told.post("/budget @BEN turns_per_hour 2")
        budget = await comes(told, "budget")
        ran = await told.relay("inbox", budget["id"], "wait")
        assert ran.code == 0 and "put `budget:BEN` off until" in ran.out
        assert "`/later budget:BEN undo` in the room takes it back." in ran.out
        assert budget["id"] not in await needs(told)
        await told.post("/later budget:BEN undo")
        await comes(told, "budget")

        # Every interface has the same list, in the same order.
        listed = await told.get("/api/needs")
        assert json.loads((await told.relay("inbox", "--json")).out) == listed
        shown = (await told.relay("inbox")).out
        assert [shown.index(need["text"]) for need in listed] == sorted(
            shown.index(need["text"]) for need in listed
        )
        asked = await told.post("/inbox")
        told_by_room = (await told.reply_to(asked["id"], "RELAY"))["body"]
        assert all(need["actions"][0]["command"] in told_by_room for need in listed)

        # What is wrong is said, and nothing is done.
        status, refused = await told.ask(
            "POST", f"/api/needs/{failed['id']}", json={"name": "ann", "action": "fly"}
        )
        assert status == 400 and refused["error"]["fix"] == "It has: try."
        status, refused = await told.ask(
            "POST", "/api/needs/agent:NOBODY", json={"name": "ann", "action": "try"}
        )
        assert status == 404
        ran = await told.relay("inbox", "agent:NOBODY", "try")
        assert ran.code == 1 and "Nothing in the inbox is agent:NOBODY" in ran.err


async def test_a_crash_without_budget_for_another_try_is_told_as_the_crash(tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "fails.yaml").write_text("- fail: crash\n  detail: 'exit code 3: boom'\n")
    async with room(folder, settings(agent("HAL", "fails.yaml", budget={"turns_per_hour": 1}))) as told:
        await told.start()
        asked = await told.post("@HAL work")
        why = "exit code 3: boom, and its budget leaves no further try"
        said = await told.until_said("HAL does not answer", speaker="RELAY")
        assert f"{why} (1 of 1 turns" in said["body"]
        jobs = (await told.get("/api/queue"))["jobs"]
        (job,) = [one for one in jobs if one["message_id"] == asked["id"]]
        assert (job["state"], job["reason"]) == ("skipped", why)
        # Whoever raises the budget knows what for.
        need = await comes(told, "budget")
        assert need["text"].endswith(f"Its last turn failed: {why}."), need
        assert f"Its last turn failed: {why}." in (await told.relay("inbox")).out
        # So who was away reads of it.
        since = await told.get(f"/api/since?after=m{asked['number']}")
        assert since["failed"] == ["HAL"]
        # The same where it is the circuit that leaves no second try.
        opens = settings(agent("HAL", "fails.yaml"), locks={"circuit_breaker": {"failure_threshold": 1}})
        told.kill()
        told.configure(opens)
        await told.start()
        again = await told.post("@HAL work on")
        why = "exit code 3: boom, and its open circuit leaves no further try"
        assert (await told.until_job(again["id"], "HAL", "skipped"))["reason"] == why
        said = await told.until_said("its open circuit leaves no", speaker="RELAY")
        assert f"HAL does not answer: {why} (2 failures in a row; one attempt at" in said["body"]
        need = await comes(told, "failed_agent")
        assert need["text"].endswith(f" Last: {why}."), need


async def test_one_message_that_fails_everywhere_is_one_need(tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "fails.yaml").write_text(FAILS)
    (folder / "works.yaml").write_text(WORKS)
    configured = settings(
        agent("CLEO", "fails.yaml"),
        agent("EVE", "fails.yaml"),
        agent("FAY", "fails.yaml", budget={"turns_per_hour": 1}),
        agent("GUS", "works.yaml", budget={"turns_per_hour": 1}),
        agent("HAL", "works.yaml"),
        locks={"circuit_breaker": {"failure_threshold": 1, "reset_timeout": 600}},
        queue={"max_attempts": 1},
    )
    async with room(folder, configured) as told:
        await told.start()
        await told.reply_to((await told.post("@GUS spend it"))["id"], "GUS")
        spent = await comes(told, "budget")
        assert (names(spent), spent["about"]) == (["raise", "wait"], "GUS")
        asked = await told.post("@CLEO do: crash")
        ref = f"m{asked['number']}"
        need = await comes(told, "failed_agent")
        # Nobody whose budget is spent is offered.
        assert names(need) == ["try", "give-EVE", "give-FAY", "give-HAL", "drop"], need
        assert need["actions"][-1]["label"] == "Drop it"
        assert (await act(told, need["id"], "give-EVE"))["success"]
        await told.until_job(asked["id"], "EVE", "dead")

        def failed_at(*agents: str) -> Callable[[], Awaitable[Json | None]]:
            async def look() -> Json | None:
                found = [one for one in (await needs(told)).values() if one["kind"] == "failed_agent"]
                said = f"{ref} failed at {' and '.join(agents)}: " in found[0]["text"].replace(", ", " and ")
                return found[0] if len(found) == 1 and said else None

            return look

        both = await eventually(failed_at("CLEO", "EVE"), "one need names both")
        assert (both["id"], both["about"]) == (need["id"], "CLEO and EVE")
        assert names(both) == ["try-CLEO", "try-EVE", "give-FAY", "give-HAL", "drop"]
        # A budget that is spent refuses a try, which then is not offered.
        assert (await act(told, need["id"], "give-FAY"))["success"]
        await told.until_job(asked["id"], "FAY", "dead")
        third = await eventually(failed_at("CLEO", "EVE", "FAY"), "it names all three")
        assert names(third) == ["try-CLEO", "try-EVE", "give-HAL", "drop"]
        (fay,) = [one for one in (await needs(told)).values() if one["about"] == "FAY"]
        assert (fay["kind"], names(fay)) == ("budget", ["raise", "wait"])
        assert "Its circuit is open, too, after 1 failure in a row." in fay["text"]
        assert f"{ref} failed at CLEO, EVE and FAY: " in fay["text"]
        refused = await told.reply_to((await told.post("/try @FAY"))["id"], "RELAY")
        assert "budget spent" in refused["body"] and "m<number>" not in refused["body"]

        # Who drops it is not asked for it again; another message that fails is another need.
        dropped = await act(told, need["id"], "drop")
        assert dropped["success"] and dropped["undo"] == "/later agent:CLEO undo"
        await goes(told, need["id"])
        assert {one["about"] for one in (await needs(told)).values()} == {"GUS", "FAY"}
        await told.post("@CLEO one more")
        again = await comes(told, "failed_agent")
        assert (again["about"], names(again)) == ("CLEO", ["try", "give-HAL", "drop"])


async def test_the_terminal_counts_what_needs_people(tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "asks.yaml").write_text(ASKS)
    async with room(folder, settings(agent("AVA", "asks.yaml"))) as told:
        await told.start()
        ours, theirs = pty.openpty()
        words = [sys.executable, "-m", "relay.cli", "join", "--config", str(told.path), "--name", "ann"]
        joined = await asyncio.create_subprocess_exec(
            *words, stdin=theirs, stdout=theirs, stderr=theirs, env=told.environ({"TERM": "xterm"})
        )
        os.close(theirs)
        os.set_blocking(ours, False)
        shown = bytearray()

        def shows(text: bytes) -> Callable[[], Awaitable[bool]]:
            async def look() -> bool:
                with suppress(BlockingIOError, OSError):
                    shown.extend(os.read(ours, 65536))
                return text in shown

            return look

        try:
            await eventually(shows(b"live"), "the terminal is in the room")
            assert b"need" not in shown
            await told.post("@AVA keep the visits")
            await eventually(shows(b"1 needs you: /inbox"), "the count")
            shown.clear()
            question = await comes(told, "question")
            assert (await act(told, question["id"], "later"))["success"]
            os.write(ours, b"/quit\r")
            assert await asyncio.wait_for(joined.wait(), PATIENCE_S) == 0
        finally:
            if joined.returncode is None:
                joined.kill()
                await joined.wait()
            os.close(ours)
