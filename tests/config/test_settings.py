"""config.json: what is taken, what is refused and in which words, what may change while it runs."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from relay import model
from relay.app.daemon.config_reload import diff
from relay.config import loading, locate
from relay.config.__main__ import markdown_table
from relay.config.loading import ConfigError, load, parse, update_agent
from relay.config.locate import find
from relay.config.settings import AgentSettings, Settings
from tests.git.repository import git, repository

HERE = Path("/room/config.json")
REPO = Path(__file__).parents[2]


def settings(**tree: Any) -> Settings:
    return parse(json.dumps(tree), HERE)


def refused(tree: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(tree if isinstance(tree, str) else json.dumps(tree), HERE)
    return [str(problem) for problem in caught.value.problems]


def test_an_empty_object_is_every_default() -> None:
    s = settings()
    assert (s.agents, s.storage, s.airspace.profile) == ((), "sqlite", "calibrated")
    assert (s.ui.host, s.ui.port) == ("127.0.0.1", 4173)
    assert (s.workspace.context_len, s.workspace.max_entry_bytes) == (6000, 4_194_304)
    assert (s.locks.ttl, s.locks.circuit_breaker.failure_threshold) == (90, 3)
    assert s.locks.circuit_breaker.reset_timeout == 300
    assert (s.jitter.busy, s.jitter.medium) == (5, 3)
    assert (s.dispatcher.enabled, s.dispatcher.timeout_s) == (True, 5)
    assert (s.queue.stale_after_s, s.queue.max_attempts, s.queue.backoff_max_s) == (600, 3, 60)
    assert (s.stop.drain_s, s.room.agent_mentions, s.room.hop_limit) == (10, False, 4)


def test_paths_are_relative_to_the_folder_of_the_file() -> None:
    s = settings(
        workspace={"repo": "../code", "log_path": "/var/log/room.log"},
        agents=[{"name": "DEMO", "kind": "scripted", "script": "demo.yaml"}],
    )
    assert s.repo == Path("/room/../code")
    assert s.transcript_path == Path("/var/log/room.log")
    assert s.lock_path == Path("/room/speaker.lock")
    assert s.agents[0].script == Path("/room/demo.yaml")
    names = ["events.db", "token", "relay.pid", "relay.log", "tasks.json", "state.json"]
    paths = [s.db_path, s.token_path, s.pid_path, s.log_file, s.tasks_path, s.state_path]
    assert paths == [Path("/room/.relay") / name for name in names]
    assert settings().transcript_path == Path("/room/.relay/transcript.log")
    assert settings().repo == Path("/room")


@pytest.mark.parametrize(
    ("cmd", "taken"),
    [
        ("cat", ("cat",)),
        ("python3 'my agent.py' --quiet", ("python3", "my agent.py", "--quiet")),
        (["python3", "a b", ""], ("python3", "a b", "")),
        ("./agent -x", ("/room/agent", "-x")),
        ("/bin/cat", ("/bin/cat",)),
    ],
)
def test_a_program_is_a_list_or_a_line(cmd: str | list[str], taken: tuple[str, ...]) -> None:
    assert settings(agents=[{"name": "A", "cmd": cmd}]).agents[0].cmd == taken


def test_a_whole_number_is_a_number_and_settings_cannot_be_changed() -> None:
    s = settings(locks={"ttl": 30}, agents=[{"name": "A", "cmd": "cat", "env": {"K": "v"}}])
    assert s.locks.ttl == 30.0
    with pytest.raises(AttributeError):
        s.locks.ttl = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        s.agents[0].env["K"] = "w"  # type: ignore[index]


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (
            {"ui": {"prot": 1}},
            "ui.prot: unknown key; allowed: allowed_hosts, editor, host, port; nearest: ui.port",
        ),
        (
            {"ui": {"PORT": 1}},
            "ui.PORT: unknown key; allowed: allowed_hosts, editor, host, port; nearest: ui.port",
        ),
        ({"ui": {"port": "4173"}}, 'ui.port: found "4173" (text); allowed: a whole number from 0 to 65535'),
        (
            {"ui": {"port": 70000}},
            "ui.port: found 70000 (a whole number); allowed: a whole number from 0 to 65535",
        ),
        (
            {"ui": {"port": True}},
            "ui.port: found true (true or false); allowed: a whole number from 0 to 65535",
        ),
        ({"ui": {"port": 1.0}}, "ui.port: found 1.0 (a number); allowed: a whole number from 0 to 65535"),
        ({"ui": {"host": " "}}, 'ui.host: found " " (text); allowed: text, not empty'),
        ({"ui": None}, "ui: found null; allowed: an object {...}"),
        (
            {"fleet": {"name": "lap\ntop"}},
            'fleet.name: found "lap\\ntop"; allowed: 60 characters at most, '
            "without line breaks and control characters",
        ),
        (
            {"timeline": {"not_secret": ["hunter2"]}},
            "timeline.not_secret[0]: is no digest; allowed: 16 hex digits, as `relay timeline push` names them",
        ),
        ([], "the whole file: found [] (a list); allowed: an object {...}"),
        ({"locks": {"ttl": "90"}}, 'locks.ttl: found "90" (text); allowed: a number, at least 1'),
        ({"locks": {"ttl": 10**400}}, "locks.ttl: found 1000"),
        (
            {"locks": {"circuit_breaker": {"failure_threshold": 0}}},
            "locks.circuit_breaker.failure_threshold: found 0 (a whole number); allowed: a whole number",
        ),
        ({"dispatcher": {"enabled": "yes"}}, 'dispatcher.enabled: found "yes" (text); allowed: true | false'),
        (
            {"dispatcher": {"ollama_host": "localhost:11434"}},
            'dispatcher.ollama_host: found "localhost:11434"; allowed: http://HOST:PORT',
        ),
        ({"jitter": {"busy": 2}}, "jitter.medium: found 3; allowed: at most jitter.busy, 2"),
        (
            {"storage": "sqllite"},
            'storage: found "sqllite" (text); allowed: "sqlite" | "postgres"; nearest: "sqlite"',
        ),
        (
            {"postgres": {"pool": 2}},
            "postgres.pool: found 2 (a whole number); allowed: a whole number from 4 to 100",
        ),
        ({"airspace": 3}, "airspace: found 3 (a whole number); allowed: an object"),
        ({"agents": {}}, "agents: found {} (an object); allowed: a list of objects"),
        ({"agents": [{"cmd": "x"}]}, "agents[0].name: is missing; allowed: text"),
        (
            {"agents": [{"name": "A", "cmd": "x", "args": ["a", 1]}]},
            "agents[0].args[1]: found 1 (a whole number);",
        ),
        (
            {"agents": [{"name": "A", "cmd": "x", "env": {"K": 1}}]},
            "agents[0].env.K: found 1 (a whole number);",
        ),
        (
            {"agents": [{"name": "claude", "cmd": "x"}]},
            'agents[0].name: found "claude"; allowed: A-Z, 0-9, _ and -, a letter first, '
            '32 at most; write "CLAUDE"',
        ),
        ({"agents": [{"name": "A" * 33, "cmd": "x"}]}, 'agents[0].name: found "AAA'),
        ({"agents": [{"name": "RELAY", "cmd": "x"}]}, 'agents[0].name: found "RELAY", which is reserved'),
        (
            {"agents": [{"name": "A", "cmd": "x"}, {"name": "A", "cmd": "y"}]},
            'agents[1].name: found "A", the name of agents[0] too; allowed: a name of its own',
        ),
        (
            {"agents": [{"name": "A"}]},
            'agents[0].cmd: is missing; allowed: a program, or a preset; give "preset"',
        ),
        (
            {"agents": [{"name": "A", "kind": "acp"}]},
            'agents[0].cmd: is missing; allowed: a program, or a preset; give "preset"',
        ),
        ({"agents": [{"name": "A", "kind": "ollama"}]}, "agents[0].model: is missing;"),
        ({"agents": [{"name": "A", "kind": "scripted"}]}, "agents[0].script: is missing;"),
        (
            {"agents": [{"name": "A", "kind": "ollama", "model": "m", "preset": "claude"}]},
            'agents[0].preset: found with kind "ollama"; allowed: only with kind "command"',
        ),
        (
            {"agents": [{"name": "A", "cmd": "x", "permissions": "bypass"}]},
            'agents[0].permissions: found "bypass" (text); allowed: '
            '"auto" | "read-only" | "edit" | "skip-all-checks"',
        ),
        ('{"ui": {"port": NaN}}', "is not JSON: NaN is not a JSON number"),
        ('{"ui": {}, "ui": {}}', 'is not JSON: "ui" is given twice in one object'),
        ('{"ui": {},}', "is not JSON: line 1, column 1"),
        ("{\n  // mine\n}", "is not JSON: line 2, column 3:"),
        ("", "is not JSON: line 1, column 1:"),
    ],
)
def test_what_is_refused_and_how(tree: Any, said: str) -> None:
    (problem,) = refused(tree)
    assert problem.startswith(said)


RULE = {"run": ["pytest"]}


def handoffs(**section: Any) -> dict[str, Any]:
    return {"handoffs": section}


def test_a_rule_that_is_not_named_is_required_and_has_no_command() -> None:
    s = settings(handoffs={"rules": {"AllTestsPass": {"run": "pytest -q", "required": False}}}).handoffs
    assert s.pipeline == ("architect", "developer", "qa", "security", "deployer")
    assert (s.rule("AllTestsPass").run, s.rule("AllTestsPass").required) == (("pytest", "-q"), False)
    assert (s.rule("LintChecksPassed").run, s.rule("LintChecksPassed").required) == ((), True)
    assert s.transition("qa", "architect") is None
    transition = s.transition("qa", "security")
    assert transition is not None and "AllTestsPass" in transition.rules


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (
            handoffs(rules={"AllTestPass": RULE}),
            "handoffs.rules.AllTestPass: is in no transition; nearest: AllTestsPass",
        ),
        (
            handoffs(transitions=[{"from_role": "qa", "to_role": "securty", "rules": ["AllTestsPass"]}]),
            'handoffs.transitions[0].to_role: found "securty"; allowed: architect, developer, qa, security, '
            "deployer; nearest: security",
        ),
        (
            handoffs(transitions=[{"from_role": "qa", "to_role": "security", "rules": []}]),
            "handoffs.transitions[0].rules: found [] (a list); allowed: a list of strings",
        ),
        (
            handoffs(roles=[{"name": "writer"}]),
            "handoffs.transitions: the default is for other roles (architect, developer is not among yours); "
            "give transitions between your roles",
        ),
        (
            handoffs(roles=[{"name": "QA"}], transitions=[]),
            'handoffs.roles[0].name: found "QA"; allowed: a-z, 0-9, _ and -, 32 at most; write "qa"',
        ),
        (
            handoffs(rules={"AllTestsPass": RULE | {"parse": "junit"}}),
            'handoffs.rules.AllTestsPass.report: is missing; allowed: with parse "junit": the file that it reads',
        ),
        (
            handoffs(rules={"AllTestsPass": RULE | {"parse": "junit", "report": "../junit.xml"}}),
            'handoffs.rules.AllTestsPass.report: found "../junit.xml"; allowed: a path within the tree',
        ),
        (
            handoffs(rules={"AllTestsPass": RULE | {"parse": "regex", "pattern": "(\\d+"}}),
            "handoffs.rules.AllTestsPass.pattern: is no pattern: missing ), unterminated subpattern at position 0",
        ),
        (
            handoffs(rules={"AllTestsPass": RULE | {"parse": "regex", "pattern": "\\d+"}}),
            "handoffs.rules.AllTestsPass.pattern: has no named group; allowed: (?P<test_pass_rate>...)",
        ),
        (
            handoffs(rules={"AllTestsPass": RULE | {"env": ["HOME", "RELAY_API_KEY"]}}),
            'handoffs.rules.AllTestsPass.env[1]: found "RELAY_API_KEY"; allowed: a variable\'s name that does not '
            "begin with RELAY_",
        ),
        (
            handoffs(rules={"CodeCoverageMinimum": RULE | {"minimum": 0.8}}),
            'handoffs.rules.CodeCoverageMinimum.minimum: found without a figure; give "parse"',
        ),
        (
            {"agents": [{"name": "A", "cmd": "x", "role": "developr"}]},
            'agents[0].role: found "developr"; allowed: architect, developer, qa, security, deployer; '
            "nearest: developer",
        ),
    ],
)
def test_what_is_refused_of_handoffs(tree: Any, said: str) -> None:
    assert refused(tree) == [said]


def test_a_key_at_the_wrong_place_is_told_its_own() -> None:
    (problem,) = refused({"failure_threshold": 2})
    assert problem.endswith("nearest: locks.circuit_breaker.failure_threshold")


def test_all_problems_come_at_once() -> None:
    problems = refused({"ui": {"port": "1", "hots": "x"}, "agents": [{"name": "a", "modle": "x"}], "nope": 1})
    keys = {problem.split(":")[0] for problem in problems}
    assert keys == {"ui.port", "ui.hots", "agents[0].name", "agents[0].modle", "agents[0].cmd", "nope"}
    with pytest.raises(
        ConfigError, match=r"/room/config\.json has 2 problems:\n  nope: .*\n  ui\.port: "
    ) as caught:
        parse('{"ui": {"port": -1}, "nope": 1}', HERE)
    assert len(caught.value.problems) == 2


def test_where_the_configuration_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find(None, {}) == tmp_path / "config.json"
    assert find(None, {"RELAY_CONFIG": "other/c.json"}) == tmp_path / "other/c.json"
    assert find("mine.json", {"RELAY_CONFIG": "other/c.json"}) == tmp_path / "mine.json"


def test_every_command_finds_the_room_upwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELAY_CONFIG", raising=False)
    own, deep, fresh = tmp_path / "config.json", tmp_path / "docs" / "more", tmp_path / "fresh"
    copy, mine = tmp_path / ".relay" / "worktrees" / "ANN", tmp_path / "mine"
    for folder in (deep, fresh, copy, mine / ".relay", mine / "src"):
        folder.mkdir(parents=True)
    for file, text in (
        (own, '{"agents": []}'),
        (deep / "config.json", '{"compilerOptions": {}}'),  # another program's
        (fresh / "config.json", '{"agents": [}'),  # one that was never started, with a mistake
        (copy / "config.json", '{"agents": []}'),
        (mine / "relay.json", '{"agents": []}'),
        (mine / "package.json", '{"name": "mine"}'),
    ):
        file.write_text(text)
    for folder, found in (
        (tmp_path, own),
        (deep, own),
        (fresh, fresh / "config.json"),
        (copy, own),
        (mine / "src", mine / "config.json"),  # not that of the room above
    ):
        assert find(None, {}, folder) == found, folder
    for folder, said in (
        (mine, "use --config relay.json"),
        (mine / "src", r"use --config \.\./relay\.json"),
    ):
        monkeypatch.chdir(folder)
        with pytest.raises(ConfigError, match=f"^/.*: there is no such file; {said}"):
            load()
    (mine / "relay.json").unlink()
    with pytest.raises(ConfigError, match="but its configuration is missing"):
        load()
    assert {each.name for each in fields(Settings)} - {"path"} == locate.SECTIONS


def test_a_worktree_elsewhere_is_told_of_the_room_of_its_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, away = tmp_path / "code", tmp_path / "away"
    repository(code, {"a.py": "1\n"})
    git(code, "worktree", "add", "-q", str(away), "-b", "other")
    (away / "src").mkdir()
    for name in ("config.json", "relay.json"):
        (code / name).write_text('{"agents": []}')
        for folder in (away, away / "src"):
            monkeypatch.chdir(folder)
            with pytest.raises(ConfigError, match=f"worktree of {code}: use --config {code / name}"):
                load()
        (code / name).unlink()
    monkeypatch.chdir(away)
    with pytest.raises(ConfigError, match="the smallest configuration is"):
        load()
    monkeypatch.chdir(code)
    with pytest.raises(ConfigError, match="the smallest configuration is"):
        load()


@pytest.mark.parametrize(
    ("content", "said"), [(None, "there is no such file"), (b'{"a": "\xff"}', "byte 7 is not UTF-8")]
)
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        load(path)


def test_the_reserved_names_are_the_rooms() -> None:
    assert loading.RESERVED_NAMES == model.RESERVED_NAMES


def test_what_may_change_while_it_runs() -> None:
    agent = {"name": "A", "cmd": "x"}
    old = settings(agents=[agent, {"name": "GONE", "cmd": "x"}])
    assert not diff(old, settings(agents=[agent, {"name": "GONE", "cmd": "x"}]))
    changes = diff(
        old,
        settings(
            agents=[{"name": "NEW", "cmd": "y"}, agent | {"model": "m", "budget": {"turns_per_hour": 3}}],
            jitter={"busy": 9},
            dispatcher={"model": "other"},
            ui={"port": 0},
            workspace={"log_path": "x.log"},
        ),
    )
    assert [
        (one.key, one.old, one.new) for one in changes.live if one.key not in ("agents.GONE", "agents.NEW")
    ] == [
        ("agents.A.model", None, "m"),
        ("agents.A.budget.turns_per_hour", None, 3),
        ("dispatcher.model", "llama3.2:3b", "other"),
        ("jitter.busy", 5, 9),
    ]
    by_key = {one.key: one for one in changes.live}
    assert by_key["agents.GONE"].new is None
    assert by_key["agents.NEW"].new == AgentSettings(name="NEW", cmd=("y",))
    assert [one.key for one in changes.restart] == ["workspace.log_path", "ui.port"]


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        (
            '{"agents": [{"name": "A", "cmd": "x"}], "ui": {"port": 0}}',
            {"model": "m"},
            '{"agents": [{"name": "A", "cmd": "x", "model": "m"}], "ui": {"port": 0}}',
        ),
        (
            '{"ui":{},"agents":[{"cmd":"x","name":"A","model":"old"}]}',
            {"model": "new"},
            '{"ui":{},"agents":[{"cmd":"x","name":"A","model":"new"}]}',
        ),
        (
            '{\n\t"agents": [\n\t\t{"name": "B", "cmd": "y"},\n\t\t{\n\t\t\t"name": "A",\n'
            '\t\t\t"cmd": "x"\n\t\t}\n\t]\n}\n',
            {"enabled": False, "effort": "low"},
            '{\n\t"agents": [\n\t\t{"name": "B", "cmd": "y"},\n\t\t{\n\t\t\t"name": "A",\n\t\t\t"cmd": "x",\n'
            '\t\t\t"enabled": false,\n\t\t\t"effort": "low"\n\t\t}\n\t]\n}\n',
        ),
        (
            '{\r\n  "agents": [{\r\n    "effort": "low", "name": "A",\r\n    "args": [ "a",  "b" ], '
            '"cmd": "ü",\r\n    "model": "m"\r\n  }]\r\n}',
            {"model": None, "effort": None},
            '{\r\n  "agents": [{\r\n    "name": "A",\r\n    "args": [ "a",  "b" ], "cmd": "ü"\r\n  }]\r\n}',
        ),
    ],
)
def test_writing_back_touches_nothing_else(
    tmp_path: Path, before: str, changes: dict[str, Any], after: str
) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(before.encode())
    path.chmod(0o640)
    written = update_agent(path, "A", changes)
    assert path.read_bytes().decode() == after
    assert written == load(path)
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "changes", "error"),
    [
        ("A", {"timeout_s": "soon"}, ConfigError),
        ("A", {"modle": "m"}, ConfigError),
        ("A", {"model": "m\n"}, ConfigError),
        ("A", {"effort": "\x1b[2J"}, ConfigError),
        ("B", {"model": "m"}, KeyError),
    ],
)
def test_a_bad_change_writes_nothing(
    tmp_path: Path, name: str, changes: dict[str, Any], error: type[Exception]
) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"agents": [{"name": "A", "cmd": "x"}]}')
    with pytest.raises(error):
        update_agent(path, name, changes)
    assert path.read_text() == '{"agents": [{"name": "A", "cmd": "x"}]}'


def test_of_many_changes_at_once_none_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    names = [f"A{number}" for number in range(8)]
    path.write_text(json.dumps({"agents": [{"name": name, "cmd": "x"} for name in names]}))
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: update_agent(path, name, {"model": f"of {name}"}), names))
    assert [agent.model for agent in load(path).agents] == [f"of {name}" for name in names]


def test_the_shipped_configuration_is_good() -> None:
    shipped = load(REPO / "config.json")
    assert [(agent.name, agent.preset) for agent in shipped.agents] == [
        ("CLAUDE", "claude"),
        ("CODEX", "codex"),
        ("GEMINI", "gemini"),
    ]
    assert all(agent.enabled and agent.permissions == "auto" for agent in shipped.agents)


def test_the_table_in_the_docs_is_current() -> None:
    """To mend: python -m relay.config --table, its lines between the marks of docs/configuration.md."""
    text = (REPO / "docs/configuration.md").read_text()
    shown = text.split("<!-- table -->\n")[1]
    assert shown == markdown_table()


@pytest.mark.parametrize(
    ("merge", "said"),
    [
        ({"ladder": "off"}, 'merge.ladder: found "off"'),
        ({"timeout_ms": 0}, "merge.timeout_ms: found 0"),
        ({"test": ["pytest", 3]}, "merge.test[1]: found 3"),
        ({"tests": ["pytest"]}, "merge.tests: unknown key"),
        ({"strategies": [{"paths": ["*"], "use": "guess"}]}, 'merge.strategies[0].use: found "guess"'),
        ({"strategies": [{"use": "ask"}]}, "merge.strategies[0].paths: is missing"),
        (
            {"strategies": [{"paths": ["*"], "use": "agent", "agent": "ZOE"}]},
            'merge.strategies[0].agent: found "ZOE"; allowed: a configured agent',
        ),
    ],
)
def test_what_merging_is_refused(merge: dict[str, Any], said: str) -> None:
    (problem,) = refused({"merge": merge})
    assert problem.startswith(said)


def test_the_command_that_tests_a_merged_tree_is_a_list_or_a_line() -> None:
    assert (settings().merge.ladder, settings().merge.timeout_ms, settings().merge.test) == ("on", 2000, ())
    assert settings(merge={"test": "pytest -q 'a b'"}).merge.test == ("pytest", "-q", "a b")
    assert settings(merge={"test": ["make", "test"]}).merge.test == ("make", "test")
