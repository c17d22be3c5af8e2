from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.agents.registry import presets
from relay.model import Program
from relay.room.parsing.commands import COMMANDS
from relay.room.steward.answers import (
    answer,
    no_agent_answer,
    render_help,
    render_locks,
    render_locks_at,
    render_queue,
    render_skips,
    render_tasks,
    render_who,
)
from relay.room.steward.view import (
    AgentView,
    BudgetView,
    DispatcherView,
    JobView,
    LockView,
    RunningView,
    StewardView,
    TaskView,
)
from tests.engines import BOTH

pytestmark = BOTH

PROGRAMS = {name: Program(preset.title, preset.install, preset.sign_in) for name, preset in presets().items()}
CLAUDE = AgentView("CLAUDE", preset="claude")
NO_CODEX = AgentView(
    "CODEX",
    preset="codex",
    installed=False,
    detail="`codex` is not on PATH",
    fix="npm install -g @openai/codex",
    program=Program("Codex", "npm install -g @openai/codex", "codex login"),
)
ROOM = StewardView(
    agents=(CLAUDE, NO_CODEX),
    people=("ann", "bob"),
    tasks=(
        TaskView(1, "Fix the login", "pending"),
        TaskView(2, "Write docs", "in_progress", "blocked", "CLAUDE"),
    ),
    jobs=(
        JobView(7, 11, "CODEX", "skipped", "it is not installed.", 70),
        JobView(8, 13, "CLAUDE", "pending", "", 20),
    ),
    dispatcher=DispatcherView("ok", "llama3.2"),
    address="http://127.0.0.1:4173",
    programs=PROGRAMS,
)
AWAY = AgentView("BRAVO", member="laptop", absence="laptop has given no sign of life", unheard_s=300)
EMPTY = StewardView(address="http://127.0.0.1:4173", programs=PROGRAMS)

WHO, QUEUE, SKIPS, INSTALL, ABLE, TASKS, HELP, ELSE = (
    "**People:**",
    "**Now:**",
    "**Why there was no answer:**",
    "not installed:**",
    "I am RELAY",
    "**In progress**",
    "put a new task on the board",
    "I only know about the room",
)


@pytest.mark.parametrize(
    ("body", "topic"),
    [
        ("who is here?", WHO),
        ("Who's online", WHO),
        ("@RELAY who is in the room", WHO),
        ("which agents are there?", WHO),
        ("is anyone here?", WHO),
        ("what is queued?", QUEUE),
        ("status", QUEUE),
        ("What's going on?", QUEUE),
        ("what is claude working on", QUEUE),
        ("why was I skipped?", SKIPS),
        ("why did nobody answer me?", SKIPS),
        ("claude didn't reply", SKIPS),
        ("why doesn't codex respond", SKIPS),
        ("why was my message ignored", SKIPS),
        ("how do I install an agent?", INSTALL),
        ("how can I add codex", INSTALL),
        ("setup", INSTALL),
        ("connect Claude Code please", INSTALL),
        ("what can you do?", ABLE),
        ("who are you", ABLE),
        ("what is relay?", ABLE),
        ("show me the tasks", TASKS),
        ("who holds what?", "Nobody holds a lock"),
        ("which files are locked", "Nobody holds a lock"),
        ("what is on the board", TASKS),
        ("help", HELP),
        ("how do I move a card?", HELP),
        ("which commands are there", HELP),
        ("fix the parser", ELSE),
        ("", ELSE),
        ("`help`", ELSE),
    ],
)
def test_what_a_question_is_about(body: str, topic: str) -> None:
    assert topic in answer(body, ROOM)


@given(st.text(max_size=200))
def test_there_is_always_an_answer(body: str) -> None:
    assert answer(body, ROOM).strip()
    assert "No agent can answer" in answer(body, EMPTY) or "`/task <title>`" in answer(body, EMPTY)


@pytest.mark.parametrize(
    "body", ["fix it", "who is here", "what is queued", "why no answer", "help", "tasks", "what can you do"]
)
def test_with_no_active_agent_every_answer_says_so_once(body: str) -> None:
    lacking = replace(ROOM, agents=(NO_CODEX,))
    text = answer(body, lacking)
    full = body in ("who is here", "why no answer", "what can you do")
    assert text.count("npm install -g @openai/codex") == full, text
    if full:
        assert "run `codex login`" in text and "Meanwhile the room works" in text
        assert "http://127.0.0.1:4173" in text
    else:
        assert text.splitlines()[-1] == (
            "No agent can answer yet: CODEX is not installed. `/who` says what to do, `/help` what works meanwhile."
        )


def test_several_that_cannot_answer_are_told_in_a_line() -> None:
    agents = (
        NO_CODEX,
        replace(NO_CODEX, name="GEMINI"),
        replace(CLAUDE, paused=True),
        AgentView("A", enabled=False),
    )
    told = "CLAUDE is paused (`/resume`); CODEX and GEMINI are not installed; A is switched off."
    assert no_agent_answer(StewardView(agents=agents)).startswith(f"No agent can answer yet: {told}")


