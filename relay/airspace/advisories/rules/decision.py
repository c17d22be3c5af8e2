"""One tick, decided: what every pair and every advisory become when the airspace was looked at.

Invariant: the same state and the same observation give the same decision, in whatever order they come; what is
decided is said once, since the decision holds the state after it. Pure: no clock, no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from relay.airspace.advisories.rules import forecasts, set_back, steering
from relay.airspace.advisories.rules.advisory import Advisory, Steering
from relay.airspace.advisories.rules.forecasts import Forecast
from relay.airspace.advisories.rules.grouping import (
    Contact,
    Group,
    Priority,
    group,
    latch_order,
    move_behind,
    priority_of,
)
from relay.airspace.advisories.rules.hysteresis import Rules, Sample, Track, next_said_at, step
from relay.airspace.advisories.rules.observation import (
    MOST_EVIDENCE,
    MOST_FILES,
    AirspaceState,
    Decision,
    Observation,
    PairObservation,
    Step,
)
from relay.airspace.advisories.rules.outcomes import on_close, with_conflicts
from relay.airspace.advisories.rules.set_back import SetBack
from relay.airspace.readings import Evidence, Level
from relay.git.trial_merge import Verdict
from relay.model.working_set import Pair, all_paths


def decide(
    state: AirspaceState, observation: Observation, rules: Rules, *, steer_s: float = 300.0
) -> Decision:
    """One tick. `steer_s`: seconds that a steering agent has to leave."""
    now = observation.at
    tracks: dict[Pair, Track] = {}
    contacts: dict[Pair, Contact] = {}
    heard: dict[Pair, Level] = {}
    open_ones = {id: advisory for id, advisory in state.advisories.items() if advisory.open}
    for pair in sorted({*state.tracks, *observation.observed}):
        if set_back.is_main(pair):
            continue
        observed = observation.observed.get(pair) or PairObservation(Sample(0.0))
        before = state.tracks.get(pair, Track())
        after, say = step(before, observed.sample, rules, now)
        if before.level is not Level.CLEAR and after.level is Level.CLEAR and _held(pair, observation):
            # What git cannot merge is not clear, however far apart it looks.
            after, say = before, None
            observed = _as_before(pair, observed, open_ones, observation)
        if after != before:
            tracks[pair] = after
        if say is not None:
            heard[pair] = say
        if after.level is not Level.CLEAR:
            contacts[pair] = Contact(after.level, observed.sample.risk, observed.files, observed.evidence)
    backs = set_back.update_set_back(
        {name: back for advisory in open_ones.values() for name, back in advisory.set_back.items()},
        observation.trials,
        observation.target,
        now,
        observation.muted,
        observation.targets,
    )
    mains, due = _main_tracks(state, backs, observation, rules)
    tracks |= mains
    owned = _owners(backs, open_ones, observation)
    groups = [
        (members, owned.get(members.id, ()) if members.id is not None else ())
        for members in group(contacts, {id: advisory.contacts for id, advisory in open_ones.items()})
    ]
    groups += [(Group(None, {}), (name,)) for name in owned.get(None, ())]
    priorities = {name: priority_of(working_set) for name, working_set in observation.sets.items()}
    steps = []
    for members, names in groups:
        was = open_ones.get(members.id) if members.id is not None else None
        group_backs = {name: backs[name] for name in names}
        tell = tuple(name for name, back in group_backs.items() if back.untold and name in due)
        made = _step(was, members, heard, observation, priorities, steer_s, group_backs, tell, backs)
        if made is not None:
            steps.append(made)
    return Decision(
        tracks,
        tuple(steps),
        _foretold(state, tracks, observation),
        observation.edit_notices is not None and observation.edit_notices != state.edit_notices,
    )


def _foretold(
    state: AirspaceState, tracks: Mapping[Pair, Track], observation: Observation
) -> dict[Pair, Forecast]:
    """What was foretold and how it came: drawn is what is clear, since an advisory says more."""
    drawn = [
        pair
        for pair in observation.ahead
        if (tracks.get(pair) or state.tracks.get(pair, Track())).level is Level.CLEAR
    ]
    return forecasts.update_forecasts(
        state.forecasts,
        drawn,
        observation.sets,
        observation.conflicts,
        observation.merged,
        observation.trials,
        observation.at,
    )


def _held(pair: Pair, observation: Observation) -> bool:
    """Does git still say, of two that both have something in hand, that the one does not merge onto the other; or
    has it not said yet?"""
    if any(not (work := observation.sets.get(agent)) or not work.files for agent in pair):
        return False
    if pair in observation.conflicts:
        return bool(observation.conflicts[pair])
    if pair in observation.untried:
        return False
    trials = [observation.trials.get(agent) for agent in pair]
    return all(
        trial is not None and not trial.unrelated and trial.verdict is not Verdict.NOTHING for trial in trials
    )


def _as_before(
    pair: Pair, observed: PairObservation, open_ones: Mapping[str, Advisory], observation: Observation
) -> PairObservation:
    """A pair that git alone holds, with what it was about and what git says."""
    paths = observation.conflicts.get(pair, ())
    contacts = [advisory.contacts[pair] for advisory in open_ones.values() if pair in advisory.contacts]
    files = tuple(dict.fromkeys([*paths, *(path for contact in contacts for path in contact.files)]))
    evidence = tuple(Evidence(f"git cannot merge {path}", path) for path in paths[:MOST_EVIDENCE])
    evidence = evidence or tuple(piece for contact in contacts for piece in contact.evidence)
    return PairObservation(observed.sample, files[:MOST_FILES], evidence)


def _main_tracks(
    state: AirspaceState, backs: Mapping[str, SetBack], observation: Observation, rules: Rules
) -> tuple[dict[Pair, Track], frozenset[str]]:
    """What is kept of agents and main, where it is another than before, and who may be told now: while main
    stands still, one that conflicts in ever more files is told once in a cool-down. Who merges again is told of the
    next conflict at once, since the room has said "clear"."""
    now = observation.at
    tracks = {}
    keys = {set_back.track_of(name, back.commit): back for name, back in backs.items()}
    due = set()
    for key in sorted({*(pair for pair in state.tracks if set_back.is_main(pair)), *keys}):
        before = state.tracks.get(key, Track())
        if key[0] not in backs:
            tracks[key] = Track()
            continue
        after, say = step(before, Sample(1.0 if key in keys else 0.0), rules, now)
        if say is None and key in keys and keys[key].untold and _is_long_ago(after, rules, now):
            after = replace(after, said={**after.said, after.level.word: now})
        if after != before:
            tracks[key] = after
        if key in keys and now in after.said.values():
            due.add(key[0])
    return tracks, frozenset(due)


def _is_long_ago(track: Track, rules: Rules, now: float) -> bool:
    """Is what was said of it last older than the cool-down?"""
    last = max(track.said.values(), default=now)
    return track.told is not Level.CLEAR and last <= now - rules.cooldown_s


def _owners(
    backs: Mapping[str, SetBack], open_ones: Mapping[str, Advisory], observation: Observation
) -> dict[str | None, tuple[str, ...]]:
    """Which advisory each agent that is set back belongs to, None for one of its own: the one that it is in already,
    else the one that it had with somebody whose work is in the main branch now, or over one of these files."""
    owned: dict[str | None, tuple[str, ...]] = {}
    for name, back in sorted(backs.items()):
        mine = [
            advisory
            for id, advisory in sorted(open_ones.items())
            if name in {priority.agent for priority in advisory.latched}
        ]
        owner = next((advisory.id for advisory in mine if name in advisory.set_back), None)
        if owner is None:
            near = [advisory for advisory in mine if set(advisory.files) & set(back.paths)]
            over = [
                advisory
                for advisory in mine
                if any(observation.gone(priority.agent) for priority in advisory.latched)
            ]
            owner = next((advisory.id for advisory in (*near, *over)), None)
        owned[owner] = (*owned.get(owner, ()), name)
    return owned


def _step(
    before: Advisory | None,
    group: Group,
    heard: Mapping[Pair, Level],
    observation: Observation,
    priorities: Mapping[str, Priority],
    steer_s: float,
    backs: Mapping[str, SetBack],
    tell: tuple[str, ...],
    all_backs: Mapping[str, SetBack],
) -> Step | None:
    now = observation.at
    base = before or Advisory(id="", opened_at=now)
    # Who is only near stands behind those that it is said to, so that it turns none of them round later.
    latched = latch_order(latch_order(base.latched, group.resolved, priorities), group.agents, priorities)
    latched = latch_order(latched, backs, priorities)
    # Whose merge is under way settles it now.
    late = {name for name, back in all_backs.items() if not back.unsettled}
    before_moves, latched = latched, move_behind(latched, late)
    after = replace(
        base,
        contacts=dict(group.contacts),
        set_back=dict(backs),
        was_set_back=tuple(dict.fromkeys([*base.was_set_back, *backs])),
        latched=latched,
        pairs=tuple(dict.fromkeys([*base.pairs, *group.contacts])),
        files=tuple(
            dict.fromkeys(
                [
                    *base.files,
                    *(f for c in group.contacts.values() for f in c.files),
                    *(path for back in backs.values() for path in back.paths),
                ]
            )
        ),
    )
    after = replace(after, worst=max(after.worst, after.level))
    # Not `merged`, which stands for a while: there may be new work by now.
    empty = {name for name, trial in observation.trials.items() if trial.verdict is Verdict.NOTHING}
    after = after.without_decision(empty)
    landed = frozenset(priority.agent for priority in latched if observation.gone(priority.agent))
    after = steering.check(after, observation.sets, landed, now)
    resolved = after.between is Level.RESOLUTION
    after = replace(after, resolved_at=(after.resolved_at or now) if resolved else None)
    after = with_conflicts(after, observation.conflicts)
    what = [*_changed(before, after)]
    if not after.founded:
        against = tuple(priority.agent for priority in latched if priority.agent in all_backs)
        why = _why_closed(base, after, observation, against)
        after = on_close(replace(after, closed_at=now, closed_why=why))
        what.append("closed")
        if after.outcome is not None and base.outcome is None and "outcome" not in what:
            what.append("outcome")
        heard_now = Level.CLEAR if after.message_id is not None else None
        again = set_back.merges_again(base.set_back, observation.trials)
        return Step(after, before, tuple(what), heard_now, against=against, merges_again=again)
    said_now = {pair: level for pair, level in heard.items() if pair in group.contacts}
    if latched != before_moves and base.told:
        # Who was told to hold steers now: both are told so.
        said_now |= _turned(base, after)
        after = replace(
            after, stands={name: start for name, start in after.stands.items() if name in after.roles.steer}
        )
    if not said_now:
        return Step(after, before, tuple(what), set_back=tell) if what or tell else None
    ask = _ask(after, said_now, observation)
    roles = after.roles
    parts = {agent: part_of(agent, roles.hold, roles.steer) for agent in roles.agents}
    after = steering.begin(replace(after, told=parts), observation.sets, now, steer_s)
    if after.steering != base.steering and "steering" not in what:
        what.append("steering")
    return Step(after, before, tuple(what), max(said_now.values()), ask, tell)


def _turned(before: Advisory, after: Advisory) -> dict[Pair, Level]:
    """The pairs at a resolution in which who was told to hold steers now."""
    now = {name for name in after.roles.steer if before.told.get(name) == "hold"}
    levels = {pair: contact.level for pair, contact in after.contacts.items() if now & set(pair)}
    return {pair: level for pair, level in levels.items() if level is Level.RESOLUTION}


def _changed(before: Advisory | None, after: Advisory) -> list[str]:
    if before is None:
        return ["opened"]
    what = []
    if after.founded and after.level != before.level:
        what.append("worsened" if after.level > before.level else "eased")
    had, have = set(before.roles.agents), set(after.roles.agents)
    if have - had:
        what.append("joined")
    if after.contacts and had - have:
        what.append("parted")
    if not {"worsened", "eased", "joined", "parted"} & set(what) and before.roles != after.roles and have:
        what.append("turned")
    if set(after.set_back) - set(before.set_back):
        what.append("set back")
    elif before.set_back != after.set_back:
        what.append("set back" if set(before.set_back) == set(after.set_back) else "taken in")
    if before.steering != after.steering:
        what.append("steering")
    if before.outcome != after.outcome:
        what.append("outcome")
    return what


def _ask(after: Advisory, heard: Mapping[Pair, Level], observation: Observation) -> tuple[str, ...]:
    """Who is to have a turn: whom the newly said pairs concern, but not who knows it all.

    Where a newcomer joins, only whose part changes is asked. A pair that is near only by what one of the two has
    announced in an answer is told and not asked: an answer must set nobody to work.
    """
    roles = after.roles
    part = {agent: part_of(agent, roles.hold, roles.steer) for agent in roles.agents}
    new = {agent for agent in roles.agents if agent not in after.told}
    asked: set[str] = set()
    for pair in heard:
        if _by_answer_only(pair, after.contacts[pair], observation):
            continue
        changed = {agent for agent in pair if after.told.get(agent) != part[agent]}
        asked |= changed if new & set(pair) else {a for a in pair if a in changed or part[a] != "hold"}
    return tuple(agent for agent in roles.agents if agent in asked)


def part_of(agent: str, hold: Sequence[str], steer: Sequence[str]) -> str:
    """The part that an agent plays: hold, steer or transmit."""
    return "hold" if agent in hold else "steer" if agent in steer else "transmit"


def _by_answer_only(pair: Pair, contact: Contact, observation: Observation) -> bool:
    if contact.level is Level.RESOLUTION or not contact.files:
        return False
    announced: set[str] = set()
    for agent in pair:
        work = observation.sets.get(agent)
        announced |= observation.announced.get(agent, frozenset()) - all_paths(work.files if work else ())
    return set(contact.files) <= announced


def _why_closed(before: Advisory, after: Advisory, observation: Observation, against: Sequence[str]) -> str:
    """Why nothing stands any more, of what git says: never that somebody merges whom git was not asked about."""
    branch = observation.target.name if observation.target is not None else "the main branch"
    still = [f"{name} does not merge into {branch}" for name in against]
    ended = [
        set_back.why_ended(name, observation.trials, observation.merged, branch) for name in before.set_back
    ]
    if ended:
        return "; ".join([*ended, *still])
    names = [priority.agent for priority in after.latched if priority.agent not in before.set_back]
    gone = [name for name in names if name not in observation.sets]
    merged = [name for name in names if name in observation.merged and name not in gone]
    empty = [name for name in names if observation.gone(name) and name not in (*gone, *merged)]
    for those, singular, plural in (
        (gone, "no longer has anything in hand", "no longer have anything in hand"),
        (merged, "merged", "merged"),
        (empty, f"has nothing left to merge into {branch}", f"have nothing left to merge into {branch}"),
    ):
        if those:
            ended.append(f"{' and '.join(those)} {singular if len(those) == 1 else plural}")
    left = [name for name in names if name not in (*gone, *merged, *empty)]
    trials = [observation.trials.get(name) for name in left]
    if left and all(trial is not None and trial.verdict is Verdict.CLEAN for trial in trials):
        ended.append(f"git merges {' and '.join(left)} into {branch}")
    return "; ".join([*ended, *still])


def next_due_at(state: AirspaceState, rules: Rules, now: float) -> float | None:
    """When something is due that no change announces (Unix seconds): a deadline, or what the cool-down holds
    back; None when nothing is."""
    times = [at for track in state.tracks.values() if (at := next_said_at(track, rules)) is not None]
    times += [track.early_until for track in state.tracks.values() if track.early_until > now]
    for advisory in state.advisories.values():
        if advisory.deadline_at is not None and advisory.escalated_at is None and advisory.unanswered:
            times.append(advisory.deadline_at)
        waits = advisory.steering is Steering.WAITING
        if waits and advisory.steer_by is not None and advisory.people_asked_at is None:
            times.append(advisory.steer_by)
    return min(times, default=None)
