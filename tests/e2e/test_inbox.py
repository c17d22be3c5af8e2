"""The inbox as a person lives with it: what needs them comes, is acted on, and is gone (docs/inbox.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.outside import Json, Outside, agent, eventually, room, settings

ASKS = '- say: "I can use a file or a table.\\n\\nWhich of the two do you **want**?"\n'
FAILS = "- fail: crash\n  detail: The disk is full.\n"
WORKS = "- say: It is done.\n"


def configuration() -> Json:
    return settings(
        agent("AVA", "asks.yaml"),
        agent("BEN", "works.yaml", budget={"turns_per_hour": 1}),
        agent("CLEO", "fails.yaml"),
        agent("DAN", "works.yaml"),
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
        assert (await act(told, question["id"], "answer", text="The table."))["success"]
        await goes(told, question["id"])

        # A circuit that opened: the message goes to another agent, and the attempt is made at once.
        failing = await told.post("@CLEO mend the build")
        failed = await comes(told, "failed_agent")
        assert "The disk is full." in failed["text"] and "1 failure in a row" in failed["text"]
        assert names(failed) == ["try", "give-AVA", "give-BEN", "give-DAN"]
        assert (await act(told, failed["id"], "give-DAN"))["success"]
        await told.reply_to(failing["id"], "DAN")
        assert names((await needs(told))[failed["id"]]) == ["try"]

        # A spent budget: raised by the button, in the file too. What was skipped meanwhile is tried again.
        await told.post("@BEN one")
        budget = await comes(told, "budget")
        skipped = await told.post("@BEN two")
        await told.until_job(skipped["id"], "BEN", "skipped")
        assert (await act(told, budget["id"], "raise"))["success"]
        assert json.loads(told.path.read_text())["agents"][1]["budget"] == {"turns_per_hour": 2}
        missed = await comes(told, "unanswered")
        assert missed["about"] == "BEN" and budget["id"] not in await needs(told)
        assert (await act(told, missed["id"], "retry"))["success"]
        await told.reply_to(skipped["id"], "BEN")
        await goes(told, missed["id"])

        # Spent again: put off until it is free, and brought back by its command.
        budget = await comes(told, "budget")
        ran = await told.relay("inbox", budget["id"], "wait")
        assert ran.code == 0 and "put `budget:BEN` off until" in ran.out
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
        assert ran.code == 1 and "it is settled, or put off" in ran.err


async def test_what_came_since_somebody_left_is_told_in_short(tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "asks.yaml").write_text(ASKS)
    async with room(folder, settings(agent("AVA", "asks.yaml"))) as told:
        await told.start()
        refused = await told.post("/since", "ann")
        assert "You have said nothing here before." in (await told.reply_to(refused["id"], "RELAY"))["body"]
        last = await told.post("@AVA I am off to lunch.", "ann")
        await told.reply_to(last["id"], "AVA")
        asked = await told.post("@AVA mend the import, please", "ben")
        await told.reply_to(asked["id"], "AVA")
        await comes(told, "question")

        came = await told.get(f"/api/since?after=m{last['number']}&name=ann")
        assert (came["after"], came["messages"]) == (last["number"], 3)
        assert came["answers"] == [{"name": "AVA", "count": 2}]
        assert came["said"] == [{"name": "ben", "count": 1}]
        assert (came["waits"], came["settled"], came["landed"], came["more"]) == (1, 0, [], False)
        assert "3 messages: AVA answered 2, ben said 1; waits for you: 1" in came["line"]
        questions = [one for one in came["lines"] if one["text"] == "Which of the two do you want?"]
        assert [one["speaker"] for one in questions] == ["AVA"], "said twice, told once"
        # By command, with and without the message; and what is wrong is said.
        for words in ("/since", f"/since m{last['number']}"):
            said = await told.post(words, "ann")
            body = (await told.reply_to(said["id"], "RELAY"))["body"]
            assert "waits for you: 1" in body and "Which of the two do you want?" in body
        wrong = await told.post("/since yesterday", "ann")
        assert "is no message" in (await told.reply_to(wrong["id"], "RELAY"))["body"]
        for query, status in (("after=m999", 404), ("", 400), ("after=m1&until=m2", 400)):
            assert (await told.ask("GET", f"/api/since?{query}"))[0] == status, query
