"""What agents are shown of the timeline."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from relay.config import loading
from relay.config.settings import LiveSettings
from relay.faces import timeline_look
from relay.faces.operations.operation import read
from relay.faces.operations.timeline import timeline
from relay.faces.timeline_look import TimelineLook
from relay.model import Caller, Fault, Refusal
from relay.timeline.checkpoints import CheckpointKind, make_checkpoint
from tests.engines import BOTH
from tests.timeline.rewind.parts import CLAUDE, CODEX, Stage

pytestmark = BOTH
BOT = Caller("CODEX", "s-codex")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = await Stage.open(tmp_path, {"app.py": "one\n"})
    for lane in (CODEX, CLAUDE):
        await stage.give_worktree(lane)
    yield stage
    await stage.store.close()


async def look(stage: Stage, **values: Any) -> Any:
    text = '{"agents": [], "workspace": {"repo": "repo"}}'
    settings = LiveSettings(loading.parse(text, stage.main.top.parent / "config.json"))
    services: Any = SimpleNamespace(timeline=TimelineLook(stage.store, settings))
    return await timeline.run(services, BOT, read(timeline, values))


async def test_each_of_what_it_shows(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await stage.edit(CODEX, {"app.py": "1\n"})
    second = await stage.edit(CLAUDE, {"app.py": "2\n", "b.py": "b\n"})
    for event, name in ((first, "first"), (second, "second")):
        tree = event.snapshot or ""
        await stage.kept.keep(tree, [], lane="s/X", reason=name, at=1.0, checkpoint=True)
        kind = CheckpointKind.MILESTONE
        await stage.store.write(
            lambda tx, name=name, tree=tree, kind=kind: make_checkpoint(tx, CODEX, name, tree, kind)
        )
    log = (await look(stage, what="log"))["events"]
    assert [(event["id"], event["said"].split()[0]) for event in log if event["type"] == "files.changed"] == [
        (first.id, "CODEX"),
        (second.id, "CLAUDE"),
    ]
    assert [event["id"] for event in (await look(stage, what="lane", lane="claude"))["events"]] == [second.id]
    since = (await look(stage, what="log", moment=f"#{first.pos}"))["events"]
    assert first.id not in [event["id"] for event in since]
    shown = (await look(stage, what="show", moment=second.id[:8]))["event"]
    assert shown["knew"]["unseen"] == [{"path": "app.py", "event": first.id}]
    files = await look(stage, what="files", limit=1)
    assert ([file["path"] for file in files["files"]], files["more"]) == (["app.py"], 1)
    names = [each["name"] for each in (await look(stage, what="checkpoints"))["checkpoints"]]
    assert names == ["second", "first"]
    differs = await look(stage, what="diff", moment="first", to="second")
    assert [(file["path"], file["kind"]) for file in differs["files"]] == [
        ("app.py", "write"),
        ("b.py", "write"),
    ]
    assert "-1\n+2\n" in differs["files"][0]["patch"]
    monkeypatch.setattr(timeline_look, "MOST_PATCH", 10)
    assert (await look(stage, what="diff", moment="first", to="second"))["files"][0]["patch"] is None


async def test_what_is_missing_or_not_there_is_refused(stage: Stage) -> None:
    await stage.edit(CODEX, {"app.py": "1\n"})
    cases: tuple[tuple[dict[str, Any], Fault], ...] = (
        ({"what": "show"}, Fault.MALFORMED),
        ({"what": "lane"}, Fault.MALFORMED),
        ({"what": "diff"}, Fault.MALFORMED),
        ({"what": "rewind"}, Fault.MALFORMED),
        ({"what": "show", "moment": "a~b"}, Fault.MALFORMED),
        ({"what": "show", "moment": "nobodys"}, Fault.UNKNOWN),
        ({"what": "lane", "lane": "NOBODY"}, Fault.UNKNOWN),
        ({"what": "diff", "moment": "#999"}, Fault.UNKNOWN),
    )
    for values, fault in cases:
        with pytest.raises(Refusal) as refused:
            await look(stage, **values)
        assert refused.value.fault is fault, values
