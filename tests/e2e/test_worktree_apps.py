"""Worktrees that are set up, and the apps of agents' branches in them: a room that runs, real git, real servers."""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.request
from pathlib import Path
from typing import Any
from urllib.error import URLError

import psutil

from tests.e2e.conftest import Open
from tests.e2e.test_inbox import act, comes, goes, names, needs
from tests.e2e.test_worktrees import in_git
from tests.git.repository import git
from tests.outside import Json, Outside, agent, eventually, program

#: Prints what it was given and edits a file, as an agent's own program does in its worktree.
PROGRAM = """
import os, pathlib, sys
asked = sys.stdin.read()
pathlib.Path("work.md").write_text("work\\n")
print("port", os.environ["RELAY_PORT"], os.environ["RELAY_PORT_1"], "of", os.environ["RELAY_PORTS"])
print("env file:", pathlib.Path(".env").exists(), "tools:", pathlib.Path("tools/ready").exists())
if "setup command failed" in asked:
    print("was told:", [line for line in asked.splitlines() if "failed" in line][0])
"""
SETUP = "mkdir tools && echo made for $RELAY_AGENT with $RELAY_PORT > tools/ready && cat tools/ready && test -f .env"
SERVER = """
import http.server, os, subprocess, sys
from pathlib import Path

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{os.environ['RELAY_AGENT']}: {Path('tools/ready').read_text()}".encode())

    def log_message(self, *_):
        pass

subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
port = int(os.environ["RELAY_PORT"])
print("serving on", port, flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", port), Answer).serve_forever()
"""
MARK = "RELAY_WORKTREE_COMMAND"


def worktrees(**more: Any) -> Json:
    """The section of the configuration, with ports that no other test of this machine has."""
    return {
        "setup": SETUP,
        "copy": [".env"],
        "ports": {"first": 22000 + os.getpid() % 400 * 20, "per_worktree": 4},
        **more,
    }


async def opened(open_room: Open, **more: Any) -> Outside:
    one = await open_room(
        program("AVA", "prog.py"),
        program("BEN", "prog.py"),
        files={"prog.py": PROGRAM, "server.py": SERVER},
        start=False,
        worktrees=worktrees(run=[sys.executable, "{room}/server.py"], **more),
    )
    told = json.loads(one.path.read_text())
    told["worktrees"]["run"] = [sys.executable, str(one.folder / "server.py")]
    for each in told["agents"]:
        each["cmd"][1] = str(one.folder / "prog.py")
    one.configure(told)
    in_git(one.folder)
    with (one.folder / ".gitignore").open("a") as ignored:
        ignored.write(".env\ntools/\n")
    git(one.folder, "commit", "-qam", "ignore")
    (one.folder / ".env").write_text("SECRET=1\n")
    return one


def command_line(process: psutil.Process) -> str:
    """Empty of one that has just ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def marked(one: Outside) -> list[psutil.Process]:
    """What runs in this room's worktrees by its commands."""
    found = []
    for process in psutil.process_iter():
        try:
            mark = process.environ().get(MARK, "")
            if mark.startswith(str(one.runtime)) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def opens(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())
    except URLError as error:
        return f"not there: {error.reason}"


async def row(one: Outside, name: str) -> Json:
    rows = (await one.get("/api/worktrees"))["worktrees"]
    return next((each for each in rows if each["agent"] == name), {})


async def until(one: Outside, name: str, part: str, *states: str) -> Json:
    async def look() -> Json | None:
        told = (await row(one, name)).get(part)
        return told if told and told["state"] in states else None

    found: Json = await eventually(look, f"{part} of {name} {' or '.join(states)}")
    return found


