"""Who does what, for whom, and what it costs: as the state, the room, HTTP and the command line say it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.outside import Json, Outside, agent, eventually, room, settings

AVA = """\
- match: quickly
  say: It is done.
  usage: {input_tokens: 1200, cache_write_tokens: 7, cache_read_tokens: 30000, output_tokens: 40, cost_usd: 0.75}
- tool: {name: Read, summary: src/login.py}
  say: ["I read it.", "It is done."]
  pause_s: 60
"""
BEN = "- say: Done too.\n  usage: {input_tokens: 10, output_tokens: 2}\n"


async def of(told: Outside, name: str) -> Json:
    return next(one for one in (await told.get("/api/state"))["agents"] if one["name"] == name)


async def test_who_works_on_what_and_what_it_cost(tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "ava.yaml").write_text(AVA)
    (folder / "ben.yaml").write_text(BEN)
    agents = (agent("AVA", "ava.yaml", about="Knows the\n login page"), agent("BEN", "ben.yaml"))
    async with room(folder, settings(*agents)) as told:
        await told.start()
        use = await told.get("/api/usage")
        assert use["agents"] == {} and use["total"]["turns"] == 0 and len(use["hours"]) >= 24
        assert "No turn has begun" in (await told.relay("agents", "cost")).out
        assert (await of(told, "AVA"))["about"] == "Knows the login page"
        assert (await of(told, "BEN"))["about"] == ""

        # What it works on is said in its person's words, with its last tool.
        asked = await told.post("@AVA slowly mend\nthe login " + "and more " * 60)

        async def reads() -> Json | None:
            running = (await of(told, "AVA"))["running"]
            return running if running and running["tool"] else None

        running = await eventually(reads, "AVA reads")
        assert running["message_id"] == asked["id"] and running["tool"] == "Read: src/login.py"
        assert running["asked"]["by"] == "ann" and len(running["asked"]["text"]) == 240
        assert running["asked"]["text"].startswith("@AVA slowly mend the login and more")
        # What is said right after a cancel is not cancelled with it.
        await told.post("/cancel @AVA")

        for name in ("AVA", "BEN"):
            question = await told.post(f"@{name} quickly")
            await told.reply_to(question["id"], name)

        # Who reads the queue later sees what each job is about.
        jobs = (await told.get("/api/queue"))["jobs"]
        assert jobs[0]["asked"] == {"number": question["number"], "by": "ann", "text": "@BEN quickly"}

        # The room, HTTP and the command line say the same.
        use = await told.get("/api/usage")
        ava, ben, total = use["agents"]["AVA"], use["agents"]["BEN"], use["total"]
        assert (ava["input"], ava["cache_write"], ava["cache_read"], ava["output"]) == (1200, 7, 30000, 40)
        # The turn that was cancelled told no price.
        assert (ava["usd"], ava["unpriced"]) == (0.75, 1)
        assert (ben["usd"], ben["unpriced"], ben["output"]) == (0, 1, 2)
        assert (total["turns"], total["output"], total["usd"]) == (3, 42, 0.75)
        assert use["hours"][-1]["agents"].keys() <= {"AVA", "BEN"}
        assert json.loads((await told.relay("agents", "cost", "--json")).out)["total"] == total
        shown = (await told.relay("agents", "cost")).out.splitlines()
        assert shown[1].split() == ["AVA", "2", "1,200", "7", "30,000", "40", "$0.75", "and", "more"]
        assert shown[2].split() == ["BEN", "1", "10", "0", "0", "2", "not", "told"]
        assert shown[3].split() == ["all", "3", "1,210", "7", "30,000", "42", "$0.75", "and", "more"]
        asked = await told.post("/cost")
        said = (await told.reply_to(asked["id"], "RELAY"))["body"]
        assert "| all | 3 | 1,210 | 7 | 30,000 | 42 | $0.75 and more |" in said

        # An agent that waits for work says what it did last, and which task it has.
        last = (await of(told, "BEN"))["last"]
        assert last["asked"] == {"by": "ann", "text": "@BEN quickly"} and last["number"] == question["number"]
        await told.post("/task Write the docs quickly")
        await told.post("/give t1 @AVA")

        async def worked() -> bool:
            return "Write the docs" in (await of(told, "AVA"))["last"]["asked"]["text"]

        await eventually(worked, "AVA's task")
        who = await told.post("/who")
        said = (await told.reply_to(who["id"], "RELAY"))["body"]
        assert f"**BEN** is ready; last: quickly (m{question['number']}), " in said
        assert "**AVA** is ready; has t1; last: t1: Write the docs quickly " in said

        # A command and Markdown are not its person's words; and what was deleted is not told again.
        async def last_of_ben(body: str) -> Json:
            posted = await told.post(body)
            await told.reply_to(posted["id"], "BEN")
            return dict((await of(told, "BEN"))["last"])

        picture = "![cart.png](relay-file:0011.png) **Now** `src/**`, as [said](https://a.b/c)"
        last = await last_of_ben(f"/steer @BEN {picture}")
        assert last["asked"]["text"] == "cart.png Now src/**, as said"
        comment = "1 comment on `tw/ann/ben` at 0123456789ab:\n\n`src/cart.py`, line 2: no"
        last = await last_of_ben(f"/review @BEN {comment}")
        assert last["asked"]["text"] == "1 comment on your branch"
        await told.post(f"/delete m{last['number']}")

        async def is_deleted() -> bool:
            return bool((await of(told, "BEN"))["last"]["asked"]["text"] == "deleted")

        await eventually(is_deleted, "the last line of BEN says that it was deleted")
        jobs = (await told.get("/api/queue"))["jobs"]
        assert next(job for job in jobs if job["agent"] == "BEN")["asked"]["text"] == "deleted"

        told.kill()
        assert (await told.relay("agents", "cost")).code == 1