def test_with_no_agent_configured_every_kind_is_offered() -> None:
    assert no_agent_answer(EMPTY).endswith("Ask me how to install one.")
    text = answer("how do I install an agent?", EMPTY)
    for command in (
        "npm install -g @anthropic-ai/claude-code",
        "npm install -g @openai/codex",
        "npm install -g @google/gemini-cli",
        "ollama pull llama3.2",
        '"preset": "claude"',
        "config.json",
    ):
        assert command in text


def test_paused_and_switched_off_agents_need_no_installing() -> None:
    view = StewardView(agents=(replace(CLAUDE, paused=True), AgentView("AIDER", enabled=False)))
    text = answer("hello", view)
    assert "`/resume`" in text
    assert "npm" not in text
    assert "`enabled` to true" in answer("what can you do", view)


@pytest.mark.parametrize(
    ("agent", "says"),
    [
        (CLAUDE, "**CLAUDE** is ready"),
        (replace(CLAUDE, queued=1), "is ready; 1 message waiting"),
        (
            replace(CLAUDE, running=RunningView(12, 130), queued=2),
            "has worked on m12 for 2 min, gets new messages at its next turn; 2 messages waiting",
        ),
        (
            NO_CODEX,
            "is not installed (`codex` is not on PATH): run `npm install -g @openai/codex`, then run",
        ),
        (AgentView("AIDER", installed=False), "is not installed: look at its `cmd`"),
        (
            AgentView("L", kind="ollama", installed=False, fix="ollama serve"),
            "is not available: run `ollama serve`",
        ),
        (AgentView("L", installed=False, fix="Look at the port."), "is not installed: Look at the port"),
        (replace(CLAUDE, paused=True), "is paused: `/resume @CLAUDE`"),
        (replace(CLAUDE, enabled=False), "is switched off"),
        (
            replace(CLAUDE, breaker="open", retry_in_s=200),
            "gets no work for now; one attempt is made in 3 min",
        ),
        (replace(CLAUDE, breaker="half_open"), "if its next turn succeeds, it gets work again"),
        (replace(CLAUDE, parked_s=4000), "rate limit and goes on in 1 h 6 min"),
        (
            replace(CLAUDE, budgets=(BudgetView("US dollars", 5.2, 5),)),
            "spent its budget: US dollars (5.20 of 5)",
        ),
        (replace(CLAUDE, budgets=(BudgetView("tokens", 4, 5),)), "is ready"),
        (replace(CLAUDE, member="lap_top"), "**CLAUDE** at lap_top is ready"),
        (
            replace(CLAUDE, member="attic", absence="attic has been stopped", unheard_s=300, queued=1),
            "**CLAUDE** is away: attic has been stopped for 5 min. 1 message waits for it",
        ),
        # What is known of it is from before: that it is away is what counts.
        (
            replace(AWAY, paused=True, running=RunningView(12, 5)),
            "**BRAVO** is away: laptop has given no sign of life for 5 min. It was at work on m12",
        ),
    ],
)
def test_how_an_agent_is(agent: AgentView, says: str) -> None:
    assert says in render_who(StewardView(agents=(agent,)))


@pytest.mark.parametrize(
    ("dispatcher", "says"),
    [
        (DispatcherView("ok", "m"), "The dispatcher (`m`) decides"),
        (DispatcherView("fallback", "m", "Ollama is gone."), "all active agents are asked: Ollama is gone."),
        (DispatcherView("fallback", "m", "Start it with `a b_`, *or* `c"), r"it with `a b_`, \*or\* \`c"),
        (DispatcherView("off"), "switched off"),
        (DispatcherView(), "has not decided anything yet"),
    ],
)
def test_how_the_dispatcher_is(dispatcher: DispatcherView, says: str) -> None:
    assert says in render_who(StewardView(dispatcher=dispatcher))


def test_the_queue() -> None:
    assert render_queue(EMPTY) == "The queue is empty: nothing runs and nothing waits."
    view = replace(
        ROOM,
        agents=(replace(CLAUDE, running=RunningView(12, 5)),),
        jobs=(
            JobView(1, 13, "CLAUDE", "pending", "", 20),
            JobView(2, 14, "CLAUDE", "failed", "rate limit.", 30, 90),
            JobView(3, 9, "CODEX", "dead", "it crashed", 7300),
            JobView(4, 8, "CODEX", "done"),
        ),
    )
    assert render_queue(view) == (
        "**Now:**\n"
        "- **CLAUDE** has worked on m12 for 5 s\n"
        "- m13 has waited 20 s for **CLAUDE**\n"
        "- m14 has waited 30 s for **CLAUDE**, tried again in 1 min (rate limit)\n"
        "\n"
        "**Not answered:**\n"
        "- **CODEX** could not answer m9, 2 h 1 min ago: it crashed (`/retry j3`)"
    )


def test_what_waits_for_a_machine_says_so() -> None:
    view = StewardView(
        agents=(CLAUDE, replace(AWAY, running=RunningView(12, 400))),
        jobs=(JobView(1, 13, "BRAVO", "pending", "", 20), JobView(2, 14, "CLAUDE", "pending", "", 20)),
    )
    assert render_queue(view) == (
        "**Now:**\n"
        "- **BRAVO** has worked on m12 for 6 min: laptop has given no sign of life for 5 min\n"
        "- m13 has waited 20 s for **BRAVO**: laptop has given no sign of life for 5 min\n"
        "- m14 has waited 20 s for **CLAUDE**"
    )
    assert "**BRAVO** is away" in render_skips(view)