async def test_two_agents_get_worktrees_that_work_and_a_person_runs_the_app_of_each(open_room: Open) -> None:
    one = await opened(open_room)
    await one.start()
    first = json.loads(one.path.read_text())["worktrees"]["ports"]["first"]
    for name in ("AVA", "BEN"):
        setup = await until(one, name, "setup", "done")
        assert setup["copied"] == [".env"] and setup["notes"] == []
    ports = {name: (await row(one, name))["ports"] for name in ("AVA", "BEN")}
    assert sorted(ports.values()) == [[first, first + 3], [first + 4, first + 7]]

    # The agent's own program finds what was set up, and has the ports.
    posted = await one.post("@AVA begin")
    said = (await one.reply_to(posted["id"], "AVA"))["body"]
    low, high = ports["AVA"]
    assert f"port {low} {low + 1} of {low}-{high}" in said
    assert "env file: True tools: True" in said
    top = one.runtime / "worktrees" / "ava"
    assert git(top, "status", "--porcelain") == "?? work.md"
    assert (top / ".env").read_text() == "SECRET=1\n"

    # Typed in the room, by HTTP and in a terminal: the same.
    posted = await one.post("/app @AVA run")
    assert (
        f"ann started the app of AVA, with the ports {low}-{high}"
        in (await one.reply_to(posted["id"]))["body"]
    )
    app = await until(one, "AVA", "app", "listening")
    assert (app["port"], app["url"]) == (low, f"http://127.0.0.1:{low}")
    assert opens(app["url"]) == f"AVA: made for AVA with {low}\n"
    await one.until_said(f"The app of AVA listens: {app['url']}", speaker="RELAY")
    ran = await one.relay("worktrees", "run", "BEN", "--name", "ann")
    theirs = f"http://127.0.0.1:{ports['BEN'][0]}"
    assert ran.code == 0 and f"The app listens at {theirs}." in ran.out, ran.all
    assert opens(theirs).startswith("BEN: made for BEN")
    status, told = await one.ask("POST", "/api/worktrees/AVA/run", json={"name": "ann"})
    assert (status, told["success"]) == (200, False) and "runs already" in told["reason"]
    told = await one.get("/api/worktrees/ava/app")
    assert told["app"]["output"] == f"serving on {low}\n" and "made for AVA" in told["setup"]["output"]
    posted = await one.post("/app")
    assert app["url"] in (reply := (await one.reply_to(posted["id"]))["body"]) and theirs in reply
    listed = await one.relay("worktrees")
    assert f"the app listens at {theirs}" in listed.out and f"ports {low}-{high}" in listed.out

    # Stopped with all that it started.
    status, told = await one.ask("POST", "/api/worktrees/BEN/stop", json={"name": "ann"})
    assert (status, told) == (200, {"success": True, "reason": "ann stopped the app of BEN."})
    assert opens(theirs).startswith("not there")
    left = [process.environ()["RELAY_AGENT"] for process in marked(one)]
    assert set(left) == {"AVA"}

    # A killed daemon leaves nothing, and its successor finds ports and setup as they were.
    one.kill()
    await one.start()
    assert marked(one) == [] and opens(app["url"]).startswith("not there")
    await until(one, "AVA", "setup", "done")
    assert {name: (await row(one, name))["ports"] for name in ("AVA", "BEN")} == ports
    # The row, the terminal and the room say that it ran. That of BEN somebody had stopped.
    app = await until(one, "AVA", "app", "interrupted")
    assert (app["by"], app["url"], app["reason"]) == ("ann", None, "was running when the room stopped")
    assert (await row(one, "BEN"))["app"] is None
    listed = (await one.relay("worktrees")).out
    assert "the app was running when the room stopped; `" in listed and "worktrees run AVA" in listed, listed
    said = r"The app of AVA was running when the room stopped\. `/app @AVA run` starts it again\."
    await one.until_said(said, speaker="RELAY")

    # Nor does a daemon that is stopped.
    assert (await one.relay("worktrees", "run", "AVA", "--name", "ann")).code == 0
    assert (await row(one, "AVA"))["app"]["state"] == "listening"
    assert (await one.relay("worktrees", "run", "BEN", "--name", "ann")).code == 0
    assert marked(one)
    assert (await one.script("stop.sh")).code == 0
    assert marked(one) == []
    await one.start()
    both = "The apps of AVA and BEN were running when the room stopped. `/app @AVA run` starts one again."
    await one.until_said(re.escape(both), speaker="RELAY")
    # Nobody runs them: the next start says it in the rows alone. A worktree that goes takes it along.
    assert (await one.script("stop.sh")).code == 0
    await one.start()
    assert [(await until(one, name, "app", "interrupted"))["by"] for name in ("AVA", "BEN")] == ["ann", "ann"]
    done = await one.relay("worktrees", "discard", "AVA", "--name", "ann")
    assert done.code == 0 and (await row(one, "AVA"))["app"] is None, done.all
    assert (await one.relay("worktrees", "run", "BEN", "--name", "ann")).code == 0
    assert (await one.relay("worktrees", "stop", "BEN", "--name", "ann")).code == 0
    one.kill()
    await one.start()
    await until(one, "BEN", "setup", "done")
    assert [(await row(one, name))["app"] for name in ("AVA", "BEN")] == [None, None]
    entries = await one.entries()
    assert len([each for each in entries if "running when the room stopped" in each["body"]]) == 2


