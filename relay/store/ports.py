"""What the wings may ask of a store, whichever engine is behind it.

Invariant: nothing above this file knows the engine. A transaction is a coroutine that awaits nothing but its `Tx`, so
the SQLite store can run it to its end on the writer's thread (one hop), and the PostgreSQL store statement by
statement. SQL stands in `.sql` files of the wing that owns the tables: `<wing>/sql/*.sql` where the dialects agree,
`<wing>/<dialect>/*.sql` where they do not, and `<wing>/<dialect>/migrations/NNNN_name.sql`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from relay.model import Caller

if TYPE_CHECKING:
    from relay.store.wakeup import Wakeup  # not imported: it loads structlog, which `relay mcp` defers

T = TypeVar("T")
Row = Mapping[str, Any]


def of_row(kind: Callable[..., T], row: Row, /, **others: Any) -> T:
    """A value of the dataclass `kind`: each field from the column of its name, save those that `others` has."""
    columns = {name: row[name] for name in _field_names(kind) if name not in others}
    return kind(**columns, **others)


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


class StoreError(Exception):
    """The store could not do it; the message says what a person can do."""


class StoreMissing(StoreError):
    """There is no such store, and the caller did not ask to make it."""


class StoreBusy(StoreError):
    """Another process held the database for longer than we wait. Nothing was changed; try again."""


class OutcomeUnknown(StoreError):
    """The connection was lost during a COMMIT: the transaction is kept, or it is not."""


class StoreAway(StoreError):
    """There is no connection to the database, or it was just lost. The store itself logs that, once a process."""


class StoreMoved(StoreAway, StoreBusy):
    """The database's files were removed or replaced while it was open. A write would be lost, so nothing was written.
    `fix` says what a person has to do. It may pass: the files may come back."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


class AnotherDaemon(StoreError):
    """Another daemon has this database; the message names it and says what to do."""


def is_away(error: BaseException) -> bool:
    """Whether this error, or each error of this group, says that the database is away."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_away(inner) for inner in error.exceptions)
    return isinstance(error, StoreAway)


class AwaitedOutside(StoreError):
    """A transaction awaited something other than its `Tx`, which would hold the write lock meanwhile."""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A named statement of a wing; the store looks up its text: shared by the dialects, or of its own one.

    Compared by identity: its text is looked up at every statement, and hashing a path costs as much as some of them.
    """

    folder: Path
    name: str


class Queries:
    """The named statements of one wing: `Q = Queries(Path(__file__).parent)`, then `Q.append_event`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getattr__(self, name: str) -> Query:
        query = Query(self.folder, name)
        setattr(self, name, query)  # found there the next time
        return query


class Tx(Protocol):
    """One open transaction. Parameters are named (`:name` in the SQL)."""

    async def execute(self, query: Query, **params: Any) -> int:
        """Run a statement; the number of rows it changed."""
        ...

    async def one(self, query: Query, **params: Any) -> Row | None:
        """The first row, or None."""
        ...

    async def all(self, query: Query, **params: Any) -> Sequence[Row]:
        """Every row."""
        ...

    async def many(self, query: Query, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run a statement that gives no rows once for each of these sets of values, in their order."""
        ...

    async def now(self) -> float:
        """Unix seconds by the store's clock, the same throughout the transaction. Leases expire by it."""
        ...

    def as_room(self) -> AbstractAsyncContextManager[None]:
        """`async with tx.as_room():` runs statements with the room's rights instead of the actor's, for instance to
        take back what another agent lost."""
        ...


