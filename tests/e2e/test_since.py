"""What came since somebody left, by HTTP and by command (docs/inbox.md)."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.test_inbox import ASKS, comes
from tests.outside import agent, room, settings


async def test_what_came_since_somebody_left_is_told_in_short(tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "asks.yaml").write_text(ASKS)
    (folder / "fails.yaml").write_text("- fail: crash\n  detail: The disk is full.\n")
    agents = (agent("AVA", "asks.yaml"), agent("CLEO", "fails.yaml"))
    async with room(folder, settings(*agents, queue={"max_attempts": 1})) as told:
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
        # What was not answered is told too, and counts as no answer.
        sent = await told.post("@CLEO sort it", "ben")
        await told.until_job(sent["id"], "CLEO", "dead")
        came = await told.get(f"/api/since?after=m{last['number']}&name=ann")
        assert came["failed"] == ["CLEO"] and "; failed: CLEO; waits for you: 2" in came["line"], came
        assert [one["name"] for one in came["answers"]] == ["AVA"]
        wrong = await told.post("/since yesterday", "ann")
        assert "is no message" in (await told.reply_to(wrong["id"], "RELAY"))["body"]
        for query, status in (
            ("after=m999", 404),
            ("", 400),
            ("after=m1&until=m2", 400),
            ("after=m1&worded=1", 400),
        ):
            assert (await told.ask("GET", f"/api/since?{query}"))[0] == status, query
        # Without a model nothing is worded.
        assert await told.get(f"/api/since?after=m{last['number']}&name=ann&worded=true") == {"worded": None}