async def test_what_got_away_when_the_shim_died_too_is_ended_at_the_next_start(open_room: Open) -> None:
    one = await opened(open_room)
    await one.start()
    await until(one, "AVA", "setup", "done")
    assert (await one.relay("worktrees", "run", "AVA", "--name", "ann")).code == 0
    daemon = psutil.Process(one.process.pid if one.process else 0)
    shims = [each for each in daemon.children() if "shim.py" in command_line(each)]
    for shim in shims:
        shim.suspend()
    one.kill()
    for shim in shims:
        shim.kill()
    sleeper = [each for each in marked(one) if "time.sleep" in command_line(each)]
    assert sleeper, "the helper of the app has outlived both"
    await one.start()
    assert marked(one) == []


async def test_a_setup_that_fails_is_said_once_and_told_to_the_agent_and_run_again(open_room: Open) -> None:
    one = await opened(open_room)
    (one.folder / ".env").unlink()
    (one.folder / "local.txt").write_text("not ignored\n")
    told = json.loads(one.path.read_text())
    told["worktrees"]["copy"] = [".env", "local.txt"]
    one.configure(told)
    await one.start()
    setup = await until(one, "AVA", "setup", "failed")
    assert setup["reason"] == "it ended with exit code 1"
    assert setup["notes"] == ["`local.txt`: git does not ignore it"]
    await one.until_said(r"The setup of AVA's worktree failed: it ended with exit code 1\.", speaker="RELAY")
    posted = await one.post("@AVA begin")
    said = (await one.reply_to(posted["id"], "AVA"))["body"]
    assert "was told: Its setup command failed: it ended with exit code 1" in said
    posted = await one.post("@AVA again")
    assert "was told" not in (await one.reply_to(posted["id"], "AVA"))["body"]
    assert len([each for each in await one.entries() if "The setup of AVA's" in each["body"]]) == 1

    # One command failed in both worktrees: one need, to look at and to leave. What fails anew is another.
    async def of_both() -> Json | None:
        found = [each for each in (await needs(one)).values() if each["kind"] == "setup_failed"]
        return (
            found[0] if len(found) == 1 and set(found[0]["about"].split(" and ")) == {"AVA", "BEN"} else None
        )

    need = await eventually(of_both, "one need of both setups")
    first, second = need["about"].split(" and ")
    said = f"The setup of their worktrees failed: it ended with exit code 1. {first}, last line: made for {first} "
    assert need["text"].startswith(said), need
    assert names(need) == ["again", "output", "later"]
    assert need["actions"][0]["label"] == f"Run the setup again for {first} and {second}"
    assert need["actions"][0]["command"] == f"/setup @{first} @{second}"
    shown = await act(one, need["id"], "output")
    assert f"The setup of {first} (failed: it ended with exit code 1) printed:" in shown["reason"], shown
    assert f"made for {first}" in shown["reason"]
    assert (await act(one, need["id"], "later"))["success"]
    await goes(one, need["id"])

    # Left were these two: the same failure of another agent is a need, and of this one alone.
    told["agents"].append(program("CLEO", str(one.folder / "prog.py")))
    one.configure(told)
    third = await comes(one, "setup_failed")
    assert third["about"] == "CLEO" and third["actions"][0]["command"] == "/setup @CLEO", third
    # Brought back, they are one with it.
    assert (await one.reply_to((await one.post(f"/later {need['id']} undo"))["id"], "RELAY"))["body"]

    async def of_all() -> bool:
        found = [each["about"] for each in (await needs(one)).values() if each["kind"] == "setup_failed"]
        return found == [f"{first} and {second} and CLEO"]

    await eventually(of_all, "one need of all three")
    assert (await act(one, need["id"], "later"))["success"]
    await goes(one, need["id"])
    told["agents"].pop()
    one.configure(told)

    # What it lacked is there now; the directory of the first attempt is in the way, and that is said.
    (one.folder / ".env").write_text("SECRET=1\n")
    for name in (first, second):
        ran = await one.relay("worktrees", "setup", name, "--name", "ann")
        assert ran.code == 1 and "The setup failed" in ran.out and "File exists" in ran.out, ran.all
    anew = await eventually(of_both, "it failed anew")
    assert anew["id"] != need["id"] and anew["about"] == f"{first} and {second}", anew
    told["worktrees"]["setup"] = SETUP.replace("mkdir", "mkdir -p")
    one.configure(told)

    async def again() -> bool:
        return (await one.relay("worktrees", "setup", "AVA", "--name", "ann")).code == 0

    await eventually(again, "a setup that succeeds", every_s=1.0)
    left = await comes(one, "setup_failed")
    since = await one.get("/api/since?after=m1&name=ann")
    assert f"{first}'s setup" in since["failed"], since
    assert left["about"] == "BEN" and left["text"].startswith("The setup of its worktree failed: "), left
    # One click sets up all that are named.
    done = await one.reply_to((await one.post("/setup @AVA @BEN"))["id"], "RELAY")
    assert [line.split(" is ")[0] for line in done["body"].splitlines()] == [
        "The worktree of AVA",
        "The worktree of BEN",
    ]
    await goes(one, left["id"])
    for name in ("AVA", "BEN"):
        assert (await until(one, name, "setup", "done"))["copied"] == [".env"]


