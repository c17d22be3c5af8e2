"""A worker of the swarm without relay: takes the next item of a list, works on a branch of its own, and merges it.

Where git cannot merge it does what is done when nobody coordinates: it gives the merge up and goes on with the next
item, so that item's work is lost. It overwrites nobody's work. Each merge that was tried is a line of its journal,
with the two commits, so that whoever reads it can try it again.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relay.app.demo.swarm.codebase import Item
from relay.app.demo.swarm.workplace import Workplace, ran


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m relay.app.demo.swarm.alone", description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument(
        "--folder", type=Path, required=True, help="has items.json, and code with the main branch"
    )
    parser.add_argument("--pace", type=float, default=1.0, help="seconds that each file takes")
    args = parser.parse_args()
    folder: Path = args.folder
    place, code = Workplace(Path.cwd(), args.name, args.pace), folder / "code"
    items = [Item.of(told) for told in json.loads((folder / "items.json").read_text())]
    with (folder / f"journal-{args.name}.jsonl").open("a", buffering=1) as journal:
        while (number := _next(folder / "next")) < len(items):
            told = _do(place, code, items[number], folder / "merging")
            journal.write(json.dumps(told) + "\n")
    return 0


def _do(place: Workplace, code: Path, item: Item, merging: Path) -> dict[str, object]:
    """One item: its branch begins where main is now, and is merged when the work is done."""
    branch = f"swarm/{item.number}"
    # By its commit: git reads a name twice here, and would give the files of one main and the branch of the next.
    place.git("checkout", "-q", "-B", branch, place.git("rev-parse", "main"))
    began = time.monotonic()
    commit = place.do(item)
    done = time.monotonic()
    with _alone(merging):  # a checkout has one merge at a time: git itself would refuse the second
        waited = time.monotonic() - done
        onto = place.git("rev-parse", "main")
        who = ("-c", f"user.name={place.who}", "-c", "user.email=demo@relay")
        merged = ran(code, *who, "merge", "-q", "--no-ff", "--no-edit", branch)
        files = [] if merged.returncode == 0 else _conflicts(code)
        if merged.returncode:
            if not files:
                raise SystemExit(
                    f"git merge {branch} failed: {merged.stderr.strip() or merged.stdout.strip()}"
                )
            ran(code, "merge", "--abort")
    return {
        "item": item.number,
        "by": place.who,
        "commit": commit,
        "onto": onto,
        "conflicts": files,
        "worked_s": round(done - began, 2),
        "waited_s": round(waited, 2),
    }


def _conflicts(code: Path) -> list[str]:
    """The files that git could not merge."""
    return ran(code, "diff", "--name-only", "--diff-filter=U").stdout.split()


def _next(path: Path) -> int:
    """The index of the item that nobody has taken yet."""
    with _alone(path.with_suffix(".lock")):
        number = int(path.read_text()) if path.exists() else 0
        path.write_text(str(number + 1))
    return number


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    raise SystemExit(main())
