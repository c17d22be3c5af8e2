from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.room.routing.fallback import Cause, DispatcherUnavailable, Fallback, step

GONE, SLOW, PULL, BAD, WHO, OFF = (
    Cause.UNREACHABLE,
    Cause.TIMEOUT,
    Cause.MODEL_MISSING,
    Cause.BAD_ANSWER,
    Cause.UNKNOWN_AGENT,
    Cause.DISABLED,
)
OK, PROBE_OK, PROBE_GONE = "ok", "probe ok", "probe gone"


def walk(steps: list[str]) -> list[str]:
    """What the room hears at each step: `-` nothing, `!` an outage, `~` another cause, `+` a recovery."""
    state, heard = Fallback(), []
    for outcome in steps:
        probe = outcome in (PROBE_OK, PROBE_GONE)
        error = None
        if outcome not in (OK, PROBE_OK):
            cause = GONE if outcome == PROBE_GONE else Cause(outcome)
            error = DispatcherUnavailable(cause, f"It is {cause}.", "Mend it.")
        state, notice = step(state, error, probe=probe)
        if notice is None:
            heard.append("-")
        elif "decides again" in notice:
            heard.append("+")
        else:
            assert error is not None
            assert str(error) in notice
            heard.append("~" if "still" in notice else "!")
    return heard


@pytest.mark.parametrize(
    ("why", "steps", "heard"),
    [
        ("all is well", [OK, OK], "--"),
        ("once, however many messages", [GONE, GONE, GONE], "!--"),
        ("and once when it is back", [GONE, OK, OK], "!+-"),
        ("another cause is said", [GONE, PULL, GONE, PULL, OK], "!~--+"),
        ("a later outage is said again", [GONE, OK, OK, OK, OK, OK, OK, GONE, OK], "!+-----!+"),
        ("switched off is no outage", [OFF, OFF], "--"),
        ("a probe sees that Ollama is back", [GONE, PROBE_OK, OK], "!+-"),
        ("and that the model is there", [PULL, PROBE_OK], "!+"),
        ("but not that it is quick or clever", [SLOW, PROBE_OK, OK], "!-+"),
        ("nor does a failed one say anything", [PROBE_GONE, GONE, PROBE_GONE], "-!-"),
        ("a probe in good times is silent", [PROBE_OK], "-"),
        ("flapping is said ever less", [BAD, OK, BAD, OK, BAD, OK, OK, BAD, OK, OK, OK, OK], "!+!---+!---+"),
        ("every cause has its words", [GONE, SLOW, PULL, BAD, WHO], "!~~~~"),
    ],
)
def test_what_the_room_hears(why: str, steps: list[str], heard: str) -> None:
    assert "".join(walk(steps)) == heard, why


@given(st.lists(st.sampled_from([OK, PROBE_OK, PROBE_GONE, GONE, SLOW, BAD]), max_size=60))
def test_outage_and_recovery_alternate(steps: list[str]) -> None:
    heard = [h for h in walk(steps) if h in "!+"]
    assert heard == (["!", "+"] * len(heard))[: len(heard)]


@given(st.integers(1, 200))
def test_a_dispatcher_that_fails_every_other_time_is_soon_left_alone(rounds: int) -> None:
    assert sum(h != "-" for h in walk([BAD, OK] * rounds)) <= 3


def test_the_first_notice_says_what_happens_and_what_to_do() -> None:
    _, notice = step(
        Fallback(), DispatcherUnavailable(GONE, "Ollama does not answer.", "Run `ollama serve`.")
    )
    assert notice is not None
    assert "all active agents" in notice
    assert notice.endswith("Ollama does not answer. Run `ollama serve`.")