async def test_an_app_that_ends_by_itself_needs_a_person(open_room: Open) -> None:
    one = await opened(open_room)
    await one.start()
    await until(one, "AVA", "setup", "done")
    await one.post("/app @AVA run")
    await until(one, "AVA", "app", "listening")
    for process in marked(one):
        process.kill()
    need = await comes(one, "app_ended")
    assert (need["about"], names(need)) == ("AVA", ["again", "output", "later"])
    assert (
        "The app of its branch was ended by SIGKILL, and nobody stopped it. Its last line: serv"
        in need["text"]
    )
    asked = await one.post("/app @AVA output")
    assert "serving on" in (await one.reply_to(asked["id"], "RELAY"))["body"]
    ran = await one.relay("inbox", need["id"], "again", "--name", "ann")
    assert ran.code == 0 and "ann started the app of AVA" in ran.out, ran.all
    await goes(one, need["id"])
    # Stopped by a person, it needs nobody.
    await until(one, "AVA", "app", "listening")
    await one.post("/app @AVA stop")
    await until(one, "AVA", "app", "stopped")
    assert "app_ended" not in [each["kind"] for each in (await needs(one)).values()]


async def test_archive_runs_before_a_worktree_goes_and_a_full_disk_makes_none(open_room: Open) -> None:
    archive = "test -f {room}/allowed && echo $RELAY_AGENT $RELAY_PORT >> {room}/archived"
    one = await opened(open_room)
    told = json.loads(one.path.read_text())
    told["worktrees"]["archive"] = archive.replace("{room}", str(one.folder))
    told["worktrees"]["disk_cap_mb"] = 1
    told["agents"] = told["agents"][:1]
    one.configure(told)
    await one.start()
    await until(one, "AVA", "setup", "done")
    port = (await row(one, "AVA"))["ports"][0]
    assert (await one.relay("worktrees", "run", "AVA", "--name", "ann")).code == 0

    # A failure takes nothing away.
    done = await one.relay("worktrees", "remove", "AVA", "--name", "ann")
    assert done.code == 1 and "`archive` failed in the worktree of AVA, so nothing is removed" in done.all
    top = one.runtime / "worktrees" / "ava"
    assert (top / "tools" / "ready").is_file() and marked(one) == []

    # Full: another agent gets none, and the room says what could go.
    (top / "tools" / "large").write_bytes(os.urandom(3_000_000))
    told["agents"].insert(0, {**told["agents"][0], "name": "BEN"})
    await one.script("stop.sh")
    one.configure(told)
    await one.start()
    await one.until_said(r"No new worktree is made: .*Landed and idle: AVA \(3 MB\)", speaker="RELAY")
    listed = await one.get("/api/worktrees")
    assert listed["disk"]["full"] and listed["disk"]["removable"] == ["AVA"]
    assert "no worktree is made for BEN" in listed["troubles"]["BEN"]
    health = await one.script("healthcheck.sh", "--json")
    checks: list[Json] = json.loads(health.out)["checks"]
    disk = next(check for check in checks if check["name"] == "worktrees")
    assert disk["status"] == "warning" and "they take 3 MB" in disk["detail"], disk

    # Discarded: archived before, and set up again after it.
    (one.folder / "allowed").touch()
    (top / "new.md").write_text("new\n")
    done = await one.relay("worktrees", "discard", "AVA", "--name", "ann")
    assert done.code == 0 and (one.folder / "archived").read_text() == f"AVA {port}\n", done.all
    # Who looks at once sees that it is gone.
    assert [row["files"] for row in (await one.get("/api/worktrees"))["worktrees"]] == [0]
    await one.until_said("The setup of AVA's worktree failed: it ended with exit code 1", speaker="RELAY")
    done = await one.relay("worktrees", "remove", "AVA", "--name", "ann")
    assert done.code == 0, done.all
    assert (one.folder / "archived").read_text() == f"AVA {port}\n" * 2 and not top.exists()


