"""The service with real repositories, real worker processes and a real database."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from relay import airspace
from relay.code import cache, parse_pool
from relay.code.build import listing
from relay.code.service import GraphError, GraphService
from relay.log import events
from relay.store.ports import Store, Tx
from tests import engines
from tests.engines import BOTH

HOME = Path(__file__).parents[2]
#: Where the graph's tables are made.
TABLES = Path(airspace.__file__).parent
Q = cache.Q


def git(root: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always", *arguments],
        cwd=root,
        check=True,
        capture_output=True,
    )


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q")
    write(
        root, {"pkg/__init__.py": "", "pkg/a.py": "from . import b\n", "pkg/b.py": "def f():\n    return 1\n"}
    )
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    return root


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await engines.open_store(tmp_path, [events.FOLDER, TABLES])
    yield opened
    await opened.close()


Make = Callable[[], Awaitable[GraphService]]


@pytest.fixture
async def make(repo: Path, store: Store) -> AsyncIterator[Make]:
    made: list[GraphService] = []

    async def start() -> GraphService:
        service = GraphService(store, workers=1)
        made.append(service)
        await service.start(repo)
        return service

    yield start
    for service in made:
        await service.close()


async def count_rows(store: Store) -> int:
    async def work(tx: Tx) -> int:
        return len(await tx.all(Q.graph_files, extractor=cache.EXTRACTOR))

    return await store.read(work)


async def test_it_builds_and_follows_changes(repo: Path, make: Make) -> None:
    service = await make()
    assert service.graph.adjacency() == {"pkg/__init__.py": (), "pkg/a.py": ("pkg/b.py",), "pkg/b.py": ()}
    found = service.graph.symbols("pkg/b.py").at(2)
    assert found is not None and (found.qualified, found.start, found.end) == ("f", 1, 2)
    service.updated.clear()
    write(repo, {"pkg/a.py": "from . import c\n"})
    await service.changed(["pkg/a.py"])
    assert service.updated.is_set()
    assert service.graph.imports("pkg/a.py") == ("pkg/__init__.py",)
    write(repo, {"pkg/c.py": "x = 1\n"})
    await service.changed(["pkg/c.py"])
    assert service.graph.imports("pkg/a.py") == ("pkg/c.py",)
    assert service.graph.importers("pkg/c.py") == ("pkg/a.py",)
    (repo / "pkg/c.py").rename(repo / "pkg/d.py")
    await service.changed(["pkg/c.py", "pkg/d.py"])
    assert service.graph.imports("pkg/a.py") == ("pkg/__init__.py",)
    assert "pkg/d.py" in service.graph and "pkg/c.py" not in service.graph


@BOTH
async def test_a_warm_start_parses_nothing(repo: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await make()
    await first.close()

    async def none(*_: object) -> list[parse_pool.Read]:
        raise AssertionError("a file was parsed")

    monkeypatch.setattr(parse_pool.ParsePool, "read", none)
    second = await make()
    assert second.graph == first.graph
    assert second.graph.symbols("pkg/b.py") == first.graph.symbols("pkg/b.py")
    monkeypatch.undo()
    write(repo, {"pkg/b.py": "import pkg.a\n"})
    await second.changed(["pkg/b.py"])
    assert second.graph.imports("pkg/b.py") == ("pkg/a.py",)


async def test_what_changed_while_it_was_away_is_seen(repo: Path, make: Make) -> None:
    await (await make()).close()
    write(repo, {"pkg/c.py": "from . import a\n", "pkg/a.py": ""})
    (repo / "pkg/b.py").unlink()
    service = await make()
    assert service.graph.adjacency() == {"pkg/__init__.py": (), "pkg/a.py": (), "pkg/c.py": ("pkg/a.py",)}


async def test_a_syntax_error_keeps_the_last_good_edges_over_a_restart(repo: Path, make: Make) -> None:
    service = await make()
    write(repo, {"pkg/a.py": "def broken(:\n"})
    await service.changed(["pkg/a.py"])
    assert service.graph.imports("pkg/a.py") == ("pkg/b.py",)
    assert service.graph.failed["pkg/a.py"].startswith("does not parse")
    await service.close()
    again = await make()
    assert again.graph == service.graph
    write(repo, {"pkg/new.py": ""})
    await again.changed(["pkg/new.py"])
    assert again.graph.imports("pkg/a.py") == ("pkg/b.py",)
    write(repo, {"pkg/a.py": "from . import new\n"})
    await again.changed(["pkg/a.py"])
    assert again.graph.imports("pkg/a.py") == ("pkg/new.py",) and again.graph.failed == {}


@BOTH
async def test_a_file_broken_while_it_was_away_keeps_its_last_good_edges(repo: Path, make: Make) -> None:
    await (await make()).close()
    write(repo, {"pkg/a.py": "def broken(:\n"})
    service = await make()
    assert service.graph.imports("pkg/a.py") == ("pkg/b.py",)
    assert list(service.graph.failed) == ["pkg/a.py"]


async def test_ignored_vendored_and_generated_files_stay_out(repo: Path, make: Make) -> None:
    write(
        repo,
        {
            ".gitignore": "*.tmp.py\nout/\n",
            "x.tmp.py": "",
            "out/a.py": "",
            "node_modules/q/index.js": "",
            "vendor/v.go": "package v\n",
            "gen.go": "// Code generated by x. DO NOT EDIT.\npackage g\n",
            "kept.py": "",
        },
    )
    git(repo, "add", "-f", "node_modules", "vendor")
    service = await make()
    assert [path for path in sorted(service.graph.adjacency()) if not path.startswith("pkg/")] == ["kept.py"]
    assert service.left_out == {"gen.go": "generated"}
    write(repo, {"y.tmp.py": "", "out/b.py": "", "node_modules/r.js": "", "also.py": ""})
    await service.changed(["y.tmp.py", "out/b.py", "node_modules/r.js", "also.py"])
    assert [path for path in sorted(service.graph.adjacency()) if not path.startswith("pkg/")] == [
        "also.py",
        "kept.py",
    ]
    write(repo, {".gitignore": "kept.py\n"})
    await service.changed([".gitignore"])
    assert "kept.py" not in service.graph and "x.tmp.py" in service.graph


async def test_links_and_submodules_are_not_followed(repo: Path, tmp_path: Path, make: Make) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    write(other, {"s.py": ""})
    git(other, "add", "-A")
    git(other, "commit", "-qm", "one")
    git(repo, "submodule", "add", "-q", str(other), "sub")
    (repo / "loop").symlink_to(".")
    (repo / "self.py").symlink_to("self.py")
    (repo / "out.py").symlink_to("/etc/passwd")
    (repo / "linked").symlink_to("pkg")
    os.mkfifo(repo / "pipe.py")
    service = await make()
    files = ["pkg/__init__.py", "pkg/a.py", "pkg/b.py"]
    assert sorted(service.graph.adjacency()) == files
    await service.changed(
        ["sub/s.py", "loop/pkg/a.py", "self.py", "out.py", "linked/a.py", "pipe.py", "sub", "loop"]
    )
    assert sorted(service.graph.adjacency()) == files


async def test_odd_names(repo: Path, make: Make) -> None:
    odd = ["a b/größe.py", 'it\'s "q".py', "line\nend.py", os.fsdecode(b"caf\xe9.py"), "*.py", ":(top)x.py"]
    write(repo, {path: "import pkg.a\n" for path in odd[:3]})
    service = await make()
    write(repo, {path: "import pkg.a\n" for path in odd[3:]})
    await service.changed(odd[3:])
    assert set(odd) < set(service.graph.adjacency())
    assert set(service.graph.importers("pkg/a.py")) == set(odd)
    await service.close()
    assert (await make()).graph == service.graph


async def test_folders_that_come_and_go(repo: Path, make: Make) -> None:
    service = await make()
    (repo / "pkg").rename(repo / "moved")
    await service.changed(["pkg", "moved"])
    assert service.graph.adjacency() == {
        "moved/__init__.py": (),
        "moved/a.py": ("moved/b.py",),
        "moved/b.py": (),
    }


@pytest.mark.parametrize("role", ["resolve", "parse"])
async def test_a_killed_worker_is_started_again(repo: Path, make: Make, role: str) -> None:
    service = await make()
    worker = service._resolver if role == "resolve" else service._pool.workers[0]
    assert worker.pid is not None
    os.killpg(worker.pid, signal.SIGKILL)
    write(repo, {"pkg/a.py": "", "pkg/c.py": "from . import a, b\n"})
    await service.changed(["pkg/a.py", "pkg/c.py"])
    assert service.graph.adjacency() == {
        "pkg/__init__.py": (),
        "pkg/a.py": (),
        "pkg/b.py": (),
        "pkg/c.py": ("pkg/a.py", "pkg/b.py"),
    }
    assert service.restarts == 1


async def test_a_file_that_ends_its_parser_is_named_and_the_others_are_read(
    repo: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = await make()
    write(
        repo, {"pkg/deadly.py": "x = 1\n", "pkg/c.py": "from . import a\n", "pkg/z.py": "from . import a\n"}
    )
    real = parse_pool.WorkerProcess.ask_many

    async def deadly(self, message, parts=(), *, count, timeout_s):  # type: ignore[no-untyped-def]
        async for answer in real(self, message, parts, count=count, timeout_s=timeout_s):
            if answer[0].get("path") == "pkg/deadly.py":
                await self._end()
                raise parse_pool.WorkerDied("killed")
            yield answer

    monkeypatch.setattr(parse_pool.WorkerProcess, "ask_many", deadly)
    await service.changed(["pkg/deadly.py", "pkg/c.py", "pkg/z.py"])
    assert service.graph.imports("pkg/c.py") == service.graph.imports("pkg/z.py") == ("pkg/a.py",)
    assert service.graph.failed["pkg/deadly.py"].startswith("the parser ended on it")
    monkeypatch.undo()
    await service.changed(["pkg/deadly.py"])
    assert service.graph.failed == {} and "pkg/deadly.py" in service.graph


async def test_texts_are_read_in_a_worker(make: Make) -> None:
    service = await make()
    symbols = await service.read("x.py", b"def g(): pass\n")
    assert symbols is not None and [one.name for one in symbols.definitions] == ["g"]
    assert await service.read("x.py", b"def g(:\n") is None
    assert await service.read("x.txt", b"") is None


@BOTH
async def test_rows_that_nobody_used_are_dropped(repo: Path, store: Store, make: Make) -> None:
    old = {("f" * 40, "python"): cache.Row(b"", b"", "")}
    await cache.put_rows(store, old, now=1.0)
    await make()
    assert await count_rows(store) == 3


async def test_no_repository_is_said(tmp_path: Path, store: Store) -> None:
    service = GraphService(store, workers=1)
    try:
        with pytest.raises(GraphError, match="not a git repository"):
            await service.start(tmp_path)
    finally:
        await service.close()


async def test_hooks_and_configuration_do_not_fire(repo: Path, make: Make, tmp_path: Path) -> None:
    marker = tmp_path / "fired"
    program = tmp_path / "monitor.sh"
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    git(repo, "config", "core.fsmonitor", str(program))
    git(repo, "config", "filter.x.clean", str(program))
    write(repo, {".gitattributes": "*.py filter=x\n", "pkg/b.py": "x = 2\n"})
    service = await make()
    await service.changed(["pkg/b.py", "pkg/new.py"])
    assert not marker.exists()


def test_hashes_are_gits_own(repo: Path) -> None:
    said = subprocess.run(
        ["git", "hash-object", "pkg/b.py"], cwd=repo, capture_output=True, text=True, check=True
    )
    assert listing.blob_hash((repo / "pkg/b.py").read_bytes()) == said.stdout.strip()


async def test_the_workers_end_when_the_daemon_is_killed(repo: Path, tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import asyncio, os, signal, sys
        from pathlib import Path
        from relay import airspace
        from relay.code.service import GraphService
        from relay.log import events
        from relay.store.sqlite.store import open_store

        async def main():
            store = await open_store(Path(sys.argv[2]), [events.FOLDER, Path(airspace.__file__).parent])
            service = GraphService(store, workers=1)
            await service.start(Path(sys.argv[1]))
            print("PIDS", service._resolver.pid, service._pool.workers[0].pid, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

        asyncio.run(main())
        """
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        str(repo),
        str(tmp_path / "x.db"),
        env=os.environ | {"PYTHONPATH": str(HOME)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    said, _ = await process.communicate()
    (line,) = (one.split()[1:] for one in said.splitlines() if one.startswith(b"PIDS"))
    pids = [int(word) for word in line]
    assert len(pids) == 2
    for _ in range(500):
        if not any(_lives(pid) for pid in pids):
            return
        await asyncio.sleep(0.02)
    raise AssertionError("a worker outlived its daemon by ten seconds")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
