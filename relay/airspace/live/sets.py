"""The working sets as the scan measures them: with what their agents mean to touch, without what is muted. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from relay.airspace.advisories.intents import Declared, Source
from relay.airspace.globs import matches
from relay.model.working_set import FileTouch, WorkingSet, all_paths


def with_intents(sets: Mapping[str, WorkingSet], declared: Declared) -> dict[str, WorkingSet]:
    """The sets with what their agents have declared; one who has only declared something has a set too."""
    made = dict(sets)
    for agent, paths in declared.items():
        before = made.get(agent, WorkingSet(agent))
        new = set(paths) - all_paths(before.intent)
        made[agent] = replace(
            before,
            intent=(
                *before.intent,
                *(FileTouch(path, locked=Source.LOCK in paths[path]) for path in paths if path in new),
            ),
        )
    return dict(sorted(made.items()))


def without(one: WorkingSet, globs: Sequence[str]) -> WorkingSet:
    """The set without the muted files, so that what is measured is about the rest."""

    def kept(files: Sequence[FileTouch]) -> tuple[FileTouch, ...]:
        return tuple(touch for touch in files if not all(matches(path, globs) for path in touch.paths))

    return replace(one, files=kept(one.files), intent=kept(one.intent))
