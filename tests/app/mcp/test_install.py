"""`relay mcp install`: what it writes, and that nothing else in a file is touched."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from relay.app.mcp import hint
from relay.app.mcp.client_configs import CannotEdit, put
from relay.app.mcp.command import main
from relay.app.mcp.install import agent_name

ENTRY: dict[str, Any] = {"command": "/bin/relay", "args": ["mcp"], "env": {"RELAY_CONFIG": "/r/config.json"}}
OTHER = '{\n  "theme": "dark",\n  "mcpServers": {\n    "git": {"command": "g"}\n  }\n}\n'
TOML = """\
# mine
model = "o9"  # the good one

[mcp_servers.git]
command = "g"

# about my project
[projects."/x"]
trust_level = "trusted"
"""
#: Without its top level, which can stand first only.
TABLES = TOML[TOML.index("[mcp") :]


def test_json_keeps_the_rest() -> None:
    put_in = put("json", OTHER, ENTRY)
    assert put_in.startswith(
        '{\n  "theme": "dark",\n  "mcpServers": {\n    "git": {"command": "g"},\n    "relay": '
    )
    assert json.loads(put_in)["mcpServers"] == {"git": {"command": "g"}, "relay": ENTRY}
    assert put("json", put_in, ENTRY) == put_in
    assert put("json", put_in, None).replace(" ", "") == OTHER.replace(" ", "")
    assert json.loads(put("json", "", ENTRY)) == {"mcpServers": {"relay": ENTRY}}
    assert json.loads(put("json", "{}", ENTRY)) == {"mcpServers": {"relay": ENTRY}}
    assert put("json", "{}", None) == "{}" and put("json", "", None) == ""


def test_toml_keeps_the_rest() -> None:
    put_in = put("toml", TOML, ENTRY)
    assert put_in.startswith(TOML) and tomllib.loads(put_in)["mcp_servers"]["relay"] == ENTRY
    assert put("toml", put_in, ENTRY) == put_in
    assert put("toml", put_in, None).rstrip() == TOML.rstrip()
    # In the middle, with a table of its own below, and words of a person.
    own = (
        '[mcp_servers.relay]\n# hands off\ncommand = "old"\n[mcp_servers.relay.env]\nHTTP_PROXY = "p"\n\n'
        + TABLES
    )
    changed = put("toml", own, ENTRY)
    assert changed.startswith("[mcp_servers.relay]\n# hands off\n") and changed.endswith(TABLES)
    env = {"HTTP_PROXY": "p", **ENTRY["env"]}
    assert tomllib.loads(changed)["mcp_servers"]["relay"] == {**ENTRY, "env": env}
    assert put("toml", own, None).strip() == TABLES.strip()
    assert put("toml", "a = 1", ENTRY).startswith("a = 1\n\n[mcp_servers.relay]\n")


def test_a_person_s_settings_of_ours_stay() -> None:
    for form, read in (("json", json.loads), ("toml", tomllib.loads)):
        old = put(form, "", {**ENTRY, "enabled": False, "env": {"RELAY_API_KEY": "k", "LANG": "de"}})
        told = next(iter(read(put(form, old, ENTRY)).values()))["relay"]
        assert told["enabled"] is False
        assert told["env"] == {"LANG": "de", **ENTRY["env"]}  # an identity of before does not linger


def test_odd_texts_survive_toml() -> None:
    odd = {"command": 'a "b" \\ \x7f\n\t€', "args": [], "env": {"A.B": "1"}, "on": True, "n": 1.5}
    assert tomllib.loads(put("toml", "", odd))["mcp_servers"]["relay"] == odd


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("json", "{ // mine\n}"),
        ("json", "[]"),
        ("json", '{"mcpServers": []}'),
        ("toml", "a = "),
        ("toml", 'mcp_servers.relay = { command = "x" }\n'),
        ("toml", '[mcp_servers]\nrelay = { command = "x" }\n'),
    ],
)
def test_what_cannot_be_edited_is_refused(form: str, text: str) -> None:
    with pytest.raises(CannotEdit):
        put(form, text, ENTRY)


def test_the_name_is_nobody_else_s() -> None:
    assert agent_name("claude", None, ["BOT"]) == "claude"
    assert agent_name("claude", None, ["CLAUDE"]).endswith("-claude")
    assert agent_name("claude", "claude", ["CLAUDE"]) == "CLAUDE"


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("RELAY_", "CODEX_", "CLAUDE_"))]:
        monkeypatch.delenv(name)
    home, room = tmp_path / "home", tmp_path / "room"
    home.mkdir()
    room.mkdir()
    (room / "config.json").write_text('{"agents": []}')
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(room)
    return room


def test_install_and_remove(
    room: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = room.parent / "home"
    files = [room / ".mcp.json", home / ".codex/config.toml", room / ".gemini/settings.json"]
    assert main(["install", "--print"]) == 0
    printed = capsys.readouterr().out
    assert not any(file.exists() for file in files) and "[mcp_servers.relay]" in printed
    assert main(["install", "all", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(one["path"], one["changed"]) for one in told] == [(str(file), True) for file in files]
    entry = json.loads(files[0].read_text())["mcpServers"]["relay"]
    assert Path(entry["command"]).is_absolute() and entry["args"][-3:] == ["mcp", "--agent", "claude"]
    assert entry["env"] == {"RELAY_CONFIG": str(room / "config.json")} and entry["type"] == "stdio"
    codex = tomllib.loads(files[1].read_text())["mcp_servers"]["relay"]
    assert codex["tool_timeout_sec"] > 300 and "RELAY_SESSION_ID" in codex["env_vars"]
    before = [(file.read_bytes(), file.stat().st_mtime_ns) for file in files]
    assert main(["install"]) == 0
    assert [(file.read_bytes(), file.stat().st_mtime_ns) for file in files] == before
    assert "has it already" in capsys.readouterr().out
    # The room has moved to PostgreSQL since: what stands there stays, and is not enough any more.
    (room / "config.json").write_text('{"agents": [], "storage": "postgres"}')
    assert main(["install"]) == 0
    out = capsys.readouterr().out
    assert "has it already" in out and out.count("relay keys create NAME") == 1, out
    assert "claude and codex and gemini must come through the running room with a key" in out
    (room / "config.json").write_text(
        '{"agents": [], "storage": "postgres", "postgres": {"dsn_file": "dsn"}}'
    )
    assert main(["install"]) == 0 and "with a key" not in capsys.readouterr().out
    (room / "config.json").write_text('{"agents": []}')

    # A file that cannot be changed is left alone, and the others are done.
    files[2].write_text("{ // mine\n}")
    assert main(["install", "--name", "ANN"]) == 1
    out = capsys.readouterr()
    assert (
        files[2].read_text() == "{ // mine\n}" and '"mcpServers"' in out.err and "ANN" in files[0].read_text()
    )
    files[2].unlink()

    # A key only in a file of one's own, which nobody else reads; and it is not shown.
    assert main(["install", "codex", "--key"]) == 2
    monkeypatch.setenv("RELAY_API_KEY", "rk_secret")
    assert main(["install", "codex", "--key", "--scope", "project"]) == 2
    assert main(["install", "--key", "--scope", "user"]) == 0
    own = [home / ".claude.json", files[1], home / ".gemini/settings.json"]
    assert all("rk_secret" in file.read_text() and file.stat().st_mode & 0o777 == 0o600 for file in own)
    assert "rk_secret" not in "".join(capsys.readouterr())
    assert "--agent" not in files[1].read_text()

    # Without --key again: key and name stay until it is said otherwise, and that is told.
    before = [file.read_bytes() for file in own]
    monkeypatch.delenv("RELAY_API_KEY")
    assert main(["install", "--scope", "user"]) == 0
    said = "".join(capsys.readouterr())
    assert [file.read_bytes() for file in own] == before and said.count("Kept RELAY_API_KEY") == 3
    assert "rk_secret" not in said
    assert main(["install", "--no-key", "--key", "--scope", "user"]) == 2
    assert main(["install", "codex", "--no-key"]) == 0
    assert "Removed RELAY_API_KEY" in capsys.readouterr().out
    assert "rk_secret" not in files[1].read_text() and '"--agent", "codex"' in files[1].read_text()
    assert main(["install", "claude", "--name", "ANN", "--scope", "user"]) == 0
    assert "Removed RELAY_API_KEY" in capsys.readouterr().out and "rk_secret" not in own[0].read_text()
    assert main(["install", "claude", "--scope", "user"]) == 0
    assert "Kept the name ANN" in capsys.readouterr().out and '"ANN"' in own[0].read_text()

    for words in (["install", "--remove"], ["install", "--remove", "--scope", "user"]):
        assert main(words) == 0
    assert not any("relay" in file.read_text() for file in [*own, *files] if file.exists())


def test_another_room_s_entry_is_not_taken_over_unasked(
    room: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = room.parent / "home/.codex/config.toml"
    monkeypatch.setenv("RELAY_API_KEY", "rk_secret")
    assert main(["install", "codex", "--key", "--scope", "user"]) == 0
    out = capsys.readouterr().out
    assert "for all of your projects" in out and "trusts" not in out
    monkeypatch.delenv("RELAY_API_KEY")
    first, before = str(room / "config.json"), file.read_text()
    second = room.parent / "second" / "relay.json"
    second.parent.mkdir()
    second.write_text('{"agents": []}')
    config = ["--config", str(second)]
    for words in (["install", "codex"], ["install", "codex", "--remove"]):
        assert main([*words, *config]) == 1
        err = capsys.readouterr().err
        assert first in err and "--force" in err and "--scope project" in err and file.read_text() == before
    assert main(["install", *config, "--scope", "project"]) == 0
    out = capsys.readouterr().out
    assert "run claude once" in out and "only in a trusted folder" in out and "folders that it trusts" in out
    assert main(["install", "codex", *config, "--force"]) == 0
    out = capsys.readouterr().out
    assert f"Until now it named the room {first}. Removed RELAY_API_KEY." in out
    assert "rk_secret" not in file.read_text() and str(second) in file.read_text()
    # A room that was moved is the same one.
    assert main(["install", "codex", *config, "--name", "ANN"]) == 0
    moved = second.rename(second.with_name("moved.json"))
    assert main(["install", "codex", "--config", str(moved)]) == 0
    out = capsys.readouterr().out
    assert f"named the room {second}. Kept the name ANN" in out and str(moved) in file.read_text()


def test_the_shells_of_the_programs_are_told_nothing(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hooks know them by the `relay mcp` that the same program started (relay/app/mcp/parent_process.py)."""
    (room / ".gemini").mkdir()
    (room / ".gemini/.env").write_text("GEMINI_API_KEY=x")
    assert main(["install"]) == 0
    assert "Not written" not in capsys.readouterr().out
    assert not (room / ".claude").exists() and (room / ".gemini/.env").read_text() == "GEMINI_API_KEY=x"
    codex = tomllib.loads((room.parent / "home/.codex/config.toml").read_text())
    assert list(codex) == ["mcp_servers"]


