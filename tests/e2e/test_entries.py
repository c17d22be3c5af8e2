"""Single entries as people live with them, through each interface (docs/entries.md)."""

from __future__ import annotations

import hashlib
import json
import os
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
        # From a shell: to whom it answers, without a mention.
        ran = await told.relay(
            "message", "reply", f"m{heard['number']}", "and", "the", "file?", "--name", "bob"
        )
        assert ran.code == 0, ran.all
        said = await told.until_said("^and the file", speaker="bob")
        assert (ran.out.strip(), said["in_reply_to"]) == (f"m{said['number']}", heard["id"])
        await told.reply_to(said["id"], "BEN")
        assert (await told.relay("message", "reply", "m999", "no", "--name", "bob")).code == 1


async def test_a_file_is_kept_shown_and_read_by_its_path(tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    limits = {"max_file_bytes": 2048, "max_files_bytes": 4096, "max_files": 3}
    async with room(folder, settings(agent("AVA"), room=limits)) as told:
        await told.start()
        picture = b"\x89PNG\r\n\x1a\n" + bytes(100)
        status, sent = await told.ask("POST", "/api/files?name=../shot%20one.png", data=picture)
        assert status == 201, sent
        id = f"{hashlib.sha256(picture).hexdigest()}.png"
        assert (sent["id"], sent["name"], sent["type"], sent["size"]) == (
            id,
            "shot one.png",
            "image/png",
            108,
        )
        assert sent["reference"] == f"![shot one.png](relay-file:{id})"
        path = folder.resolve() / ".relay" / "files" / id
        assert sent["path"] == str(path) and path.read_bytes() == picture
        assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
        # The same once more is the same file.
        assert (await told.ask("POST", "/api/files?name=other.png", data=picture))[1]["id"] == id

        # An agent is given the path.
        asked = await told.post(f"@AVA look at {sent['reference']}")
        assert f"look at ![shot one.png]({path})" in (await told.reply_to(asked["id"], "AVA"))["body"]

        # A browser shows pictures, and runs nothing.
        script = b"<script>alert(1)</script>"
        page = (await told.ask("POST", "/api/files?name=x.html", data=script))[1]
        assert page["reference"] == f"[x.html](relay-file:{page['id']})"
        key = {"X-API-Key": told.token}
        for file, kind, how in (
            (id, "image/png", "inline"),
            (page["id"], "application/octet-stream", "attachment"),
        ):
            async with told.session.get(
                f"{told.url}/api/files/{file}?name=a%0Ab%22.html", headers=key
            ) as got:
                assert got.status == 200 and got.headers["Content-Type"] == kind
                assert got.headers["Content-Disposition"] == f"{how}; filename*=UTF-8''a%20b_.html"
                assert got.headers["X-Content-Type-Options"] == "nosniff"
                assert "sandbox" in got.headers["Content-Security-Policy"]
                assert await got.read() == (picture if file == id else script)
        async with told.session.get(f"{told.url}/api/files/{id}") as got:
            assert got.status == 401
        for wrong in ("..%2Ftoken", "token", f"{'0' * 64}.png", f"{id}.png"):
            status, refused = await told.ask("GET", f"/api/files/{wrong}")
            assert status == 404 and refused["error"]["fix"], wrong

        # What is too much is refused, with what to do.
        status, refused = await told.ask("POST", "/api/files?name=big.bin", data=bytes(4000))
        assert status in (400, 413), refused
        assert (await told.ask("POST", "/api/files?name=none.txt", data=b""))[0] == 400
        assert (await told.ask("POST", "/api/files", data=b"x"))[0] == 400
        (folder / "notes.txt").write_text("some notes")
        ran = await told.relay("message", "file", str(folder / "notes.txt"))
        reference, where = ran.out.splitlines()
        assert (
            ran.code == 0 and Path(where).read_text() == "some notes" and reference.startswith("[notes.txt](")
        )
        status, refused = await told.ask("POST", "/api/files?name=more.txt", data=b"more")
        assert status == 503 and "no space for more" in refused["error"]["message"]
        # What no message names makes room, once it has waited an hour; what one names stays.
        for file in path.parent.iterdir():
            os.utime(file, (1, 1))
        status, more = await told.ask("POST", "/api/files?name=more.txt", data=b"more")
        assert status == 201
        assert {file.name for file in path.parent.iterdir()} == {id, more["id"]}
