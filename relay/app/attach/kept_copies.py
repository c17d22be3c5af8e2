"""Files that `relay attach` changes, with a copy of each as it was: so `relay detach` gives every byte back.

Invariants:
- the copy is on disk before a file is changed, and goes when the file is as it was again;
- each file is replaced whole, and only if it still stands as it was shown to the person;
- a file that its person changed meanwhile is not put back: only what is ours is taken out of it, and that is said;
- who runs the two commands at the same time waits for the other (`alone_in`).

A record lies in `.relay/attach/`, one for each checkout. Blocking.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from relay.base.files import alone_in, write_atomically
from relay.base.git_checkouts import repository


class ChangedMeanwhile(Exception):
    """A file is not any more as it was shown; the message names it."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that is to be changed. `before` None: there is none; `kind`: how ours is taken out of it again."""

    kind: str
    path: Path
    before: bytes | None
    after: bytes


#: Takes ours out of what stands in a kept file now.
Without = Callable[["KeptFile", bytes], bytes]


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file as it was (`before`, base64; None: there was none) and as it was left (`after`, SHA-256). `made`: the
    folders that were made for it, the innermost last; `keys`: what is ours in it, where its kind has such."""

    kind: str
    path: str
    before: str | None
    after: str
    mode: int = 0o644
    made: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def content(self) -> bytes | None:
        return None if self.before is None else base64.b64decode(self.before)


@contextlib.contextmanager
def alone(runtime: Path) -> Iterator[None]:
    """Hold the folder of the records (`attached_record`). Raises TimeoutError, OSError."""
    folder = runtime / "attach"
    runtime.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    with alone_in(folder):
        yield


def kept(path: Path) -> list[KeptFile]:
    """What is kept in a record; nothing where there is none. Raises OSError, ValueError."""
    if not path.is_file():
        return []
    files = json.loads(path.read_bytes())["files"]
    return [KeptFile(**{**file, "made": tuple(file["made"]), "keys": tuple(file["keys"])}) for file in files]


def content_of(path: Path) -> bytes | None:
    """Raises OSError."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def original(file: KeptFile, now: bytes | None, without: Without) -> bytes | None:
    """The file as it would be without us: as it was, or, where its person changed it since, what stands there now
    without ours."""
    if now is None or _digest(now) == file.after:
        return file.content
    return without(file, now)


def apply(record: Path, checkout: Path, changes: Sequence[FileChange], without: Without) -> None:
    """Keep what is there, then change it. Raises ChangedMeanwhile, OSError, ValueError."""
    files = {file.path: file for file in kept(record)}
    for change in changes:
        if content_of(change.path) != change.before:
            raise ChangedMeanwhile(f"{change.path} was changed meanwhile")
        known = files.get(str(change.path))
        before = change.before if known is None else original(known, change.before, without)
        exists = change.path.exists()
        files[str(change.path)] = KeptFile(
            change.kind,
            str(change.path),
            None if before is None else base64.b64encode(before).decode(),
            _digest(change.after),
            change.path.stat().st_mode & 0o777 if exists else 0o644,
            known.made if known else tuple(str(folder) for folder in _missing(change.path.parent)),
        )
    _write(record, checkout, list(files.values()))
    for change in changes:
        change.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(change.path.resolve(), change.after, files[str(change.path)].mode)


def share(record: Path, checkout: Path, kind: str) -> None:
    """Keep also what another checkout of the same repository had changed for both: a file of this kind goes back with
    the last of them. Raises OSError, ValueError."""
    files = kept(record)
    for other in record.parent.glob("*.json"):
        common = [file for file in kept(other) if file.kind == kind] if other != record else []
        same = repository(checkout) == repository(_checkout(other)) if common else False
        files += [file for file in common if same and file.path not in {known.path for known in files}]
    _write(record, checkout, files)


def elsewhere(record: Path, kind: str) -> set[str]:
    """The paths of this kind that other records have. Raises OSError, ValueError."""
    others = [other for other in record.parent.glob("*.json") if other != record]
    return {file.path for other in others for file in kept(other) if file.kind == kind}


def _checkout(record: Path) -> Path:
    return Path(json.loads(record.read_bytes())["checkout"])


def keep_for(
    record: Path, checkout: Path, kind: str, path: Path, keys: Sequence[str], without: Without
) -> Callable[[], None]:
    """Keep a file that another program is about to change by our order. What is given back notes, when it has, how it
    left the file. Raises OSError, ValueError."""
    files = {file.path: file for file in kept(record)}
    known, now = files.get(str(path)), content_of(path)
    before = now if known is None else original(known, now, without)
    told = KeptFile(
        kind,
        str(path),
        None if before is None else base64.b64encode(before).decode(),
        _digest(now or b""),
        keys=tuple(dict.fromkeys([*(known.keys if known else ()), *keys])),
    )
    _write(record, checkout, [*(file for file in files.values() if file is not known), told])

    def note() -> None:
        after = replace(told, after=_digest(content_of(path) or b""))
        _write(record, checkout, [after if file.path == str(path) else file for file in kept(record)])

    return note


def put_back(file: KeptFile, without: Without) -> str:
    """Give a file back as it was; what was done, as `restored`, `removed`, `edited` (its person had changed it, and
    only ours was taken out) or `unchanged`. Raises OSError, and what `without` raises."""
    path = Path(file.path)
    now = content_of(path)
    wanted = original(file, now, without)
    if now is None or now == wanted:
        done = "unchanged"
    elif wanted is None:
        path.unlink()
        done = "removed"
    else:
        write_atomically(path.resolve(), wanted, path.stat().st_mode & 0o777)
        done = "restored" if _digest(now) == file.after else "edited"
    for folder in reversed(file.made):
        with contextlib.suppress(OSError):  # others put something there
            Path(folder).rmdir()
    return done


def _write(record: Path, checkout: Path, files: Sequence[KeptFile]) -> None:
    told = {"checkout": str(checkout), "files": [asdict(file) for file in files]}
    write_atomically(record, json.dumps(told, indent=1) + "\n")


def _missing(folder: Path) -> list[Path]:
    """The folders that are not there, the outermost first."""
    missing: list[Path] = []
    while not folder.exists():
        missing.insert(0, folder)
        folder = folder.parent
    return missing


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