def test_wrong_uses(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["vim"], ["--project", "/no/such"], ["--name", "RELAY"], ["--name", ""]):
        assert main(["install", *words]) == 2, words
        assert capsys.readouterr().err.startswith("relay mcp install: ")
    (room / "config.json").unlink()
    assert main(["install"]) == 2


# -- the hint in the files that agents read first

MINE = "# My project\n\nUse tabs.\n"


@pytest.mark.parametrize("text", ["", MINE, MINE.rstrip("\n"), MINE.replace("\n", "\r\n"), "\n\n", "é"])
def test_the_hint_is_put_in_once_and_goes_without_a_trace(text: str) -> None:
    once = hint.with_hint(text, True)
    assert once.startswith(text) and once.count(hint.BEGIN) == 1 and "acquire_lock" in once
    assert hint.with_hint(once, True) == once
    assert hint.with_hint(once, False) in (text, text + "\n")
    assert ("\r\n" in once) == ("\r\n" in text) and once.replace("\r\n", "").count("\r") == 0
    # What stands behind it stays, and an older text of ours is renewed.
    older = once.replace("Before you edit files", "In former times") + "\nMore of mine.\n"
    renewed = hint.with_hint(older, True)
    assert "In former times" not in renewed and renewed.endswith("\nMore of mine.\n")
    assert hint.with_hint(text, False) == text


