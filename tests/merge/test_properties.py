"""What holds for every merge, on programs made by a grammar."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.merge.text import guard
from relay.merge.text.git_text import GitText
from relay.merge.text.ladder import merge_text
from relay.merge.text.syntax import Source

NAMES = st.sampled_from(["alpha", "beta", "gamma", "delta", "epsilon", "zeta"])
SETTINGS = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@dataclass(frozen=True)
class Function:
    """A function of Python with its decorator and the comment above it."""

    name: str
    values: tuple[int, ...]
    decorated: bool
    commented: bool

    def text(self) -> str:
        lines = [f"# About {self.name}."] * self.commented + [f"@wraps_{self.name}"] * self.decorated
        lines.append(f"def {self.name}(one, two):")
        lines += [f"    value_{at} = {value}" for at, value in enumerate(self.values)]
        return "\n".join([*lines, f"    return {self.name}_done", ""])


FUNCTIONS = st.builds(
    Function, NAMES, st.lists(st.integers(0, 9), max_size=3).map(tuple), st.booleans(), st.booleans()
)
IMPORTS = st.lists(NAMES, max_size=4, unique=True)


def program(imports: list[str], functions: list[Function]) -> str:
    unique = list({function.name: function for function in functions}.values())
    parts = ["".join(f"import {name}_module\n" for name in imports) or "import os\n"]
    return "\n\n".join([*parts, *(function.text() for function in unique)])


PROGRAMS = st.builds(program, IMPORTS, st.lists(FUNCTIONS, max_size=4))


@SETTINGS
@given(base=PROGRAMS, one=PROGRAMS)
def test_one_side_alone(git: GitText, base: str, one: str) -> None:
    assert merge_text(git, base, one, one, "a.py").text == one
    assert merge_text(git, base, one, base, "a.py").text == one
    assert merge_text(git, base, base, one, "a.py").text == one


@SETTINGS
@given(base=PROGRAMS, ours=PROGRAMS, theirs=PROGRAMS)
def test_properties(git: GitText, base: str, ours: str, theirs: str) -> None:
    merged = merge_text(git, base, ours, theirs, "a.py")
    swapped = merge_text(git, base, theirs, ours, "a.py")
    assert merged.clean == swapped.clean
    if not merged.clean:
        return
    if merged.by != "git":
        assert merged.text == swapped.text
        sources = [Source(text.splitlines(), "python") for text in (base, ours, theirs, merged.text)]
        assert guard.faults_of(sources[0], sources[1], sources[2], sources[3]) == []
    again = merge_text(git, base, merged.text, merged.text, "a.py")
    assert again.text == merged.text
    lines = merged.text.split("\n")
    for at, line in enumerate(lines):
        if line.startswith("@wraps_"):
            assert lines[at + 1].startswith(f"def {line[len('@wraps_') :]}(")
        if line.startswith("# About ") and merged.by != "git":
            name = line[len("# About ") : -1]
            assert any(below.startswith(f"def {name}(") for below in lines[at + 1 : at + 3])
