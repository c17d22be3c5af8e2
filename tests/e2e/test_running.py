"""A running room: its configuration is changed, it is looked after, mended and stopped."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.e2e.conftest import Open
from tests.outside import Json, Outside, Ran, agent, eventually, program, room, settings

TELL_MODEL = "import sys\nsys.stdin.read()\nprint('my model is', sys.argv[1])\n"


def _check(ran: Ran, name: str) -> Json:
    checks: list[Json] = json.loads(ran.out)["checks"]
    return next(check for check in checks if check["name"] == name)


# -- config.json


async def test_a_new_agent_appears_and_one_that_is_taken_out_goes(open_room: Open) -> None:
    one = await open_room(agent("ECHO"))
    one.configure(settings(agent("ECHO"), agent("NEW")))

    async def there() -> bool:
        names = [a["name"] for a in (await one.get("/api/state"))["agents"]]
        return names == ["ECHO", "NEW"]

    await eventually(there, "the new agent")
    posted = await one.post("@NEW welcome")
    await one.reply_to(posted["id"], "NEW")
    one.configure(settings(agent("NEW")))

    async def gone() -> bool:
        return [a["name"] for a in (await one.get("/api/state"))["agents"]] == ["NEW"]

    await eventually(gone, "the old agent to go")
    posted = await one.post("@ECHO and @NEW?")
    await one.reply_to(posted["id"], "NEW")
    assert [j["agent"] for j in await one.jobs() if j["message_id"] == posted["id"]] == ["NEW"]


async def test_what_is_saved_while_the_daemon_starts_is_not_missed(open_room: Open) -> None:
    one = await open_room(agent("ECHO"), start=False)
    one.launch()

    async def claimed() -> bool:
        return (one.folder / "speaker.lock").exists()

    await eventually(claimed, "the daemon to have read its configuration", every_s=0.001)
    one.configure(settings(agent("ECHO"), agent("NEW")))
    await one.until_open()
    await eventually(lambda: _has(one, "NEW"), "the new agent")


async def test_an_agent_that_is_taken_out_in_the_middle_of_a_turn(open_room: Open) -> None:
    slow = "- delay_s: 2\n  say: '{agent} heard {body}'\n"
    one = await open_room(agent("SLOW", "slow.yaml"), agent("ECHO"), files={"slow.yaml": slow})
    first = await one.post("@SLOW one")
    await one.until_job(first["id"], "SLOW", "active")
    second = await one.post("@SLOW two")
    one.configure(settings(agent("ECHO")))
    await one.until_job(first["id"], "SLOW", "done")
    job = await one.until_job(second["id"], "SLOW", "skipped")
    assert "configuration" in job["reason"]


async def test_a_change_of_the_model_applies_to_the_next_turn(open_room: Open) -> None:
    def asked(model: str) -> Json:
        return program("MODEL", "model.py", "{model}", model=model)

    one = await open_room(asked("small"), files={"model.py": TELL_MODEL})
    posted = await one.post("@MODEL which?")
    assert (await one.reply_to(posted["id"], "MODEL"))["body"] == "my model is small"
    one.configure(settings(asked("large")))

    async def changed() -> bool:
        return bool((await one.agent("MODEL"))["model"] == "large")

    await eventually(changed, "the new model")
    posted = await one.post("@MODEL which?")
    assert (await one.reply_to(posted["id"], "MODEL"))["body"] == "my model is large"
    status, told = await one.ask("PATCH", "/api/agents/MODEL", json={"model": "huge", "name": "ann"})
    assert (status, told["success"]) == (200, True)
    assert json.loads(one.path.read_text())["agents"][0]["model"] == "huge"
    posted = await one.post("@MODEL which?")
    assert (await one.reply_to(posted["id"], "MODEL"))["body"] == "my model is huge"

    # As a person types it, and from a shell.
    posted = await one.post("/agent @model effort high off model default")
    said = await one.reply_to(posted["id"], "RELAY")
    assert said["body"] == "ann set MODEL: model = None, effort = high, enabled = False."
    kept = json.loads(one.path.read_text())["agents"][0]
    assert (kept["effort"], kept["enabled"], "model" in kept) == ("high", False, False)
    one.echo("[bob] /agent @MODEL on")
    forged = await one.until_said("^/agent @MODEL on$", speaker="bob")
    assert "lifts a guard" in (await one.reply_to(forged["id"], "RELAY"))["body"]
    told = await one.relay("agents", "set", "MODEL", "--on", "--model", "small", "--name", "ann")
    assert told.code == 0, told
    await one.until_said(r"^ann set MODEL: model = small, enabled = True\.$", speaker="RELAY")
    posted = await one.post("@MODEL which?")
    assert (await one.reply_to(posted["id"], "MODEL"))["body"] == "my model is small"
    told = await one.relay("agents", "set", "NOBODY", "--off")
    assert told.code == 1 and "no agent NOBODY" in told.err
    assert (await one.relay("agents", "set", "MODEL")).code == 2


async def test_changes_from_several_pages_at_once_all_hold(open_room: Open) -> None:
    names = ["ONE", "TWO", "THREE"]
    one = await open_room(*(agent(name) for name in names))
    told = await asyncio.gather(
        *(one.ask("PATCH", f"/api/agents/{name}", json={"model": f"of-{name}"}) for name in names)
    )
    assert [status for status, _ in told] == [200, 200, 200]
    kept = {each["name"]: each.get("model") for each in json.loads(one.path.read_text())["agents"]}
    assert kept == {name: f"of-{name}" for name in names}
    assert {name: (await one.agent(name))["model"] for name in names} == kept
    status, told_off = await one.ask("PATCH", "/api/agents/ONE", json={"model": "m\x1b[2J"})
    assert (status, told_off["error"]["code"]) == (400, "bad_request")


async def test_a_broken_configuration_is_announced_and_changes_nothing(open_room: Open) -> None:
    one = await open_room(agent("ECHO"))
    one.configure(json.dumps(settings(agent("ECHO"))).replace('"jitter"', '"jiter"'))
    said = await one.until_said("cannot be used; the room continues with the old one", speaker="RELAY")
    assert "jiter" in said["body"]
    assert "jitter" in said["body"]
    posted = await one.post("@ECHO still?")
    await one.reply_to(posted["id"], "ECHO")
    one.configure("{")
    await one.until_said("cannot be used(?s:.)*JSON", speaker="RELAY")
    one.path.unlink()
    posted = await one.post("@ECHO and without any?")
    await one.reply_to(posted["id"], "ECHO")
    one.configure(settings(agent("ECHO"), agent("BACK")))
    await eventually(lambda: _has(one, "BACK"), "the mended configuration to apply")


async def _has(one: Outside, name: str) -> bool:
    return name in [a["name"] for a in (await one.get("/api/state"))["agents"]]


async def test_what_needs_a_restart_says_so_and_the_rest_applies(open_room: Open) -> None:
    one = await open_room(agent("ECHO"))
    changed = settings(agent("ECHO"), agent("NEW"))
    changed["ui"]["port"] = 45_123
    one.configure(changed)
    said = await one.until_said("needs a restart", speaker="RELAY")
    assert "ui.port" in said["body"]
    await eventually(lambda: _has(one, "NEW"), "what applies at once")


async def test_a_configuration_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    async with room(tmp_path / "room", {"agent": [], "ui": {"port": "high"}}) as one:
        ran = await one.relay("run")
        assert ran.code == 1
        for word in ("agent", "agents", "ui.port", "high", "65535"):
            assert word in ran.err
        assert not one.runtime.exists() or not (one.runtime / "relay.pid").exists()


async def test_a_port_that_is_taken_is_said(open_room: Open) -> None:
    one = await open_room(agent("ECHO"))
    told = one.state_file()
    assert told is not None
    other = await open_room(agent("ECHO"), start=False, ui={"port": told["port"]})
    ran = await other.relay("run")
    assert ran.code == 1
    assert "ui.port" in ran.err
    assert not (other.folder / "speaker.lock").exists()


async def test_in_the_foreground_too_what_is_wrong_is_one_line(open_room: Open) -> None:
    one = await open_room(agent("ECHO"))
    told = one.state_file()
    assert told is not None
    again = await one.relay("run", "--foreground")
    other = await open_room(agent("ECHO"), start=False, ui={"port": told["port"]})
    taken = await other.relay("run", "--foreground")
    broken = await open_room(agent("ECHO"), start=False)
    broken.runtime.mkdir()
    (broken.runtime / "events.db").write_text("this is no database, and long enough to be looked at\n" * 99)
    damaged = await broken.relay("run", "--foreground")
    for ran, says in ((again, "runs already|relay runs"), (taken, "ui.port"), (damaged, "database")):
        assert ran.code == 1
        assert re.search(says, ran.err)
        assert "Traceback" not in ran.all


async def test_a_token_that_is_none_stops_the_start_in_one_line(open_room: Open) -> None:
    damaged = await open_room(agent("ECHO"), start=False)
    damaged.runtime.mkdir()
    (damaged.runtime / "token").write_text("short\n")
    for words in (("run",), ("run", "--foreground")):
        ran = await damaged.relay(*words)
        assert ran.code == 1
        assert re.search(
            "relay: .*token has no token; remove it, and the next start makes a new one", ran.err
        )
        assert "Traceback" not in ran.all
        assert not (damaged.folder / "speaker.lock").exists()


async def test_a_damaged_record_is_replaced_and_a_link_says_what_to_do(open_room: Open) -> None:
    one = await open_room(agent("ECHO"), start=False)
    (one.folder / "speaker.lock").write_text("garbage\n")
    link = await one.relay("link")
    assert link.code == 1
    assert "scripts/start.sh" in link.err
    assert "Traceback" not in link.err
    ran = await one.relay("run")
    assert (ran.code, "The room is open" in ran.out) == (0, True)
    assert (await one.relay("link")).code == 0


def _on_terminal(one: Outside, terminal: int) -> subprocess.Popen[bytes]:
    """`relay run --foreground` in a terminal."""
    command = [sys.executable, "-m", "relay.cli", "run", "--foreground", "--config", str(one.path)]
    return subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=one.environ(), start_new_session=True
    )


async def test_a_journal_gets_no_link_and_a_terminal_does(open_room: Open) -> None:
    one = await open_room(agent("ECHO"), start=False)
    await one.start(detached=False)

    async def greeted() -> bool:
        return "relay link`" in one.said()

    await eventually(greeted, "the greeting")
    assert "#link=" not in one.said()
    await one.end()
    master, slave = os.openpty()
    try:
        one.process = _on_terminal(one, slave)
        os.set_blocking(master, False)
        shown = b""

        async def linked() -> bool:
            nonlocal shown
            with suppress(BlockingIOError):
                shown += os.read(master, 65536)
            return b"#link=" in shown

        await eventually(linked, "the link on the terminal")
    finally:
        await one.end()
        os.close(slave)
        os.close(master)


# -- healthcheck.sh and stop.sh


async def test_the_scripts_tell_the_truth(open_room: Open) -> None:
    one = await open_room(agent("ECHO"), start=False)
    never = await one.script("healthcheck.sh", "--json")
    assert never.code == 1
    assert (await one.script("stop.sh")).code == 0
    await one.start()
    posted = await one.post("@ECHO are you well?")
    await one.reply_to(posted["id"], "ECHO")
    well = await one.script("healthcheck.sh", "--json")
    assert well.code == 0, well.all
    report = json.loads(well.out)
    assert report["ok"] is True
    assert all(set(check) >= {"name", "status", "detail", "repaired"} for check in report["checks"])
    assert {check["status"] for check in report["checks"]} <= {"ok", "warning"}
    mended = await one.script("healthcheck.sh", "--repair")
    assert mended.code == 0, mended.all
    assert (await one.script("stop.sh")).code == 0
    assert not one.is_open()
    stopped = await one.script("healthcheck.sh", "--repair", "--json")
    assert stopped.code == 1
    assert _check(stopped, "daemon")["status"] == "failed"
    assert (await one.script("healthcheck.sh", "--nonsense")).code == 2
    assert (await one.script("stop.sh", "--nonsense")).code == 2


async def test_repair_mends_what_a_kill_left(open_room: Open) -> None:
    hang = "import time\ntime.sleep(300)\n"
    one = await open_room(program("HANG", "hang.py"), agent("ECHO"), files={"hang.py": hang})
    posted = await one.post("@HANG work")
    await one.until_job(posted["id"], "HANG", "active")
    task = await one.post("/task survive")
    await one.reply_to(task["id"], "RELAY")
    await eventually(lambda: _file_has(one.runtime / "tasks.json", "survive"), "the board's file")
    one.kill()
    (one.runtime / "tasks.json").write_text("{")
    seen = await one.script("healthcheck.sh", "--json")
    assert seen.code == 1
    assert _check(seen, "daemon")["status"] == "failed"
    assert _check(seen, "lock")["status"] != "ok"
    assert (one.folder / "speaker.lock").exists()
    mended = await one.script("healthcheck.sh", "--repair", "--json")
    assert mended.code == 1  # nobody runs the room: a repair does not start it
    assert _check(mended, "lock")["status"] == "ok"
    assert _check(mended, "lock")["repaired"]
    assert _check(mended, "queue")["repaired"]
    assert await _file_has(one.runtime / "tasks.json", "survive")
    assert not (one.folder / "speaker.lock").exists()
    (one.folder / "hang.py").write_text("import sys\nprint('cut off' in sys.stdin.read())\n")
    await one.start()
    assert (await one.reply_to(posted["id"], "HANG"))["body"] == "True"
    assert (await one.script("healthcheck.sh")).code == 0


async def _file_has(path: Path, text: str) -> bool:
    return path.exists() and text in path.read_text()


async def test_stop_drains_a_turn_that_ends_in_time(open_room: Open) -> None:
    slow = "- delay_s: 1.5\n  say: 'done in time'\n"
    one = await open_room(agent("SLOW", "slow.yaml"), files={"slow.yaml": slow}, stop={"drain_s": 30})
    posted = await one.post("@SLOW finish this")
    await one.until_job(posted["id"], "SLOW", "active")
    stopped = await one.script("stop.sh")
    assert stopped.code == 0, stopped.all
    lines = [told for _, told in one.file_lines() if isinstance(told, dict)]
    assert [told["body"] for told in lines if told["speaker"] == "SLOW"] == ["done in time"]
    await one.start()
    assert (await one.until_job(posted["id"], "SLOW", "done"))["attempts"] == 1


async def test_a_stale_record_of_another_program_is_no_obstacle(open_room: Open) -> None:
    one = await open_room(agent("ECHO"))
    one.kill()
    record = json.loads((one.folder / "speaker.lock").read_text())
    record["pid"] = os.getpid()
    (one.folder / "speaker.lock").write_text(json.dumps(record))
    stopped = await one.script("stop.sh")  # must not stop the process that has the pid by now: this one
    assert stopped.code == 0, stopped.all
    await one.start()
    posted = await one.post("@ECHO there?")
    await one.reply_to(posted["id"], "ECHO")


async def test_a_stopped_process_is_not_called_healthy(open_room: Open) -> None:
    one = await open_room(agent("ECHO"), locks={"ttl": 2})
    assert one.process is not None
    one.process.send_signal(signal.SIGSTOP)
    try:

        async def seen() -> bool:
            return (await one.script("healthcheck.sh")).code == 1

        await eventually(seen, "the health check to see it")
        second = await one.relay("run", "--foreground")
        assert second.code == 1  # it may wake at any moment
    finally:
        one.process.send_signal(signal.SIGCONT)
    posted = await one.post("@ECHO awake?")
    await one.reply_to(posted["id"], "ECHO")


# -- the transcript file


async def test_the_file_survives_what_people_do_to_it(open_room: Open) -> None:
    one = await open_room(agent("ECHO"), workspace={"max_entry_bytes": 2 << 20})
    posted = await one.post("@ECHO first")
    await one.reply_to(posted["id"], "ECHO")
    await eventually(lambda: _written(one), "the file to be complete")
    with one.transcript.open("ab") as file:
        file.write(b"[bob] @ECHO without an end")
    second = await one.post("@ECHO second")
    await one.reply_to(second["id"], "ECHO")
    unfinished = await one.until_said("@ECHO without an end", speaker="bob")
    await one.reply_to(unfinished["id"], "ECHO")
    with one.transcript.open("ab") as file:
        file.write(b"[bob] @ECHO bad \xff bytes\n" + b"[bob] @ECHO " + b"y" * (1 << 20) + b"\n")
        file.write(b"[bob] @ECHO " + b"z" * (3 << 20) + b"\n")
    for pattern in ("bad \ufffd bytes", "^@ECHO y{1048576}$"):
        asked = await one.until_said(pattern, speaker="bob")
        await one.until_job(asked["id"], "ECHO", "done")
    await one.until_said("An entry of 3,1[0-9,]* bytes in the transcript was refused", speaker="RELAY")
    await eventually(lambda: _written(one), "the file to be complete")
    count = len(await one.entries())
    # An editor saves by replacing: the same text in a new file is a continuation.
    text = one.transcript.read_bytes()
    new = one.transcript.with_name("new")
    new.write_bytes(text + b"[bob] @ECHO by an editor\n")
    new.replace(one.transcript)
    asked = await one.until_said("by an editor", speaker="bob")
    await one.until_job(asked["id"], "ECHO", "done")
    await eventually(lambda: _written(one), "the file to be complete")
    assert len(await one.entries()) == count + 2
    # Cut short: what is left is history, said once, and the room goes on.
    one.transcript.write_bytes(text[: len(text) // 2].rpartition(b"\n")[0] + b"\n")
    await one.until_said("replaced or cut", speaker="RELAY")
    after = await one.post("@ECHO and on")
    await one.reply_to(after["id"], "ECHO")
    one.transcript.unlink()
    again = await one.post("@ECHO without a file")
    await one.reply_to(again["id"], "ECHO")

    async def back() -> bool:
        return one.transcript.exists() and "without a file" in one.transcript.read_text()

    await eventually(back, "the file to be made anew")
    bodies = [entry["body"] for entry in await one.entries() if entry["kind"] == "human"]
    assert len(bodies) == len(set(bodies))


async def _written(one: Outside) -> bool:
    """Is everything of the room in the file?"""
    told = [told["id"] for _, told in one.file_lines() if isinstance(told, dict)]
    mine = [e["id"] for e in await one.entries() if not e["meta"].get("unverified")]
    return set(mine) <= set(told)


async def test_archived_entries_stay_searchable(open_room: Open) -> None:
    one = await open_room(agent("ECHO"))
    for n in range(12):
        await one.post(f"/task keep-{n}")
    await one.until_said("keep-11", speaker="RELAY")
    await eventually(lambda: _written(one), "the file to be complete")
    before = one.transcript.stat().st_size
    entries = len(await one.entries())
    archived = await one.relay("archive", "--keep", "4")
    assert archived.code == 0, archived.all
    assert one.transcript.stat().st_size < before
    found = await one.get("/api/search?q=keep-0")
    assert found["entries"]
    posted = await one.post("@ECHO still there?")
    await one.reply_to(posted["id"], "ECHO")
    one.echo("[bob] @ECHO me too")
    asked = await one.until_said("me too", speaker="bob")
    await one.reply_to(asked["id"], "ECHO")
    assert len(await one.entries()) == entries + 4