async def test_nothing_runs_where_nothing_is_configured(open_room: Open) -> None:
    one = await open_room(agent("AVA", "a.yaml"), files={"a.yaml": '- say: "hm"\n'}, start=False)
    in_git(one.folder)
    await one.start()

    async def there() -> bool:
        return bool((await row(one, "AVA")).get("ports"))

    await eventually(there, "a worktree with ports")
    assert (await row(one, "AVA"))["setup"] is None
    posted = await one.post("/app @AVA run")
    assert "No command is configured that runs the app." in (await one.reply_to(posted["id"]))["body"]
    status, told = await one.ask("POST", "/api/worktrees/NOBODY/run", json={"name": "ann"})
    assert (status, told["error"]["code"]) == (404, "not_found")
    done = await one.relay("worktrees", "setup", "AVA", "--name", "ann")
    assert done.code == 1 and "No setup is configured." in done.all
    ava = one.runtime / "worktrees" / "ava"
    assert Path(git(ava, "rev-parse", "--absolute-git-dir"), "relay-worktree.json").is_file()


async def test_a_turn_and_an_app_wait_for_the_setup_also_over_a_killed_daemon(open_room: Open) -> None:
    one = await opened(open_room)
    told = json.loads(one.path.read_text())
    gate, begun = one.folder / "gate", one.folder / "begun"
    slow = f"echo $RELAY_AGENT >> {begun}; while [ ! -f {gate} ]; do sleep 0.05; done; {SETUP}"
    told["worktrees"]["setup"] = slow.replace("mkdir", "mkdir -p")
    told["agents"] = told["agents"][:1]
    one.configure(told)
    await one.start()
    await until(one, "AVA", "setup", "running")
    posted = await one.post("@AVA begin")
    await one.until_job(posted["id"], "AVA", "active")
    ran = await one.ask("POST", "/api/worktrees/AVA/run", json={"name": "ann"})
    assert ran[1]["success"]
    assert (await row(one, "AVA"))["app"]["state"] == "starting"

    # Cut off, it is begun again; the app was of the daemon that died.
    one.kill()
    await one.start()
    await until(one, "AVA", "setup", "running")

    async def twice() -> bool:  # it is said to run a moment before it does
        return begun.read_text() == "AVA\nAVA\n"

    await eventually(twice, "the setup begun again")
    assert (await row(one, "AVA"))["app"] is None
    assert not [each for each in await one.entries() if each["in_reply_to"] == posted["id"]]
    gate.touch()
    said = (await one.reply_to(posted["id"], "AVA"))["body"]
    assert "env file: True tools: True" in said
    assert (await row(one, "AVA"))["setup"]["state"] == "done"

    # One that hangs is ended, with what it started.
    told["worktrees"] |= {"setup": "sleep 600 & sleep 601", "setup_timeout_s": 1}
    one.configure(told)

    async def hangs() -> bool:
        ran = await one.relay("worktrees", "setup", "AVA", "--name", "ann")
        return "the setup failed: it was ended after 1 s" in ran.all.lower()

    await eventually(hangs, "a setup that is ended", every_s=1.0)
    assert marked(one) == []


