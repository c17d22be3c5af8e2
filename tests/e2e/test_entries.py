"""Single entries as people live with them, through each interface (docs/entries.md)."""

from __future__ import annotations

import json
from pathlib import Path

from tests.outside import agent, room, settings


async def test_a_message_is_changed_and_deleted_and_the_file_keeps_it(tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "works.yaml").write_text("- say: It is done.\n")
    async with room(folder, settings(agent("AVA", "works.yaml"))) as told:
        await told.start()
        asked = await told.post("@AVA paint the walrus")
        await told.reply_to(asked["id"], "AVA")
        number, at = asked["number"], f"/api/messages/{asked['id']}"
        status, done = await told.ask("POST", f"{at}/edit", json={"name": "ann", "body": "@AVA the narwhal"})
        assert status == 200 and done["success"], done
        assert done["reason"].startswith(f"ann edited m{number}. AVA answered what it said before")
        ran = await told.relay("message", "edit", f"m{number}", "@AVA", "the", "giraffe", "--name", "ann")
        assert ran.code == 0 and f"ann edited m{number}." in ran.out, ran.all
        typed = await told.post(f"/edit #{number} @AVA the tapir")
        await told.reply_to(typed["id"], "RELAY")

        versions = ["@AVA paint the walrus", "@AVA the narwhal", "@AVA the giraffe", "@AVA the tapir"]
        shown = await told.relay("message", "versions", f"m{number}")
        assert [line.split("  ", 1)[1] for line in shown.out.splitlines()] == versions
        entry = next(one for one in await told.entries() if one["id"] == asked["id"])
        assert entry["body"] == versions[-1] and len(entry["meta"]["edited"]["by_entries"]) == 3
        assert [hit["id"] for hit in (await told.get("/api/search?q=tapir"))["entries"]] == [asked["id"]]
        assert (await told.get("/api/search?q=walrus"))["entries"] == []

        # Another person may not, an agent's message is nobody's to change, and what is wrong is said.
        status, refused = await told.ask("POST", f"{at}/edit", json={"name": "bob", "body": "mine"})
        assert status == 200 and not refused["success"] and "is ann's; you are bob" in refused["reason"]
        ran = await told.relay("message", "delete", f"m{number + 1}", "--name", "ann")
        assert ran.code == 1 and "only people change what they wrote" in ran.out
        status, refused = await told.ask("POST", "/api/messages/m999/delete", json={"name": "ann"})
        assert status == 404 and refused["error"]["message"] == "There is no message m999."
        status, refused = await told.ask("POST", f"{at}/edit", json={"name": "ann", "body": " "})
        assert status == 400

        assert (await told.relay("message", "delete", f"m{number}", "--name", "ann")).code == 0
        entry = next(one for one in await told.entries() if one["id"] == asked["id"])
        assert entry["body"] == "" and "deleted" in entry["meta"] and "edited" not in entry["meta"]
        assert (await told.get("/api/search?q=tapir"))["entries"] == []
        # Nothing that the room answers has the text any more. The file has all of it.
        everything = json.dumps([*await told.entries(), await told.get("/api/queue")])
        assert "tapir" not in everything and "walrus" not in everything
        assert (await told.relay("message", "versions", f"m{number}")).code == 1
        assert (await told.script("stop.sh")).code == 0
        lines = [fields for _, fields in told.file_lines() if isinstance(fields, dict)]
        assert [line["body"] for line in lines if line["id"] == asked["id"]] == [versions[0]]
        assert [
            line["body"] for line in lines if line["body"].startswith("/edit") and line["speaker"] == "ann"
        ] == [
            *(f"/edit m{number} {text}" for text in versions[1:3]),
            f"/edit #{number} {versions[3]}",
        ]
        named = [line["meta"]["edits"]["message"] for line in lines if "edits" in line.get("meta", {})]
        assert named == [asked["id"]] * 4

        # Started again, the room and its file agree: nothing is said to be forged, nothing comes twice.
        before = len(told.file_lines())
        await told.start()
        assert len(told.file_lines()) == before
        assert not [
            one for one in await told.entries() if str(one["meta"].get("notice", "")).startswith("transcript")
        ]
        entry = next(one for one in await told.entries() if one["id"] == asked["id"])
        assert entry["body"] == ""


async def test_pins_are_the_same_everywhere(tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    async with room(folder, settings(agent("AVA"))) as told:
        await told.start()
        said = await told.post("Prices are in cents, @bob")
        number = f"m{said['number']}"
        ran = await told.relay("message", "pin", number, "--name", "ann")
        assert ran.code == 0 and ran.out.strip() == f"ann pinned {number}."
        (pin,) = (await told.get("/api/pins"))["pins"]
        assert (pin["id"], pin["pinned_by"]) == (said["id"], "ann")
        assert (await told.relay("message", "pins")).out.strip() == f"{number} ann: Prices are in cents, @bob"
        asked = await told.post("/pins", name="bob")
        assert "Prices are in cents" in (await told.reply_to(asked["id"], "RELAY"))["body"]
        status, again = await told.ask("POST", f"/api/messages/{said['id']}/pin", json={"name": "bob"})
        assert status == 200 and again == {
            "success": False,
            "reason": f"ann pinned {number} already. `/pins` shows what is pinned.",
        }
        status, done = await told.ask("POST", f"/api/messages/{number}/unpin", json={"name": "bob"})
        assert status == 200 and done["success"] and (await told.get("/api/pins"))["pins"] == []


async def test_a_thread_is_the_same_everywhere(tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "asks.yaml").write_text('- say: "{context}"\n')
    async with room(folder, settings(agent("AVA"), agent("BEN", "asks.yaml"))) as told:
        await told.start()
        root = await told.post("@AVA which database?")
        answer = await told.reply_to(root["id"], "AVA")
        await told.post("@AVA something else")
        asked = await told.post("@BEN is that right?", name="bob", in_reply_to=answer["id"])

        heard = await told.reply_to(asked["id"], "BEN")
        assert "[ann, in this thread] @AVA which database?\n[AVA, in this thread] AVA heard" in heard["body"]

        page = await told.get(f"/api/transcript?thread=m{answer['number']}")
        assert [entry["id"] for entry in page["entries"]] == [
            root["id"],
            answer["id"],
            asked["id"],
            heard["id"],
        ]
        assert [entry["thread"] for entry in page["entries"]] == [None, *([root["id"]] * 3)]
        assert page["entries"][0]["replies"] == 3 and page["more"] is False
        assert (await told.get(f"/api/transcript?thread={root['id']}&limit=2"))["more"] is True
        shown = await told.relay("message", "thread", root["id"])
        assert shown.code == 0 and shown.out.splitlines()[0] == f"m{root['number']} ann: @AVA which database?"
        command = await told.post(f"/thread m{asked['number']}")
        said = (await told.reply_to(command["id"], "RELAY"))["body"]
        assert [line.split("**")[1] for line in said.splitlines() if line.startswith("- m")] == [
            "ann",
            "AVA",
            "bob",
            "BEN",
        ]
        for wrong in ("thread=m999", "thread=m1&after=0"):
            status, refused = await told.ask("GET", f"/api/transcript?{wrong}")
            assert status in (400, 404) and refused["error"]["fix"]