def test_marks_that_are_no_pair_are_left_alone() -> None:
    for text in (
        hint.BEGIN,
        hint.END,
        f"{hint.END}{hint.BEGIN}",
        hint.with_hint("", True) * 2,
    ):
        with pytest.raises(CannotEdit):
            hint.with_hint(text, True)


def test_the_hint_is_written_when_it_is_asked_for(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine, other = room / "CLAUDE.md", room / "AGENTS.md"
    mine.write_text(MINE)
    assert main(["install", "claude", "codex"]) == 0
    assert mine.read_text() == MINE and not other.exists(), "nobody was asked, so nothing is written"
    assert main(["install", "claude", "codex", "--hint"]) == 0
    assert f"{mine} now has the hint on the room's tools." in capsys.readouterr().out
    assert mine.read_text().startswith(MINE) and "`acquire_lock`" in mine.read_text()
    assert other.read_text().startswith(hint.BEGIN)
    before = mine.read_bytes()
    assert main(["install", "claude", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["hint"] == {"path": str(mine), "changed": False, "refused": None}
    assert mine.read_bytes() == before
    assert main(["install", "claude", "--no-hint"]) == 0
    assert mine.read_text() == MINE
    assert main(["install", "--remove"]) == 0
    assert not other.exists(), "a file that was ours alone goes"


def test_at_a_terminal_it_is_asked_first(
    room: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answers = list[str](), iter(["n", "y"])

    def answer(question: str) -> str:
        asked.append(question)
        return next(answers)

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", answer)
    (room / "AGENTS.md").write_text(MINE)
    (room / "CLAUDE.md").symlink_to("AGENTS.md")
    assert main(["install", "claude", "codex"]) == 0
    assert (room / "AGENTS.md").read_text() == MINE
    assert main(["install", "claude", "codex"]) == 0
    assert (room / "AGENTS.md").read_text().count("acquire_lock") == 1
    assert (room / "CLAUDE.md").is_symlink()
    assert main(["install", "claude", "codex"]) == 0
    assert len(asked) == 2, "it stands there: nothing to ask"
    assert "Search for its tools" in capsys.readouterr().out


def test_a_file_that_cannot_take_the_hint_is_named(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (room / "CLAUDE.md").mkdir()
    assert main(["install", "claude", "--hint"]) == 1
    assert "CLAUDE.md is left as it is: it is not a regular file." in capsys.readouterr().err
    assert (room / ".mcp.json").exists(), "the entry is written all the same"
