"""Policies as YAML files (INTERFACES.md, Verification and landing): each file has one policy or a list of them.

Invariant: a folder is checked whole; `BadPolicies` has every fault with its file, its line, what was found and what
is allowed. No policy of a folder with a fault is used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import yaml
from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore import GitIgnorePatternError

from relay.base.files import read_regular
from relay.config.yaml_section import Section, kind_of, scalar_of
from relay.verification.policies import DEFAULT_S, MOST_S, TIERS, Executor, Policy, Sandbox

#: Bytes of a file, files of a folder, and patterns of a policy.
MOST_BYTES, MOST_FILES, MOST_PATTERNS = 262_144, 200, 200
#: Policies that come with relay, to be copied: none of them is used by itself.
SHIPPED = Path(__file__).parent / "shipped"
KEYS = (
    *("name", "tier", "executor", "patterns", "exclude", "run", "workflow", "env"),
    *("timeout_s", "requires_approval", "sandbox", "network"),
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
#: What runs a program of the policy's own.
_RUNS = (Executor.INLINE, Executor.NTM, Executor.E2B)

Problem = tuple[str, int, str]


class BadPolicies(ValueError):
    """Policies that cannot be used. `problems`: (file, line, text)."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(f"{where}:{line}: {text}" for where, line, text in self.problems))


def load_policies(folder: Path) -> tuple[Policy, ...]:
    """The policies of all `*.yaml` files of a folder, by their names; none where there is no folder. Raises
    BadPolicies, OSError. Blocks."""
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml"))
    except FileNotFoundError:
        return ()
    if len(files) > MOST_FILES:
        raise BadPolicies([(str(folder), 1, f"has {len(files)} files; {MOST_FILES} are allowed")])
    problems: list[Problem] = []
    found: dict[str, Policy] = {}
    for path in files:
        try:
            text = read_regular(path, MOST_BYTES).decode("utf-8")
            made = read_policies(text, path.name)
        except UnicodeDecodeError as error:
            problems.append((path.name, 1, f"is not UTF-8 text: {error.reason} at byte {error.start}"))
            continue
        except BadPolicies as error:
            problems += error.problems
            continue
        for policy in made:
            known = found.setdefault(policy.name.casefold(), policy)
            if known is not policy:
                file, _, line = policy.at.rpartition(":")
                problems.append((file, int(line), f"the name {policy.name!r} is taken: {known.at} has it"))
    if problems:
        raise BadPolicies(problems)
    return tuple(sorted(found.values(), key=lambda policy: policy.name.casefold()))


