"""git's hooks ask before a commit, a merge commit and a push: is a file locked elsewhere, did a lease run out?

Invariant: fails closed. A write that the room refuses, or that cannot be checked, does not happen. Standard error
names the lock, its holder, its end, and what to do. A person may override with RELAY_GUARD_OVERRIDE="why": that is
recorded, and the room is told (docs/guard.md). A shell that an agent's program opened is no person's.
`git commit --no-verify` is git's own way around, not ours.

A running room is asked over HTTP. Without one its database is looked up. The program starts before every commit, so
it imports little.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from relay.app.guard.asker import Asker, Unasked
from relay.app.guard.hook import CannotAsk, post, room, whose
from relay.config.command_line import about, command
from relay.git.environment import ENVIRONMENT, OVERRIDES, PLACE

HOOKS = {"pre-commit": "commit", "pre-merge-commit": "merge", "pre-push": "push"}
#: Seconds that a commit waits for the room: as long as it may be busy, and a person waits.
ANSWER_S = 10.0
#: Seconds for one call of git.
GIT_S = 60.0
#: How an agent says who it is, for one call.
OWN_NAME = "RELAY_AGENT_ID=NAME"
#: What a person reads who merges while the main checkout is detached.
NO_MAIN = (
    "The main checkout is on no branch, so what comes from the main branch counts as this merge's own change. "
    "Check the branch out there, then merge again."
)
#: Refused files that are listed.
MOST_SHOWN = 10
#: What an agent's program sets in the shells that it opens, and no person in theirs: Claude Code (env-vars of its
#: documentation); Codex (codex-rs/core: exec_env.rs, spawn.rs, unified_exec/process_manager.rs); Gemini CLI
#: (docs/tools/shell.md). Prefixes would not do: CLAUDE_CODE_USE_BEDROCK and CODEX_HOME are settings of people.
MARKS = (
    ("CLAUDECODE", "Claude Code"),
    ("CODEX_THREAD_ID", "Codex"),
    ("CODEX_CI", "Codex"),
    ("CODEX_SANDBOX", "Codex"),
    ("CODEX_SANDBOX_NETWORK_DISABLED", "Codex"),
    ("GEMINI_CLI", "Gemini CLI"),
)
_NAMES = ("-z", "--name-only", "--no-renames")
_DIFF = (*_NAMES, "--no-relative", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")


def main(arguments: list[str]) -> int:
    """`pre-commit|pre-merge-commit|pre-push --config PATH [what git says]`; 0 = may be written, 1 = not."""
    hook, rest = arguments[0], arguments[1:]
    if rest[:1] != ["--config"] or len(rest) < 2:
        print(f"usage: {hook} --config PATH [what git says]", file=sys.stderr)
        return 1
    config, words = rest[1], rest[2:]
    about(Path(config).absolute())
    asker, act = asker_of(config), HOOKS[hook]
    paths: list[str] = []
    try:
        paths = pushed(words, sys.stdin.buffer.read()) if act == "push" else committed()
        if not paths:
            return 0
        answer = ask(config, asker, paths, act)
    except (Unasked, OSError) as error:
        return unasked(config, asker, act, error, paths)
    if answer["decision"] == "allow":
        return 0
    if answer["decision"] == "overridden":
        over = len(answer["refusals"]) + int(answer.get("more") or 0)
        when = "when it starts" if answer.get("room_down") else "why"
        print(f"relay: {over} refused files let through; the room is told {when}.", file=sys.stderr)
        return 0
    print(refused(act, answer, asker), file=sys.stderr)
    if act != "push" and merge_heads() and main_head() is None:
        print(NO_MAIN, file=sys.stderr)
    return 1


def asker_of(config: str) -> Asker:
    """Who is about to write, by the environment and by the `relay mcp` of the program that this shell is of."""
    env = os.environ
    agent, session = whose(config)
    key = bool(env.get("RELAY_API_KEY"))
    program = None
    if not agent and not key:
        program = next((title for mark, title in MARKS if env.get(mark)), None)
    # An override is a person's; without a name the room could not tell the two apart.
    override = "" if program else (env.get("RELAY_GUARD_OVERRIDE") or "").strip()
    return Asker(agent or None, session or None, key, override, program)


# -- what is written


def git(
    *words: str,
    stdin: bytes = b"",
    ok: Iterable[int] = (0,),
    place: Mapping[str, str] = os.environ,
    config: Iterable[str] = (),
) -> bytes:
    """What a call of git prints. It runs nothing but git. `place`: git's own variables. Raises Unasked."""
    call = ["git", "--no-pager"]
    for setting in (*OVERRIDES, *config):
        call += ["-c", setting]
    env = {name: place[name] for name in PLACE if name in place}
    env |= {"PATH": os.environ.get("PATH", os.defpath), **ENVIRONMENT}
    try:
        done = subprocess.run(
            [*call, *words], env=env, input=stdin, capture_output=True, timeout=GIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unasked(f"git {words[0]} timed out after {GIT_S:g} s") from None
    if done.returncode not in ok:
        raise Unasked(f"git {words[0]}: {done.stderr.decode('utf-8', 'replace').strip()[:300]}")
    return done.stdout


def names(out: bytes) -> set[str]:
    """The paths in git's own form with -z. What is not UTF-8 keeps its folder, which may be locked."""
    return {path.decode("utf-8", "replace") for path in out.split(b"\0") if path}


def committed() -> list[str]:
    """The paths that the commit under way changes, both sides of renames among them.

    What a merge brings in as it stands on the main branch was written there by others, and is no write of this one's.
    """
    changed = names(git("diff", "--cached", *_DIFF))
    heads = merge_heads()
    main = main_head() if heads and changed else None
    return sorted(own(git, changed, heads, main, "--cached"))


def own(
    git: Callable[..., bytes],
    changed: set[str],
    heads: Iterable[str],
    main: str | None,
    *how: str,
    only: str = "",
) -> set[str]:
    """Of these paths, those that do not stand as in one of `heads` that is on the main branch: what a merge brought
    from there was written by others. `how`: options of `git diff`; `only`: the one path that is asked about."""
    limit = ("--", only) if only else ()
    for head in heads if main else ():
        assert main is not None
        if git("rev-list", "--max-count=1", head, f"^{main}", "--") == b"":
            changed = changed & names(git("diff", *how, *_DIFF, head, *limit))
    return changed


def merge_heads() -> list[str]:
    """The commits that are being merged. Before a merge commit that git makes itself they stand in the environment
    only (builtin/merge.c, GITHEAD_...)."""
    try:
        with open(git("rev-parse", "--git-path", "MERGE_HEAD").rstrip(b"\n"), "rb") as file:  # noqa: PTH123
            return file.read().decode().split()
    except OSError:
        commits = (name.removeprefix("GITHEAD_") for name in os.environ if name.startswith("GITHEAD_"))
        return [
            commit for commit in commits if len(commit) in (40, 64) and set(commit) <= set("0123456789abcdef")
        ]


def main_head() -> str | None:
    """The commit of the branch that the main checkout is on, which git lists first; None: it is on none, and which
    one is main is not known here."""
    first = git("worktree", "list", "--porcelain").decode("utf-8", "replace").split("\n\n")[0]
    fields = dict(line.partition(" ")[::2] for line in first.split("\n"))
    return fields.get("HEAD") if "branch" in fields else None


def pushed(words: Sequence[str], said: bytes) -> list[str]:
    """The paths of the commits that the remote has not got, and of those that a forced push takes from it.

    `words`: the remote's name and address; `said`: what git writes to the hook, a line a ref.
    """
    remote = words[0] if words else ""
    paths: set[str] = set()
    for line in said.decode("utf-8", "replace").split("\n")[:-1]:
        # What is pushed stands as it was typed (`HEAD@{1 day ago}`), and may hold blanks; the rest does not.
        _, local, name, old = line.rsplit(" ", 3)
        if not local.strip("0"):
            paths |= _of_deleted(name, old, remote)
            continue
        if git("cat-file", "-t", f"{local}^{{}}").strip() != b"commit":
            continue  # a tag of something that is no commit
        paths |= _of_ref(local, old if old.strip("0") else "", remote)
    return sorted(paths)


def _of_ref(local: str, old: str, remote: str) -> set[str]:
    known = bool(remote) and bool(
        git("for-each-ref", "--count=1", "--format=x", f"refs/remotes/{remote}/").strip()
    )
    if old:
        _is_here(old, remote)
    if not old and not known:
        return names(git("ls-tree", "-r", "-z", "--name-only", "--full-tree", local))
    there = [*([f"^{old}"] if old else []), *(["--not", f"--remotes={remote}"] if known else [])]
    paths = _of_commits(local, *there)
    return paths | _of_commits(old, f"^{local}") if old else paths


def _of_deleted(name: str, old: str, remote: str) -> set[str]:
    """The paths of the commits that no other branch of the remote has: to delete one takes them away like a forced
    push. Of a tag none."""
    branch = name.removeprefix("refs/heads/")
    if branch == name or not old.strip("0"):
        return set()
    _is_here(old, remote)
    return _of_commits(old, "--not", f"--exclude={remote}/{branch}", f"--remotes={remote}")


def _is_here(commit: str, remote: str) -> None:
    """Raises Unasked when this commit of the remote's is not in the repository."""
    if git("cat-file", "-t", commit, ok=(0, 128)).strip() != b"commit":
        raise Unasked(
            f"{remote} has {commit[:12]}, which is missing here, so what the push changes is not known: "
            "run git fetch first"
        )


def _of_commits(*wanted: str) -> set[str]:
    """The paths that these commits (of `git rev-list`) change; of a merge those that it changes itself."""
    commits = git("rev-list", *wanted)
    if not commits:
        return set()
    return names(git("diff-tree", "--stdin", "-r", "-c", "--root", "--no-commit-id", *_NAMES, stdin=commits))


# -- asking


def ask(config: str, asker: Asker, paths: list[str], act: str) -> dict[str, Any]:
    """The answer as `POST /api/guard/write` gives it; with `room_down` when its database gave it. Raises Unasked."""
    question: dict[str, Any] = {"paths": paths, "act": act}
    identity = {"agent": asker.agent, "session": asker.session, "override": asker.override}
    question |= {key: value for key, value in identity.items() if value}
    try:
        return post(room(config), "/api/guard/write", question, time.monotonic() + ANSWER_S)
    except (CannotAsk, OSError, ValueError) as error:
        if isinstance(error, CannotAsk) and error.status in (400, 401, 403):
            raise Unasked(str(error), final=True) from None
        from relay.app.guard.lookup import ask_database

        return {**ask_database(config, asker, paths, act, str(error)), "room_down": True}


def unasked(config: str, asker: Asker, act: str, error: Exception, paths: Sequence[str]) -> int:
    """Nobody could be asked: refused, but for a person who says why not."""
    final = isinstance(error, Unasked) and error.final
    if asker.override and asker.person and not final:
        from relay.app.guard.lookup import keep_override

        try:
            file = keep_override(config, act, asker.override, str(error), paths)
        except OSError as failed:
            print(f"relay: the override cannot be recorded: {failed}", file=sys.stderr)
            return 1
        print(
            f"relay: overridden. The room could not be asked ({error}); {file} keeps the override for it.",
            file=sys.stderr,
        )
        return 0
    lines = [
        f"relay: this {act} is refused, because it cannot be checked whether a file in it is locked:",
        f"  {_plain(str(error))}",
        f"Start the room ({command('run')}) and try again, or fix what is said above.",
    ]
    print("\n".join([*lines, *way_out(act, asker)]), file=sys.stderr)
    return 1


def way_out(act: str, asker: Asker) -> list[str]:
    if asker.program:
        return [
            f"You seem to be an agent ({asker.program}): {OWN_NAME} git {act} ... (the name in your MCP settings).",
            "If it cannot wait, ask a person in the room.",
        ]
    if not asker.person:
        return ["If it cannot wait, ask a person in the room."]
    return [f'To {act} anyway (this is recorded, and the room is told): RELAY_GUARD_OVERRIDE="why" git ...']


def refused(act: str, answer: dict[str, Any], asker: Asker) -> str:
    """What a person or a model reads."""
    refusals = answer["refusals"]
    codes = {refusal["code"] for refusal in refusals}
    stale, which = codes == {"stale_token"}, codes == {"which_session"}
    what = "your lock ran out (stale_token)" if stale else "another session holds what it changes"
    if which:
        what = "it is not known which of your sessions this is (which_session)"
    lines = [f"relay: this {act} is refused: {what}."]
    lines += [f"  {_plain(refusal['message'])}" for refusal in refusals[:MOST_SHOWN]]
    more = len(refusals[MOST_SHOWN:]) + int(answer.get("more") or 0)
    lines += [f"  and {more} more"] if more else []
    if "which_session" in codes:
        lines.append(
            _plain(next(refusal["fix"] for refusal in refusals if refusal["code"] == "which_session"))
        )
    if which:
        pass
    elif stale:
        lines.append("Acquire again what ran out, and look at the files again before you write them.")
    else:
        lines.append(f"Wait, leave these files out, or ask who holds them; {command('locks')} shows all.")
        if asker.person:
            # Never with the holder's name: another agent could use it to pass for the holder.
            lines.append(f"If the lock is your own agent's, it gives its name: {OWN_NAME} git {act} ...")
    return "\n".join([*lines, *way_out(act, asker)])


def _plain(text: str) -> str:
    """Without what would move a terminal's cursor."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
