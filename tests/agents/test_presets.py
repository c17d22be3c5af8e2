from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from relay.agents.factory import AgentSpec, CommandAgent, Permissions, SpecError, build_agent
from relay.agents.registry import presets
from relay.agents.setup.hooks import GEMINI_VARIABLE, GuardHook, gemini_file
from relay.agents.setup.mcp import McpServer
from relay.agents.setup.presets import Call, fill_template
from relay.model import Turn

READ, EDIT, SKIP = Permissions.READ_ONLY, Permissions.EDIT, Permissions.SKIP_ALL_CHECKS
DANGER = ("bash", "dangerously", "yolo", "bypass", "danger-full-access", "skip-permissions")


@pytest.mark.parametrize("preset", presets())
@pytest.mark.parametrize("permissions", [READ, EDIT, SKIP])
@pytest.mark.parametrize("session", [None, "s1"])
def test_checks_are_skipped_only_when_that_is_asked_for(
    preset: str, permissions: Permissions, session: str | None
) -> None:
    line = " ".join(presets()[preset].arguments(Call(permissions, session=session)))
    assert any(word in line for word in DANGER) == (permissions is SKIP)


@pytest.mark.parametrize(
    ("permissions", "may_edit", "result"),
    [
        (Permissions.AUTO, False, READ),
        (Permissions.AUTO, True, EDIT),
        (READ, True, READ),
        (EDIT, False, EDIT),
        (SKIP, False, SKIP),
    ],
)
def test_the_permissions_of_a_turn(permissions: Permissions, may_edit: bool, result: Permissions) -> None:
    assert permissions.for_turn(may_edit) is result


@pytest.mark.parametrize(
    ("preset", "session", "expected"),
    [
        ("claude", None, "--model m --effort low"),
        ("claude", "s1", "--effort low --resume s1"),
        ("codex", None, '--config model_reasoning_effort="low" -'),
        ("codex", "s1", '--config model_reasoning_effort="low" resume s1 -'),
        ("gemini", "s1", "--model m --resume s1"),
        ("agy", None, "--model m --effort low"),
        ("agy", "s1", "--effort low --conversation s1"),
    ],
)
def test_model_effort_and_session(preset: str, session: str | None, expected: str) -> None:
    arguments = presets()[preset].arguments(Call(READ, "m", "low", session))
    assert " ".join(arguments).endswith(expected)
    assert "m" in arguments


@pytest.mark.parametrize(
    ("preset", "resume", "end"),
    [
        ("claude", None, ["--add-dir", "x"]),
        ("codex", None, ["--add-dir", "x", "-"]),
        ("codex", "s1", ["--add-dir", "x", "resume", "s1", "-"]),
    ],
)
def test_own_arguments_stand_where_the_program_reads_them(
    preset: str, resume: str | None, end: list[str], tmp_path: Path
) -> None:
    spec = AgentSpec("BOT", preset=preset, args=("--add-dir", "x"), cwd=tmp_path)
    argv = CommandAgent(spec, daemon_env={}).argv("/bin/x", Turn("BOT", "hi"), resume)
    assert argv[0] == "/bin/x"
    assert argv[-len(end) :] == end


@pytest.mark.parametrize("preset", ["claude", "codex", "gemini"])
def test_a_program_that_speaks_acp_gets_own_arguments_too(preset: str, tmp_path: Path) -> None:
    spec = AgentSpec("BOT", kind="acp", preset=preset, args=("--add-dir", "x"), cwd=tmp_path)
    agent = build_agent(spec, daemon_env={})
    assert isinstance(agent, CommandAgent)
    assert agent.argv("/bin/x", Turn("BOT", "hi"), None)[-2:] == ["--add-dir", "x"]


