"""Who signs a merge, in which words, as what, and what becomes of work that nobody wants."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from relay.airspace.worktrees.commit_message import Asked, WorkSummary
from relay.airspace.worktrees.merging.proposal import MergeOptions
from relay.airspace.worktrees.view import rows
from relay.model import Refusal
from tests.git.repository import ENV, Room, commit, git, lines, own_branch, repository, room, write
from tests.git.test_run import set_traps

ANN = "Ann Lee <ann@example.com>"
DID = "Added `total()`. It rounds to cents."
SQUASH = MergeOptions(squash=True)


@pytest.fixture(autouse=True)
def _nobody_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """git finds nobody but whom a test names: not the person who runs the tests."""
    for name in ("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def knows(repo: Path) -> None:
    git(repo, "config", "user.name", "Ann Lee")
    git(repo, "config", "user.email", "ann@example.com")


def told(one: Room, **more: object) -> None:
    one.about = WorkSummary(**more)  # type: ignore[arg-type]


def shown(repo: Path, commit: str = "main") -> list[str]:
    return git(repo, "log", "-1", "--format=%an <%ae>%n%cn <%ce>%n%B", commit).rstrip().split("\n")


async def test_the_person_commits_and_the_agent_is_the_author(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    knows(repo)
    one = await room(repo, "A")
    told(
        one,
        requests=(Asked("@A please add a total to the cart. It must round."),),
        answer=DID,
    )
    write(one.at("A"), {"a.py": "agent\n" + lines(2, 20)})
    done = await one.actions.merge("A", "ann")
    assert done["success"] and "no name" not in done["reason"]
    assert shown(repo) == [
        "A <a@relay>",
        ANN,
        f"Merge {own_branch('a', 'Ann Lee')}: Add a total to the cart",
        "",
        DID,
    ]
    # What was not committed yet is a commit of the agent's, by the same person.
    assert shown(repo, "main^2") == [
        "A <a@relay>",
        ANN,
        "Add a total to the cart",
        "",
        DID,
    ]


@pytest.mark.parametrize("squash", [False, True])
async def test_a_commit_names_the_event_that_it_comes_of(tmp_path: Path, squash: bool) -> None:
    repo = repository(tmp_path / "repo")
    knows(repo)
    one = await room(repo, "A")
    one.names_events = True
    write(one.at("A"), {"a.py": "agent\n" + lines(2, 20)})
    git(one.at("A"), "add", "-A")
    git(one.at("A"), "commit", "-q", "-m", "Half", "-m", "TimeWarp-Snapshot-Id: of the agent's own")
    write(one.at("A"), {"b.py": "agent\n"})
    proposed = await one.actions.propose("A", "ann", MergeOptions(squash))
    assert "TimeWarp" not in proposed["text"] + proposed["message"], "they are known when it is committed"
    await one.actions.merge("A", "ann", MergeOptions(squash))
    commits = ["main"] if squash else ["main", "main^2"]
    for named in commits:
        told = git(repo, "log", "-1", "--format=%(trailers:only)", named).strip().split("\n")
        tree = git(repo, "rev-parse", f"{named}^{{tree}}")
        timeline = ["TimeWarp-Agent-Id: A", f"TimeWarp-Snapshot-Id: {tree}"]
        others = ["Co-authored-by: Ann <ann@example.org>"] if named == "main" else []
        assert told == [*others, *timeline]


async def test_what_a_branch_would_undo_of_what_another_landed_is_said(tmp_path: Path) -> None:
    """git merges it cleanly where the branch has the landed commit, and wrote the file as it was before."""
    repo = repository(tmp_path / "repo")
    knows(repo)
    one = await room(repo, "A", "B", "C")
    write(one.at("B"), {"a.py": lines(1, 10) + "never negative\n" + lines(11, 20)})
    landed = (await one.actions.merge("B", "ann"))["commit"]

    async def undoes(agent: str) -> tuple[str, list[Mapping[str, str]]]:
        for worktree in one.registry.worktrees.values():
            worktree.mark_stale(None)
        await one.look()
        row = next(row for row in (await rows(one.registry))[0] if row["agent"] == agent)
        return row["merges"], row["undoes"]

    # From before: whatever it writes, git keeps what has landed since.
    write(one.at("A"), {"a.py": "first\n" + lines(2, 20)})
    assert await undoes("A") == ("clean", [])
    # It has the landed commit, and writes the whole file as it remembers it.
    git(one.at("C"), "merge", "-q", "--ff-only", "main")
    write(one.at("C"), {"a.py": lines(1, 19) + "last\n", "more.py": "x\n"})
    told = {"agent": "B", "path": "a.py", "commit": landed, "did": "landed"}
    assert await undoes("C") == ("clean", [told])
    order = (await rows(one.registry, decided={"C"}))[1]
    assert [(turn["agent"], turn["undoes"]) for turn in order] == [("A", []), ("C", [told])]
    # With the line, and whatever else, it undoes nothing; so does one that changes what stood there.
    write(one.at("C"), {"a.py": lines(1, 10) + "never negative\n" + lines(11, 19) + "last\n"})
    assert await undoes("C") == ("clean", [])
    write(one.at("C"), {"a.py": lines(1, 10) + "not below zero\n" + lines(11, 20)})
    assert await undoes("C") == ("clean", [])
    # A merge that is settled by the own side.
    git(one.at("A"), "commit", "-qam", "first")
    git(one.at("A"), "merge", "-q", "-s", "ours", "-m", "merge", "main")
    assert await undoes("A") == ("clean", [told])


async def test_what_was_taken_back_and_comes_again_is_said_wherever_it_is_merged(tmp_path: Path) -> None:
    """Of a file that the merge had added, too."""
    repo = repository(tmp_path / "repo")
    knows(repo)
    one = await room(repo, "A", "C")
    write(one.at("A"), {"a.py": "first\n" + lines(2, 20), "new.py": lines(1, 9)})
    merged = (await one.actions.merge("A", "ann"))["commit"]
    back = (await one.actions.take_back("A", "ann", merged))["commit"]
    await one.look()
    row = (await rows(one.registry))[0][0]
    assert row["files"] == 2, "its branch has the work again"
    assert row["undoes"] == [
        {"agent": "ann", "path": path, "commit": back, "did": "took back"} for path in ("a.py", "new.py")
    ]
    warnings = [
        f"{path}: it brings back what ann took back (commit {back[:9]})" for path in ("a.py", "new.py")
    ]
    assert (await one.actions.propose("A", "ben", MergeOptions()))["warnings"] == warnings
    done = await one.actions.merge("A", "ben")
    assert done["warnings"] == warnings and f"yet look at {', '.join(warnings)}." in done["reason"]
    # What landed twice is undone once.
    git(one.at("C"), "merge", "-q", "--ff-only", "main")
    write(one.at("C"), {"a.py": lines(1, 20)})
    (one.at("C") / "new.py").unlink()
    await one.look()
    assert (await rows(one.registry))[0][1]["undoes"] == [
        {"agent": "A", "path": path, "commit": done["commit"], "did": "landed"} for path in ("a.py", "new.py")
    ]


async def test_the_persons_own_configuration_counts(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (tmp_path / "home" / ".gitconfig").write_text("[user]\n\tname = Ann Lee\n\temail = ann@example.com\n")
    one = await room(repo, "A")
    write(one.at("A"), {"a.py": "agent\n"})
    await one.actions.merge("A", "ann")
    assert shown(repo)[1] == ANN


@pytest.mark.parametrize("half", [False, True])
async def test_without_an_identity_the_room_signs_and_says_so(tmp_path: Path, half: bool) -> None:
    repo = repository(tmp_path / "repo")
    if half:
        git(repo, "config", "user.name", "Ann Lee")
    one = await room(repo, "A")
    write(one.at("A"), {"a.py": "agent\n"})
    before = await one.actions.propose("A", "ann", MergeOptions())
    done = await one.actions.merge("A", "ann")
    assert shown(repo)[:2] == ["A <a@relay>", "ann <ann@relay>"]
    for said in (before["note"], done["reason"], one.happened[-1].text):
        assert "git knows no name and e-mail address" in said and "git config --global user.name" in said


async def test_nobody_is_left_out_of_a_long_branch(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    knows(repo)
    one = await room(repo, "A")
    stream = [f"reset refs/heads/{own_branch('a', 'Ann Lee')}", "from refs/heads/main^0", ""]
    for number in range(1100):
        name = "Bo" if number == 0 else "Cy"
        said = f"Step {number}\n"
        stream += [
            f"commit refs/heads/{own_branch('a', 'Ann Lee')}",
            *(
                f"{role} {name} <{name.lower()}@example.net> {1700000000 + number} +0000"
                for role in ("author", "committer")
            ),
            f"data {len(said)}",
            said,
        ]
    git(one.at("A"), "checkout", "-q", "--detach")
    git(repo, "fast-import", "--quiet", "--force", input="\n".join(stream).encode())
    git(one.at("A"), "checkout", "-q", own_branch("a", "Ann Lee"))
    write(one.at("A"), {"a.py": "x\n"})
    told_now = await one.actions.propose("A", "ann", SQUASH)
    assert told_now["commits"] == 1101
    assert told_now["trailers"] == [
        "Co-authored-by: Bo <bo@example.net>",
        "Co-authored-by: Cy <cy@example.net>",
    ]
    assert told_now["text"].startswith("Step 0\n") and "- and 1080 more" in told_now["text"]


@pytest.mark.parametrize("method", ["merge", "squash"])
async def test_what_is_shown_is_what_is_committed(tmp_path: Path, method: str) -> None:
    repo = repository(tmp_path / "repo")
    knows(repo)
    one = await room(repo, "A")
    told(one, requests=(Asked("Add a total"),), answer="Done.")
    commit(one.at("A"), {"a.py": "x\n"}, "Begin\n\nCo-authored-by: Bo <bo@example.net>")
    git(one.at("A"), "commit", "-q", "--allow-empty", "--author=Cy <cy@example.net>", "-m", "More")
    write(one.at("A"), {"b.py": "open\n"})
    wish = MergeOptions(squash=method == "squash")
    before = await one.actions.propose("A", "ann", wish)
    assert (before["method"], before["commits"], before["files"]) == (method, 3, 2)
    assert "".join((before["text"], "\n", *(f"{line}\n" for line in before["trailers"]))) == before["message"]
    done = await one.actions.merge("A", "ann", wish)
    assert git(repo, "log", "-1", "--format=%B").rstrip() == before["message"].rstrip()
    assert before["trailers"] == [
        "Co-authored-by: Ann <ann@example.org>",
        "Co-authored-by: Bo <bo@example.net>",
        "Co-authored-by: Cy <cy@example.net>",
    ]
    assert f"{before['author']}\n{before['committer']}" == git(
        repo, "log", "-1", "--format=%an <%ae>%n%cn <%ce>"
    )
    assert done["commit"] == git(repo, "rev-parse", "main")


async def test_a_message_of_ones_own_keeps_who_else_contributed(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    knows(repo)
    one = await room(repo, "A")
    commit(one.at("A"), {"a.py": "x\n"})
    trailers = ["Refs: 12", "Co-authored-by: Ann <ann@example.org>"]
    text = "\n".join(["Round totals", "", "Cents only.", "", "", "", *trailers, ""])
    await one.actions.merge("A", "ann", MergeOptions(squash=True, text=text))
    assert shown(repo)[2:] == [
        "Round totals",
        "",
        "Cents only.",
        "",
        "Refs: 12",
        "Co-authored-by: Ann <ann@example.org>",
    ]
    write(one.at("A"), {"b.py": "x\n"})
    with pytest.raises(Refusal, match="The message is empty"):
        await one.actions.merge("A", "ann", MergeOptions(text=" \n\x07\n"))
    with pytest.raises(Refusal, match="longer than"):
        await one.actions.merge("A", "ann", MergeOptions(text="x" * 70_000))


async def test_work_that_changed_since_it_was_shown_is_not_merged(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    write(one.at("A"), {"a.py": "x\n"})
    seen = (await one.actions.propose("A", "ann", MergeOptions()))["head"]
    write(one.at("A"), {"b.py": "y\n"})
    with pytest.raises(Refusal, match="has changed since it was shown"):
        await one.actions.merge("A", "ann", MergeOptions(head=seen))
    seen = (await one.actions.propose("A", "ann", MergeOptions()))["head"]
    assert (await one.actions.merge("A", "ann", MergeOptions(head=seen)))["success"]


async def test_a_squash_is_one_commit_and_the_branch_goes_on_from_it(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    knows(repo)
    one = await room(repo, "A")
    at = one.at("A")
    commit(at, {"a.py": "1\n"}, "One")
    tip = commit(at, {"a.py": "2\n"}, "Two")
    write(at, {"new.py": "open\n"})
    main = commit(repo, {"b.py": "main\n"}, "meanwhile")
    done = await one.actions.merge("A", "ann", SQUASH)
    assert git(repo, "rev-parse", "main^@") == main
    assert "as one commit" in done["reason"] and done["kept"] in done["reason"]
    assert shown(repo)[2:6] == ["One", "", "- One", "- Two"]
    assert (git(at, "rev-parse", "HEAD"), git(at, "status", "--porcelain")) == (done["commit"], "")
    assert (at / "b.py").read_text() == "main\n"
    # The commits are not lost.
    assert git(repo, "rev-parse", f"{done['kept']}^") == tip
    assert git(repo, "show", f"{done['kept']}:new.py") == "open"
    await one.look()
    with pytest.raises(Refusal, match="nothing to merge"):
        await one.actions.merge("A", "ann", SQUASH)


async def test_a_squashed_checkout_of_a_persons_has_nothing_left_to_merge(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(tmp_path, "clone", "-q", str(repo), "clone")
    git(tmp_path / "clone", "config", "user.name", "Pat")
    git(tmp_path / "clone", "config", "user.email", "pat@example.com")
    commit(tmp_path / "clone", {"a.py": "theirs\n"})
    one = await room(repo, workspace={"checkouts": [{"name": "pat", "path": str(tmp_path / "clone")}]})
    done = await one.actions.merge("pat", "ann", SQUASH)
    assert shown(repo)[0] == "Pat <pat@example.com>"
    assert "still has its own commits" in done["reason"]
    await one.look()
    assert [row["merges"] for row in (await rows(one.registry))[0]] == ["nothing"]
    with pytest.raises(Refusal, match="nothing to merge"):
        await one.actions.merge("pat", "ann")


@pytest.mark.parametrize("wish", [MergeOptions(), SQUASH])
async def test_no_hook_and_no_filter_runs(tmp_path: Path, wish: MergeOptions) -> None:
    repo = repository(tmp_path / "repo")
    knows(repo)
    one = await room(repo, "A")
    commit(one.at("A"), {"a.py": "x\n"}, "One\n\nCo-authored-by: Bo <bo@example.net>")
    set_traps(repo, tmp_path / "marker")
    git_config = ("trailer.co-authored-by.command", f"touch {tmp_path}/marker/trailer")
    git(repo, "config", *git_config)
    assert (await one.actions.merge("A", "ann", wish))["success"]
    write(one.at("A"), {"c.txt": "x\n"})
    discarded = await one.actions.discard("A", "ann")
    await one.actions.restore("A", "ann", discarded["kept"])
    assert list((tmp_path / "marker").iterdir()) == []


async def test_a_branch_without_a_commit_takes_no_merge(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    write(one.at("A"), {"a.py": "x\n"})
    git(repo, "checkout", "-q", "--orphan", "fresh")
    with pytest.raises(Refusal, match=r"The branch fresh in .* has no commit yet"):
        await one.actions.merge("A", "ann")
    with pytest.raises(Refusal, match="no commit yet"):
        await one.actions.propose("A", "ann", MergeOptions())
    git(repo, "checkout", "-q", "-f", "--detach", "main")
    with pytest.raises(Refusal, match="on no branch"):
        await one.actions.propose("A", "ann", MergeOptions())


async def test_an_agent_on_no_branch_is_not_merged_nor_discarded(tmp_path: Path) -> None:
    one = await room(repository(tmp_path / "repo"), "A")
    git(one.at("A"), "checkout", "-q", "--detach")
    commit(one.at("A"), {"a.py": "x\n"})
    for act in (one.actions.merge, one.actions.discard):
        with pytest.raises(Refusal, match="on no branch"):
            await act("A", "ann")


async def test_the_way_out_of_a_refusal_is_a_command_that_works(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    commit(one.at("A"), {"a.py": "mine\n"})
    commit(repo, {"a.py": "theirs\n"})
    await one.look()
    with pytest.raises(Refusal, match=r"or let A merge main: `/update @A`"):
        await one.actions.merge("A", "ann")
    await one.turns.before_turn("A", take_main=True)
    await one.turns.after_turn("A")
    with pytest.raises(Refusal, match=r"a merge is under way.*relay worktrees abort A`"):
        await one.actions.merge("A", "ann")
    await one.actions.abort("A", "ann")
    for folder in (one.at("A"), repo):
        other = "main" if folder != repo else own_branch("a")
        with pytest.raises(subprocess.CalledProcessError):
            git(folder, "merge", "-q", other)
        with pytest.raises(Refusal, match="a merge is under way") as refused:
            await one.actions.merge("A", "ann")
        [hint] = re.findall(r"`(git [^`]*--abort)`", str(refused.value))
        await asyncio.to_thread(subprocess.run, ["bash", "-c", hint], env=ENV, check=True)
    with pytest.raises(Refusal, match=r"conflict in a\.py"):
        await one.actions.merge("A", "ann")


# -- discarded


async def test_discarded_work_is_kept_and_comes_back(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    knows(repo)
    one = await room(repo, "A")
    at = one.at("A")
    tip = commit(at, {"a.py": "committed\n"})
    write(at, {"b.py": "open\n", "new.py": "untracked\n"})
    main = commit(repo, {"c.py": "main\n"})
    done = await one.actions.discard("A", "ann")
    assert done["kept"].startswith("refs/relay/kept/a/")
    assert done["kept"] in done["reason"] and "worktrees restore A" in done["reason"]
    assert "1 commit, 3 files" in done["reason"]
    assert (git(at, "rev-parse", "HEAD"), git(at, "status", "--porcelain")) == (main, "")
    assert (at / "a.py").read_text() == lines(1, 20) and not (at / "new.py").exists()
    assert git(repo, "rev-parse", "main", own_branch("a", "Ann Lee")) == f"{main}\n{main}"
    git(repo, "gc", "-q", "--prune=now")
    assert git(repo, "rev-parse", f"{done['kept']}^") == tip
    await one.look()
    with pytest.raises(Refusal, match="nothing to discard"):
        await one.actions.discard("A", "ann")
    back = await one.actions.restore("A", "ann")
    assert back["success"] and git(at, "rev-parse", "HEAD") == back["commit"]
    assert (at / "new.py").read_text() == "untracked\n" and (at / "a.py").read_text() == "committed\n"
    assert git(at, "status", "--porcelain") == ""
    assert [each.what for each in one.happened] == ["created", "discarded", "restored"]


async def test_work_that_came_since_is_not_lost_to_what_comes_back(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    with pytest.raises(Refusal, match="There is no kept work of A"):
        await one.actions.restore("A", "ann")
    write(one.at("A"), {"a.py": "first\n"})
    first = (await one.actions.discard("A", "ann"))["kept"]
    write(one.at("A"), {"a.py": "second\n"})
    with pytest.raises(Refusal, match="has other work"):
        await one.actions.restore("A", "ann")
    second = (await one.actions.discard("A", "ann"))["kept"]
    assert first != second
    await one.actions.restore("A", "ann", first)
    assert (one.at("A") / "a.py").read_text() == "first\n"
    with pytest.raises(Refusal, match="has no work of A"):
        await one.actions.restore("A", "ann", "refs/heads/main")


async def test_a_squash_of_uncommitted_work_tells_of_no_commits_of_the_agents(tmp_path: Path) -> None:
    one = await room(repository(tmp_path / "repo"), "A")
    write(one.at("A"), {"a.py": "first\n"})
    done = await one.actions.merge("A", "ann", SQUASH)
    assert f"{own_branch('a')} as it was is kept in `{done['kept']}`" in done["reason"]
    assert "own commits" not in done["reason"]


async def test_what_the_branch_has_already_is_not_called_other_work(tmp_path: Path) -> None:
    one = await room(repository(tmp_path / "repo"), "A")
    write(one.at("A"), {"a.py": "first\n"})
    await one.actions.discard("A", "ann")
    await one.actions.restore("A", "ann")
    with pytest.raises(Refusal, match=rf"{own_branch('a')} has the work of refs/relay/kept/a/\S+ already"):
        await one.actions.restore("A", "ann")
    write(one.at("A"), {"b.py": "more\n"})
    with pytest.raises(Refusal, match=rf"{own_branch('a')} has the work of .* already"):
        await one.actions.restore("A", "ann")
    assert (one.at("A") / "b.py").read_text() == "more\n"


@pytest.mark.parametrize("since", [{}, {"a.py": lines(1, 19) + "later\n"}])
async def test_what_a_squash_merged_is_not_brought_back(
    tmp_path: Path, since: dict[str, str | bytes]
) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    commit(one.at("A"), {"b.py": "agent\n"})
    done = await one.actions.merge("A", "ann", SQUASH)
    if since:
        commit(repo, since)
    with pytest.raises(Refusal, match=r"main has the work of refs/relay/kept/a/\S+ already"):
        await one.actions.restore("A", "ann")
    assert git(repo, "rev-parse", own_branch("a")) == done["commit"]
    assert [each.what for each in one.happened] == ["created", "merged"]


async def test_an_ignored_file_in_the_way_keeps_the_work_where_it_is(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {".gitignore": "out\n", "a.py": "1\n"})
    one = await room(repo, "A")
    write(one.at("A"), {"out": "the agent's\n", "a.py": "2\n"})
    write(repo, {"out": "main's\n"})
    git(repo, "add", "-f", "out")
    commit(repo)
    with pytest.raises(Refusal, match=r"has files unknown to git where main has its own: out\."):
        await one.actions.discard("A", "ann")
    assert git(repo, "for-each-ref", "refs/relay/kept/") == ""
    assert (one.at("A") / "out").read_text() == "the agent's\n" and (
        one.at("A") / "a.py"
    ).read_text() == "2\n"


async def test_a_checkout_that_relay_did_not_make_is_not_discarded(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "-b", "topic", str(tmp_path / "mine"))
    one = await room(repo, "A", A={"worktree": str(tmp_path / "mine")})
    write(tmp_path / "mine", {"a.py": "x\n"})
    with pytest.raises(Refusal, match="not a worktree that relay made"):
        await one.actions.discard("A", "ann")
    assert (tmp_path / "mine" / "a.py").read_text() == "x\n"
