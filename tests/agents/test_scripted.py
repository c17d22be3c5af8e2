from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from relay.agents.factory import AgentSpec, Permissions, build_agent
from relay.model import EndPart, FailureClass, SessionPart, TextPart, ToolPart, Turn, TurnLimits, UsagePart
from tests.agents.conftest import collect, end, text

SCRIPT = """
- match: '\\bbuild\\b'
  tool: {name: shell, summary: make, paths: [Makefile]}
  say: ["Built for {speaker}: ", "{body}"]
  usage: {input_tokens: 5, output_tokens: 7, cost_usd: 0.5}
- match: write
  write: {src/new.txt: "from {agent}\\n"}
  say: Written.
- match: limit
  fail: rate_limit
  detail: Come back later.
  retry_in_s: 60
- match: crash
  exit: 4
- match: slow
  delay_s: 60
  say: Late.
- match: quiet
"""


def scripted(tmp_path: Path, script: str = SCRIPT, **more: object):
    path = tmp_path / "bot.yaml"
    path.write_text(script)
    return build_agent(AgentSpec("BOT", kind="scripted", script=path, **more))  # type: ignore[arg-type]


async def test_a_rule_speaks_uses_tools_and_reports(tmp_path: Path) -> None:
    parts = await collect(scripted(tmp_path), Turn("BOT", "[ANN] please build {body}"))
    assert [part for part in parts if isinstance(part, TextPart)] == [
        TextPart("Built for ANN: "),
        TextPart("please build {body}"),
    ]
    assert ToolPart("shell", "make", ("Makefile",)) in parts
    assert UsagePart(5, 7, 0.5) in parts
    assert end(parts).failure is None


@pytest.mark.parametrize(
    ("prompt", "failure", "said"),
    [
        ("limit", FailureClass.RATE_LIMIT, "Come back later."),
        ("crash", FailureClass.CRASH, "exit code 4"),
        ("quiet", FailureClass.EMPTY, "without an answer"),
        ("nothing of the kind", FailureClass.EMPTY, "No rule"),
        ("slow", FailureClass.TIMEOUT, "0.1 s"),
    ],
)
async def test_how_a_rule_can_fail(prompt: str, failure: FailureClass, said: str, tmp_path: Path) -> None:
    turn = Turn("BOT", prompt, limits=TurnLimits(timeout_s=0.1))
    parts = await collect(scripted(tmp_path), turn)
    assert end(parts).failure is failure
    assert said in end(parts).detail
    if failure is FailureClass.RATE_LIMIT:
        assert end(parts).retry_at == pytest.approx(time.time() + 60, abs=30)


async def test_it_writes_only_in_a_turn_that_may_edit(tmp_path: Path) -> None:
    agent = scripted(tmp_path)
    tree = tmp_path / "tree"
    tree.mkdir()
    for turn in (Turn("BOT", "write", cwd=tree), Turn("BOT", "write", may_edit=True)):
        parts = await collect(agent, turn)
        assert end(parts).failure is FailureClass.CRASH and "may not edit" in end(parts).detail
    assert list(tree.iterdir()) == []
    parts = await collect(agent, Turn("BOT", "write", cwd=tree, may_edit=True))
    assert end(parts).failure is None
    assert (tree / "src" / "new.txt").read_text() == "from BOT\n"


@pytest.mark.parametrize("permissions", [Permissions.EDIT, Permissions.SKIP_ALL_CHECKS])
async def test_with_permissions_it_writes_without_a_worktree(
    tmp_path: Path, permissions: Permissions
) -> None:
    parts = await collect(scripted(tmp_path, permissions=permissions), Turn("BOT", "write", cwd=tmp_path))
    assert end(parts).failure is None
    assert (tmp_path / "src" / "new.txt").read_text() == "from BOT\n"
    bound = scripted(tmp_path, permissions=Permissions.READ_ONLY)
    parts = await collect(bound, Turn("BOT", "write", cwd=tmp_path, may_edit=True))
    assert "may not edit" in end(parts).detail


async def test_a_link_does_not_lead_it_out_of_its_folder(tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    tree.mkdir()
    outside.mkdir()
    (tree / "src").symlink_to(outside)
    parts = await collect(scripted(tmp_path), Turn("BOT", "write", cwd=tree, may_edit=True))
    assert "out of the working directory" in end(parts).detail
    assert list(outside.iterdir()) == []


async def test_a_turn_can_be_cancelled(tmp_path: Path) -> None:
    task = asyncio.create_task(collect(scripted(tmp_path), Turn("BOT", "slow")))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_answer_is_bounded(tmp_path: Path) -> None:
    turn = Turn("BOT", "build", limits=TurnLimits(max_output_bytes=8))
    parts = await collect(scripted(tmp_path), turn)
    assert text(parts) == "Built fo"
    assert end(parts).truncated


async def test_a_conversation_has_an_id(tmp_path: Path) -> None:
    agent = scripted(tmp_path)
    first = await collect(agent, Turn("BOT", "build"))
    assert SessionPart("scripted-BOT") in first
    assert SessionPart("mine") in await collect(agent, Turn("BOT", "build", resume="mine"))
    assert (await agent.probe()).installed


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("", "must be a list of rules, or `rules:` with one; found nothing"),
        ("rules: []", "must be a list of rules"),
        ("rule: []", "unknown key 'rule'. Did you mean 'rules'? Allowed: rules"),
        ("- say: [1]", "rule 1 (line 1): say must be a string or a list of strings; found 1"),
        ("- say: x\n- sya: x", "rule 2 (line 2): unknown key 'sya'. Did you mean 'say'? Allowed: match, say"),
        ("- match: '('", "rule 1 (line 1): match is not a regular expression"),
        ("- delay_s: soon", "delay_s must be a number, 0 or more; found a text"),
        ("- delay_s: -1", "delay_s must be a number, 0 or more; found -1"),
        ("- fail: broken", "fail is 'broken'; allowed: not_installed, not_signed_in, rate_limit"),
        ("- write: {../x: y}", "'../x' leaves the working directory"),
        ("- write: {/x: y}", "'/x' leaves the working directory"),
        ("- write: {x: 1}", "write must map a path to a text"),
        ("- tool: {summary: x}", "tool (line 1): needs a name"),
        ("- usage: {tokens: 1}", "usage (line 1): unknown key 'tokens'"),
        ("- usage: {input_tokens: 1.5}", "input_tokens must be a whole number"),
        ("- exit: true", "exit must be a whole number, 0 or more; found true or false"),
        ("- plain", "rule 1 must be a mapping of match, say"),
        ("- say: x\n- say: [", "bot.yaml: line 2: is not YAML: expected the node content"),
    ],
)
async def test_a_bad_script_says_where_and_what_is_allowed(script: str, said: str, tmp_path: Path) -> None:
    agent = scripted(tmp_path, script)
    seen = await agent.probe()
    assert (seen.installed, seen.broken) == (False, True)
    assert said in seen.detail and "bot.yaml" in seen.detail
    assert await collect(agent, Turn("BOT", "build")) == [EndPart(FailureClass.NOT_INSTALLED, seen.detail)]


async def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    agent = build_agent(AgentSpec("BOT", kind="scripted", script=tmp_path / "none.yaml"))
    assert "none.yaml: cannot be read" in (await agent.probe()).detail