@pytest.mark.parametrize(
    ("cmd", "call", "filled"),
    [
        (["--model", "{model}", "--resume", "{session}"], Call(READ), []),
        (["--model", "{model}", "--resume", "{session}"], Call(READ, model="m"), ["--model", "m"]),
        (["--model={model}", "-v"], Call(READ), ["-v"]),
        (["--model={model}", "-v"], Call(READ, model="m"), ["--model=m", "-v"]),
        (["run", "{session}", "--fast"], Call(READ), ["run", "--fast"]),
        (["--fast", "-r", "{session}", "x"], Call(READ), ["--fast", "x"]),
        (["--mode", "{permissions}"], Call(EDIT), ["--mode", "edit"]),
        (["--a", "{model}", "{session}"], Call(READ, model="m"), ["--a", "m"]),
        (["-c", "print({1: 2})"], Call(READ), ["-c", "print({1: 2})"]),
        (["--x", "{model}"], Call(READ, model="{session}"), ["--x", "{session}"]),
    ],
)
def test_a_template_leaves_out_what_has_no_value(cmd: list[str], call: Call, filled: list[str]) -> None:
    assert fill_template(cmd, call) == filled


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "either `preset` (agy, claude, codex, gemini, pi, qwen) or `cmd`"),
        ({"preset": "claude", "cmd": ("x",)}, "either `preset`"),
        ({"preset": "cloud"}, "preset is 'cloud'; allowed: agy, claude, codex, gemini"),
        ({"preset": "cluade"}, "nearest: 'claude'"),
        ({"kind": "ollama"}, "one of command, acp, scripted"),
        ({"kind": "scripted"}, "needs `script`"),
        ({"cmd": ("x", "{modle}")}, "unknown placeholder {modle}; allowed: {model}"),
        ({"cmd": ("{model}",)}, "takes no placeholder"),
        ({"cmd": ("x",), "output": "yaml"}, "allowed: text, agy, claude, codex, gemini"),
        ({"preset": "claude", "timeout_s": 0}, "must be above 0"),
    ],
)
def test_a_wrong_configuration_says_what_is_allowed(values: dict[str, object], said: str) -> None:
    with pytest.raises(SpecError) as error:
        build_agent(AgentSpec("BOT", **values))  # type: ignore[arg-type]
    assert said in str(error.value)
    assert "BOT" in str(error.value)


SERVER = McpServer(("/bin/relay", "mcp", "--config", '/a "b"/config.json'))


def test_the_room_s_server_is_handed_over() -> None:
    call = Call(Permissions.READ_ONLY, session="s", mcp=SERVER)
    claude = presets()["claude"].arguments(call)
    told = json.loads(claude[claude.index("--mcp-config") + 1])["mcpServers"]["relay"]
    assert (told["command"], tuple(told["args"])) == (SERVER.command[0], SERVER.command[1:])
    assert claude[claude.index("--allowedTools") + 1] == "mcp__relay"
    codex = presets()["codex"].arguments(call)
    said = "\n".join(codex[at + 1] for at, word in enumerate(codex) if word == "--config")
    read = tomllib.loads(said)["mcp_servers"]["relay"]
    assert (read["command"], tuple(read["args"])) == (SERVER.command[0], SERVER.command[1:])
    assert "RELAY_SESSION_ID" in read["env_vars"] and read["required"] is True
    assert codex.index("resume") > codex.index("--config")
    for preset in ("claude", "codex"):
        assert "relay" not in " ".join(presets()[preset].arguments(Call(Permissions.READ_ONLY)))


HOOK = GuardHook(("python", "-I", "guard_cli.py", "hook", "--agent", "BOT", "--config", "c.json"), Path("/x"))


def test_a_hook_asks_before_a_tool_and_one_tells_after_it(tmp_path: Path) -> None:
    words = presets()["claude"].arguments(Call(Permissions.EDIT, guard=HOOK))
    told = json.loads(words[words.index("--settings") + 1])["hooks"]
    assert set(told) == {"PreToolUse", "PostToolUse"}
    assert told["PreToolUse"][0]["hooks"][0]["command"].startswith("python -I guard_cli.py hook --agent BOT")
    assert told["PostToolUse"][0]["hooks"][0]["command"].startswith("python -I guard_cli.py told --agent BOT")
    made = gemini_file(HOOK, "BOT", {GEMINI_VARIABLE: str(tmp_path / "none.json")}, tmp_path / "ours")
    assert made is not None
    hooks = json.loads(made.read_text())["hooks"]
    assert hooks["BeforeTool"][0]["hooks"][0]["command"].endswith(
        "hook --agent BOT --config c.json --format gemini"
    )
    assert hooks["AfterTool"][0]["hooks"][0]["command"].endswith(
        "told --agent BOT --config c.json --format gemini"
    )


def test_gemini_has_it_from_a_file_of_defaults(tmp_path: Path) -> None:
    before = tmp_path / "defaults.json"
    before.write_text('{"mcpServers": {"git": {"command": "g"}}, "hooks": {"BeforeTool": []}, "theme": "x"}')
    made = gemini_file(None, "BOT", {GEMINI_VARIABLE: str(before)}, tmp_path / "ours", SERVER)
    assert made is not None
    told = json.loads(made.read_text())
    assert told["theme"] == "x" and told["hooks"] == {"BeforeTool": []}
    assert told["mcpServers"]["git"] == {"command": "g"} and told["mcpServers"]["relay"]["trust"] is True