Work = Callable[[Tx], Coroutine[Any, Any, T]]


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a store in bytes: its `data`, and its `journal` (0 where the engine looks after its own)."""

    data: int
    journal: int


class Store(Protocol):
    """A database with the log in it."""

    @property
    def engine(self) -> str:
        """Its name, which is also the folder of its SQL."""
        ...

    @property
    def place(self) -> str:
        """Where it is, in a short form for people; without a secret."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What a person should know about its set-up, though it works."""
        ...

    @property
    def trouble(self) -> str:
        """Why nothing can be written to it, though it is open, as far as known without asking it; else empty."""
        ...

    @property
    def errors(self) -> type[Exception]:
        """What the engine raises for a fault of its own or of a statement, beside StoreError."""
        ...

    @property
    def transient(self) -> type[Exception]:
        """What the engine raises when it is unavailable (locked, full, away): the same may work later."""
        ...

    async def write(
        self,
        work: Work[T],
        *,
        durable: bool = False,
        single: bool = False,
        quiet: bool = False,
        actor: Caller | None = None,
    ) -> T:
        """Run `work` in one write transaction: all of it or nothing. `durable` = on disk when it returns.

        Writers run one after the other, so `work` may decide by what it reads. `single`: `work` is one statement that
        is atomic by itself (a function of the database), so an engine with many writers may run it beside others of
        its kind. `quiet`: such a write that appends no event and that nobody waits for, so it need wake nobody.
        `actor`: the caller that it works for; an engine that knows rights gives it this caller's only.

        `work` may run more than once, where nothing of the earlier run was kept, so its other effects may repeat. A
        call that is cancelled before it began does not run; one that is cancelled later may still be committed.

        Raises StoreBusy when the database stays locked by others, and whatever `work` raises.
        """
        ...

    async def read(
        self, work: Work[T], *, long: bool = False, single: bool = False, actor: Caller | None = None
    ) -> T:
        """Run `work` on one consistent snapshot; it cannot write. `long` reads wait only for each other. `single`:
        `work` is one statement, so it needs no BEGIN and COMMIT where each is a round trip."""
        ...

    def wakeup(self, types: Collection[str] | None = None, *, first: bool = False) -> Wakeup:
        """Wakes when events of these types may have been committed; None: at every commit. `first`: before those
        that are not, since people wait for what it brings."""
        ...

    async def daemon(self, member: str) -> str:
        """The daemon of the database that is called so, as `pid N on HOST`; empty: there is none, or the engine does
        not know."""
        ...

    async def stay_sole(self) -> None:
        """For a store that was opened as a daemon's: waits while it is the only one of its name; returns at once
        where the engine has no daemons on other machines. Raises AnotherDaemon when another daemon has the name."""
        ...

    async def check(self) -> list[str]:
        """What is wrong with the stored data; empty when it is sound."""
        ...

    async def size(self) -> Size: ...

    async def checkpoint(self, *, whole: bool = False) -> bool:
        """Write the journal into the data, without waiting for anybody; `whole`: and empty it, waiting a few seconds.

        False when a reader or writer kept some of it back.
        """
        ...

    async def give_back(self) -> int:
        """Give the space that the data does not use any more to the disk, where that is worth it; the bytes. Whoever
        writes meanwhile waits, so no daemon may run. Raises the store's errors (the disk is full), and nothing is
        changed then."""
        ...

    async def close(self) -> None: ...


_NAME = re.compile(r"^--\s*name:\s*(\w+)\s*$", re.MULTILINE)


@cache
def load_queries(folder: Path, dialect: str) -> Mapping[str, str]:
    """Every `-- name: x` block of `<folder>/sql/*.sql` (what the dialects agree on) and `<folder>/<dialect>/*.sql`.

    Raises StoreError for a name that stands twice: a statement is shared, or one of each dialect.
    """
    queries: dict[str, str] = {}
    for file in [*sorted((folder / "sql").glob("*.sql")), *sorted((folder / dialect).glob("*.sql"))]:
        text = file.read_text("utf-8")
        marks = list(_NAME.finditer(text))
        for mark, following in zip(marks, [*marks[1:], None], strict=True):
            name = mark.group(1)
            if name in queries:
                raise StoreError(f"{file}: the query {name!r} stands twice for {dialect}")
            queries[name] = text[mark.end() : following.start() if following else None].strip().rstrip(";")
    return queries


@cache
def query_text(query: Query, dialect: str) -> str:
    """The text of a named query in a dialect. Raises StoreError when the wing has no query of that name."""
    try:
        return load_queries(query.folder, dialect)[query.name]
    except KeyError:
        raise StoreError(f"{query.folder.name}/{dialect} has no query named {query.name!r}") from None


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of a wing's schema. An applied step is never edited: its digest is kept."""

    wing: str
    version: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


#: Folders whose steps a database records under an earlier name of the folder.
_IDS = {"access": "faces"}


def schema_id(folder: Path) -> str:
    """The name under which a database records the steps of this folder. It never changes; the folder's may."""
    return _IDS.get(folder.name, folder.name)


def load_migrations(folder: Path, dialect: str) -> list[Migration]:
    """The wing's migrations in order. Raises StoreError on a gap or a double number."""
    steps = []
    for file in sorted((folder / dialect / "migrations").glob("*.sql")):
        number, _, name = file.stem.partition("_")
        steps.append(Migration(schema_id(folder), int(number), name, file.read_text("utf-8")))
    if [step.version for step in steps] != list(range(1, len(steps) + 1)):
        raise StoreError(f"{folder.name}/{dialect}/migrations are not numbered 1, 2, 3 ...")
    return steps


def steps_to_apply(folder: Path, dialect: str, applied: Mapping[int, str]) -> list[Migration]:
    """The wing's steps that a database lacks; `applied` is the digest of each version that it has.

    Raises StoreError when a newer relay wrote it, or when an applied step was edited since.
    """
    known = load_migrations(folder, dialect)
    if applied and max(applied) > len(known):
        raise StoreError(
            f"the database has version {max(applied)} of {schema_id(folder)!r} and this relay knows "
            f"{len(known)}: it was written by a newer relay; update this one"
        )
    for step in known:
        if applied.get(step.version, step.digest) != step.digest:
            raise StoreError(
                f"migration {step.wing} {step.version} ({step.name}) differs from the one that "
                "was applied; add a new migration instead of editing this one"
            )
    return [step for step in known if step.version not in applied]