def read_policies(text: str, where: str) -> tuple[Policy, ...]:
    """The policies of a text; `where`: how errors name it. Raises BadPolicies."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or str(error)
        raise BadPolicies([(where, mark.line + 1 if mark else 1, f"is not YAML: {what}")]) from error
    except RecursionError as error:
        raise BadPolicies([(where, 1, "is nested too deep")]) from error
    if root is None:
        raise BadPolicies([(where, 1, f"is empty; a policy is a mapping of {', '.join(KEYS)}")])
    nodes = root.value if isinstance(root, yaml.SequenceNode) else [root]
    noted: list[tuple[int, str]] = []
    found = []
    for number, node in enumerate(nodes, 1):
        name = "the policy" if len(nodes) == 1 else f"policy {number}"
        section = Section.of(node, name, KEYS, noted)
        if section is not None:
            found.append(_policy(section, where))
    if noted:
        raise BadPolicies([(where, line, told) for line, told in noted])
    return tuple(policy for policy in found if policy is not None)


def _policy(section: Section, where: str) -> Policy | None:
    name = section.text("name", needed=True) or ""
    if name and not _NAME.fullmatch(name):
        section.wrong(
            "name", f"is {name[:60]!r}; it has letters, digits, blanks, `-`, `_` and `.`, 64 at most"
        )
    tier = _tier(section)
    executor = _executor(section)
    patterns = _globs(section, "patterns", needed=True)
    exclude = _globs(section, "exclude")
    run = (
        section.words("run", needed=executor in _RUNS) if executor in _RUNS or "run" in section.values else ()
    )
    workflow = section.text("workflow", needed=executor is Executor.GITHUB) or ""
    if executor is not None:
        for key, able in (("run", _RUNS), ("workflow", (Executor.GITHUB,))):
            if key in section.values and executor not in able:
                section.wrong(key, f"says nothing with the executor `{executor}`; leave it out")
    timeout = section.number("timeout_s")
    if timeout is not None and not 1 <= timeout <= MOST_S:
        section.wrong("timeout_s", f"is {timeout:g}; it is 1 to {MOST_S:,.0f} seconds")
    approval = section.truth("requires_approval", executor is Executor.MANUAL)
    if executor is Executor.MANUAL and not approval:
        section.wrong("requires_approval", "is false, and `manual` is nothing but a person's approval")
    sandbox = _sandbox(section)
    env = _variables(section)
    network = section.truth("network", False)
    if section.problems or tier is None or executor is None:
        return None
    return Policy(
        name,
        tier,
        executor,
        patterns,
        exclude,
        run,
        workflow,
        env,
        DEFAULT_S if timeout is None else timeout,
        approval,
        sandbox,
        network,
        f"{where}:{section.line}",
    )


def _tier(section: Section) -> int | None:
    if "tier" not in section.values:
        section.wrong("tier", f"is missing: {_tiers()}")
        return None
    value = section.plain("tier")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(TIERS):
        section.wrong("tier", f"is {value!r}; it is {_tiers()}")
        return None
    return value


def _tiers() -> str:
    return ", ".join(f"{tier} ({name})" for tier, name in enumerate(TIERS))


def _executor(section: Section) -> Executor | None:
    word = section.text("executor", needed=True)
    if word is None:
        return None
    try:
        return Executor(word)
    except ValueError:
        section.wrong("executor", f"is {word[:60]!r}; allowed: {', '.join(Executor)}")
        return None


def _sandbox(section: Section) -> Sandbox:
    value = section.plain("sandbox")
    match value:
        case None | "auto":
            return "auto"
        case "required":
            return "required"
        case "off" | False:  # YAML 1.1 reads a bare `off` as false
            return "off"
    section.wrong("sandbox", f"is {value!r}; allowed: auto, required, off")
    return "auto"


def _texts(section: Section, key: str, needed: bool) -> list[tuple[int, str]]:
    """A list of texts, or one of them, each with its line."""
    node = section.values.get(key)
    if node is None:
        if needed:
            section.wrong(key, "is missing")
        return []
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
    found = []
    for item in nodes:
        value = scalar_of(item) if isinstance(item, yaml.ScalarNode) else None
        if not isinstance(value, str) or not value.strip():
            text = f"`{key}` of {section.name} has texts; found {kind_of(item)}. Put it in quotes"
            section.problems.append((item.start_mark.line + 1, text))
        else:
            found.append((item.start_mark.line + 1, value.strip()))
    if needed and not nodes:
        section.wrong(key, "is empty")
    if len(nodes) > MOST_PATTERNS:
        section.wrong(key, f"has {len(nodes)} entries; {MOST_PATTERNS} are allowed")
    return found


def _globs(section: Section, key: str, needed: bool = False) -> tuple[str, ...]:
    """Patterns as in `.gitignore`."""
    found = _texts(section, key, needed)
    for line, pattern in found:
        why = ""
        if pattern.startswith("#"):
            why = "is a comment there; write `\\#` for a name that begins so"
        elif pattern.startswith("!"):
            why = (
                f"takes files out again; {'name them in `exclude`' if key == 'patterns' else 'leave it out'}"
            )
        elif "\\" not in pattern and (pattern.startswith("./") or ".." in pattern.split("/")):
            why = "is no path from the root of the repository; leave `./` and `..` out"
        else:
            try:
                GitIgnoreSpec.from_lines([pattern])
            except (GitIgnorePatternError, ValueError, re.error) as error:
                why = f"cannot be read: {error}"
        if why:
            section.problems.append((line, f"`{key}` of {section.name}: {pattern[:80]!r} {why}"))
    return tuple(pattern for _, pattern in found)


def _variables(section: Section) -> tuple[str, ...]:
    found = _texts(section, "env", False)
    for line, name in found:
        if not _VARIABLE.fullmatch(name):
            text = f"`env` of {section.name}: {name[:60]!r} is no name of a variable"
            section.problems.append((line, text))
    return tuple(dict.fromkeys(name for _, name in found))