def test_with_every_agent_away_that_is_said() -> None:
    view = StewardView(agents=(AWAY,))
    assert "BRAVO is away with the machine where it lives" in no_agent_answer(view)
    assert "laptop has given no sign of life" in answer("what can you do", view)


def test_a_long_queue_is_counted_not_listed() -> None:
    jobs = tuple(JobView(n, n, "CLAUDE", "pending") for n in range(1, 101))
    text = render_queue(replace(EMPTY, jobs=jobs))
    assert text.count("\n") == 9
    assert text.endswith("- and 92 more")


def test_why_there_was_no_answer() -> None:
    text = render_skips(ROOM)
    assert "**CODEX** did not answer m11, 1 min ago: it is not installed (`/retry j7`)" in text
    assert "stands in the way now" in text
    assert "it waits for its turn" in render_skips(StewardView(agents=(replace(CLAUDE, queued=1),)))
    assert "no message that was skipped" in render_skips(StewardView(agents=(CLAUDE,)))


def test_the_board() -> None:
    assert render_tasks(EMPTY) == "The board is empty. `/task <title>` puts a task on it."
    assert render_tasks(ROOM) == (
        "**In progress** (1)\n- t2 Write docs (**blocked**, CLAUDE)\n\n**Pending** (1)\n- t1 Fix the login"
    )


def test_the_board_says_why_a_task_does_not_go_on() -> None:
    tasks = (
        TaskView(1, "Build", "pending", attempt=2, attempts=3),
        TaskView(2, "Ship", "pending", "blocked", waits_for=(1, 4)),
        TaskView(3, "Tell", "pending", "blocked", why="it needs what failed: #4"),
        TaskView(4, "Test", "done", "failed", "CODEX", why="exit code 1\n*boom*"),
        TaskView(5, "Try", "done", "dead", why="its lease ran out three times"),
        TaskView(6, "Rest", "done", why="a note of something that went well"),
    )
    assert render_tasks(StewardView(tasks=tasks)) == (
        "**Pending** (3)\n"
        "- t1 Build (attempt 2 of 3)\n"
        "- t2 Ship (**blocked**: waits for t1, t4)\n"
        "- t3 Tell (**blocked**: it needs what failed: #4)\n\n"
        "**Done** (3)\n"
        r"- t4 Test (**failed**, CODEX: exit code 1 \*boom\*)"
        "\n- t5 Try (**dead**: its lease ran out three times)\n"
        "- t6 Rest"
    )


def test_the_locks() -> None:
    assert "relay mcp install`" in render_locks(EMPTY)
    app = LockView("src/app.py", "CLAUDE", reason="a *new* door", held_s=70, left_s=1730, waiting=("CODEX",))
    view = replace(
        ROOM,
        locks=(
            app,
            LockView("docs/**", "GEMINI", shared=True, held_s=2, left_s=59, waiting=("A", "B", "C", "D")),
            LockView("a`b", "ann", held_s=1, left_s=1),
        ),
    )
    assert render_locks(view) == (
        "**Held now** (3)\n"
        r"- `src/app.py` **CLAUDE** for 1 min, 28 min left: a \*new\* door; CODEX waits"
        "\n- `docs/**` **GEMINI** for 2 s, shared, 59 s left; A, B, C, 1 more wait\n"
        "- `` a`b `` **ann** for 1 s, 1 s left"
    )
    assert render_locks_at(view, "src/*.py", {app.identity}).splitlines()[0] == "**Meets `src/*.py`** (1)"
    for path, there in (("src/app.py", 1), ("src", 1), ("src/other.py", 1), ("lib/app.py", 1), ("x.py", 0)):
        told = render_locks_at(view, path, ())
        assert told.startswith(f"`{path}` is free."), told
        assert told.partition("**Near it, but not blocking it** (1)")[2].count("`src/app.py`") == there, told
    assert render_locks_at(view, "x.py", ()) == "`x.py` is free.\n\n3 locks elsewhere: `/locks`."


def test_help_lists_every_command_and_explains_one() -> None:
    text = render_help()
    assert all(f"`{spec.usage}`" in text for spec in COMMANDS)
    assert render_help("/move").endswith("For example: `/move t3 in_progress`")
    assert render_help("nothing") == text


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("a\n\n# big\n- list", "t1 a # big - list"),
        ("[x](http://evil) <b> `c` *d* | e", r"t1 \[x\](http://evil) \<b\> \`c\` \*d\* \| e"),
        ("in_progress and _this_", r"t1 in_progress and \_this\_"),
    ],
)
def test_what_people_write_cannot_shape_the_answer(title: str, shown: str) -> None:
    assert render_tasks(StewardView(tasks=(TaskView(1, title, "pending"),))).splitlines() == [
        "**Pending** (1)",
        f"- {shown}",
    ]