async def test_what_refuses_is_found_before_archive_runs_and_the_app_ends(open_room: Open) -> None:
    one = await opened(open_room)
    told = json.loads(one.path.read_text())
    # As a command that drops a database: what it has done cannot be taken back. It locks the second time.
    dropped, top = one.folder / "dropped", one.runtime / "worktrees" / "ava"
    told["worktrees"]["setup"] = SETUP.replace("mkdir", "mkdir -p")
    told["worktrees"]["archive"] = (
        f"echo dropped >> {dropped}; test -f {one.folder}/calm || git worktree lock ."
    )
    told["agents"] = told["agents"][:1]
    one.configure(told)
    await one.start()
    await until(one, "AVA", "setup", "done")
    assert (await one.relay("worktrees", "run", "AVA", "--name", "ann")).code == 0
    app = await until(one, "AVA", "app", "listening")

    async def refused(*words: str) -> str:
        done = await one.relay("worktrees", *words, "AVA", "--name", "ann")
        assert done.code == 1, done.all
        return done.all

    git(one.folder, "worktree", "lock", str(top))
    assert "is locked" in await refused("remove")
    git(one.folder, "worktree", "unlock", str(top))
    assert "has nothing to discard" in await refused("discard")
    git(top, "init", "-q", "inner")
    git(top / "inner", "commit", "-q", "--allow-empty", "-m", "inner")
    (top / "inner" / "file").write_text("of another repository\n")
    assert "files that git would not store: inner" in await refused("remove")
    assert "inner" in await refused("discard")
    assert not dropped.exists()
    assert (await row(one, "AVA"))["app"]["state"] == "listening" and opens(app["url"]).startswith("AVA")

    # Nothing refuses, and then something does all the same: the answer says that it is archived.
    (top / "inner").rename(one.folder / ".relay" / "inner")
    said = await refused("remove")
    assert "is locked" in said and "`archive` has run there already." in said
    assert dropped.read_text() == "dropped\n" and top.is_dir()
    assert (await row(one, "AVA"))["app"]["state"] == "stopped"
    await until(one, "AVA", "setup", "done")  # again, by itself
    git(one.folder, "worktree", "unlock", str(top))
    (one.folder / "calm").touch()
    done = await one.relay("worktrees", "remove", "AVA", "--name", "ann")
    assert done.code == 0 and dropped.read_text() == "dropped\n" * 2 and not top.exists(), done.all
