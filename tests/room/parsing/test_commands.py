from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.model.actions import (
    Action,
    AddTask,
    AnswerHandoff,
    Archive,
    Cancel,
    ClearAll,
    Continue,
    Decide,
    DeclareIntent,
    EditTasks,
    EndExploration,
    Explore,
    Field,
    ForceRelease,
    Forget,
    Give,
    GoFirst,
    HandoffAnswer,
    HandOn,
    JudgeMemory,
    MakeCheckpoint,
    MarkReviewed,
    MoveAll,
    MoveTask,
    MoveTasks,
    Pause,
    Permit,
    Recall,
    RedoRewind,
    Remember,
    Resolve,
    Resume,
    Retry,
    RetryAll,
    Rewind,
    Route,
    RunPipeline,
    ShowAirspace,
    ShowExploration,
    ShowHelp,
    ShowLocks,
    ShowQueue,
    ShowTask,
    ShowTasks,
    ShowWho,
    Status,
    Steer,
    Stop,
    TakeMain,
    TakeVariant,
    TryNow,
    Undo,
    UndoRewind,
    of_json,
)
from relay.room.parsing.commands import COMMANDS, Command, Problem, completions, find, is_command, parse

AGENTS = ("CLAUDE", "CODEX", "GEMINI")
PENDING, DOING, DONE = Status


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("/task Fix the login page", AddTask("Fix the login page")),
        ("/TASK  two   spaces\nand a line ", AddTask("two spaces and a line")),
        ("  /task indented", AddTask("indented")),
        ("/task Fix it\n\n- one\n- two\n", AddTask("Fix it", "- one\n- two")),
        ("/task -- t3 is broken", AddTask("t3 is broken")),
        ("/task T3", ShowTask(3)),
        ("/task t3 prio P2", EditTasks((3,), Field.PRIORITY, "2")),
        ("/task t3, t4 priority: 1", EditTasks((3, 4), Field.PRIORITY, "1")),
        ("/task t3 title  Mend   it", EditTasks((3,), Field.TITLE, "Mend it")),
        ("/task t3 description\n# Why\n\nBecause", EditTasks((3,), Field.DESCRIPTION, "# Why\n\nBecause")),
        ("/task t3 files src/a.py, 'a b.py'", EditTasks.files(3, ["src/a.py", "a b.py"])),
        ("/task t3 files -", EditTasks((3,), Field.FILES, "-")),
        ("/task t3 needs t1, 2", EditTasks.depends(3, [1, 2])),
        ("/give t3 @codex", Give((3,), "CODEX")),
        ("/give 3 t4 to anyone", Give((3, 4))),
        ("/give t3 @codex: its tests failed (v1): a: b", Give((3,), "CODEX", "its tests failed (v1): a: b")),
        (
            "/give t3 @codex: it failed\n\n```\n  a: @codex\n/stop\n```",
            Give((3,), "CODEX", "it failed\n\n```\n  a: @codex\n/stop\n```"),
        ),
        ("/move t3 t4 done", MoveTasks((3, 4), DONE)),
        ("/archive t3, #4", Archive((3, 4))),
        ("/move #3 done", MoveTask(3, DONE)),
        ("/move 3 in progress", MoveTask(3, DOING)),
        ("/move #3 In-Progress", MoveTask(3, DOING)),
        ("/move #3 in_progress", MoveTask(3, DOING)),
        ("/move # 3 to doing", MoveTask(3, DOING)),
        ("/move 3: todo", MoveTask(3, PENDING)),
        ("/move 12 -> completed.", MoveTask(12, DONE)),
        ("/moveall done", MoveAll(DONE)),
        ("/moveall in progress", MoveAll(DOING)),
        ("/clearall", ClearAll()),
        ("/undo!", Undo()),
        ("/undo m12", Undo(12)),
        ("/tasks", ShowTasks()),
        ("/help", ShowHelp()),
        ("help", ShowHelp()),
        (" Help?\n", ShowHelp()),
        ("?", ShowHelp()),
        ("/?", ShowHelp()),
        ("/help /move", ShowHelp("/move")),
        ("/help Move?", ShowHelp("/move")),
        ("/who?", ShowWho()),
        ("/queue", ShowQueue()),
        ("/route #12 CLAUDE", Route(("CLAUDE",), 12)),
        ("/route 12 @codex, @claude and codex", Route(("CODEX", "CLAUDE"), 12)),
        ("/route #12 to @all", Route(AGENTS, 12)),
        ("/retry #5", Retry(5)),
        ("/retry m5", Retry(5, "message")),
        ("/retry j5", Retry(5, "job")),
        ("/route m12 CLAUDE", Route(("CLAUDE",), 12)),
        ("/move t3 done", MoveTask(3, DONE)),
        ("/move #T3 done.", MoveTask(3, DONE)),
        ("/retry job 5", Retry(5, "job")),
        ("/retry message #5", Retry(5, "message")),
        ("/cancel @claude", Cancel(("CLAUDE",))),
        ("/cancel all", Cancel(AGENTS)),
        ("/pause", Pause(())),
        ("/pause all", Pause(AGENTS)),
        ("/pause @GEMINI", Pause(("GEMINI",))),
        ("/resume", Resume(())),
        ("/resume codex", Resume(("CODEX",))),
        ("/try @claude", TryNow(("CLAUDE",))),
        ("/try codex", TryNow(("CODEX",))),
        ("/continue", Continue()),
        ("/airspace", ShowAirspace()),
        ("/intent @codex src/a.py, src/b.py", DeclareIntent("CODEX", ("src/a.py", "src/b.py"))),
        ("/intent CLAUDE 'with a blank.md' x.py x.py", DeclareIntent("CLAUDE", ("with a blank.md", "x.py"))),
        ("/intent @GEMINI -", DeclareIntent("GEMINI", ())),
        ("/locks", ShowLocks()),
        ("/locks 'a b/c.py'", ShowLocks("a b/c.py")),
        ("/unlock src/app.py  it's\nmine  now", ForceRelease("src/app.py", "it's mine now")),
        ("/unlock 'api:GET /v1/users' moved", ForceRelease("api:GET /v1/users", "moved")),
        ('/unlock "a b.py" moved', ForceRelease("a b.py", "moved")),
        ("/unlock " + shlex.quote("it's.py") + " moved", ForceRelease("it's.py", "moved")),
        ("/unlock app/[id]/*.tsx#x moved", ForceRelease("app/[id]/*.tsx#x", "moved")),
        (r"/unlock src/\*.py moved", ForceRelease(r"src/\*.py", "moved")),
        ("/handoff @claude CODEX write  the tests", HandOn("@CLAUDE", "@CODEX", "write the tests")),
        ("/handoff developer qa", HandOn("developer", "qa")),
        ("/handoff developer, codex", HandOn("developer", "@CODEX")),
        ("/handoff #12 retry", AnswerHandoff(12, HandoffAnswer.RETRY)),
        ("/handoff H12 Skip it is  known", AnswerHandoff(12, HandoffAnswer.SKIP, "it is known")),
        ("/handoff 12 branch other-way", AnswerHandoff(12, HandoffAnswer.BRANCH, "other-way")),
        ("/handoff # 12 escalate.", AnswerHandoff(12, HandoffAnswer.ESCALATE)),
        ("/pipeline Add a\nlogin page", RunPipeline("Add a login page")),
        ("/explore 3 Cache  the\nanswers", Explore(3, "Cache the answers")),
        ("/explore cache the answers", Explore(3, "cache the answers")),
        ("/explore take a look at it", Explore(3, "take a look at it")),
        ("/explore end the loop early", Explore(3, "end the loop early")),
        ("/explore X12", ShowExploration(12)),
        ("/explore take x12 in-memory", TakeVariant(12, "in-memory")),
        (
            "/explore take #x12 redis src/a.py=in-memory 'with a blank=x.py=b'",
            TakeVariant(12, "redis", ("src/a.py=in-memory", "with a blank=x.py=b")),
        ),
        ("/explore end x12.", EndExploration(12)),
        ("/recall  why no\nclock mocks?", Recall("why no clock mocks?")),
        ("/recall", Recall()),
        (
            "/remember  never mock the clock:\n- it hid a bug ",
            Remember("never mock the clock:\n- it hid a bug"),
        ),
        ("/decide use PostgreSQL", Decide("use PostgreSQL")),
        ("/decide use PostgreSQL  Because\ntwo hosts write", Decide("use PostgreSQL", "two hosts write")),
        ("/forget r14", Forget(14)),
        ("/useful r14", JudgeMemory(14)),
        ("/useful #14 no", JudgeMemory(14, useful=False)),
        ("/forget #14.", Forget(14)),
        ("/forget K1A2B3C4D.", Forget("k1a2b3c4d")),
        ("/forget # 14", Forget(14)),
        ("/rewind codex to 14:00", Rewind("CODEX", "14:00")),
        ("/rewind @Codex  to -1h into MAIN preview", Rewind("CODEX", "-1h", "main", preview=True)),
        ("/rewind ann lee to #1234 partial", Rewind("ann lee", "#1234", partial=True)),
        ("/rewind s1/CODEX to 2026-11-23 14:00", Rewind("s1/CODEX", "2026-11-23 14:00")),
        ("/rewind codex to milestone:first green~1", Rewind("CODEX", "milestone:first green~1")),
        ('/rewind codex to "a preview" preview', Rewind("CODEX", "a preview", preview=True)),
        ('/rewind "road to rome" to x into new', Rewind("road to rome", "x", "new")),
        ("/rewind Undo", UndoRewind()),
        ("/rewind undo preview", UndoRewind(preview=True)),
        ("/rewind redo partial", RedoRewind(partial=True)),
        ("/rewind undo to 14:00", Rewind("undo", "14:00")),
        ("/checkpoint before the  storm", MakeCheckpoint("before the storm")),
        ("/checkpoint good of @codex", MakeCheckpoint("good", "CODEX")),
        ('/checkpoint "out of @reach"', MakeCheckpoint("out of @reach")),
    ],
)
def test_a_command_is_understood(body: str, expected: Action) -> None:
    assert parse(body, AGENTS) == expected


@pytest.mark.parametrize(
    "body",
    [
        "hello",
        "",
        "see /task",
        "//task as text",
        "/usr/bin/x is broken",
        "/tmp/",
        "/s/old/new/",
        "/2 of them",
        "/ task",
        "/_x",
        "`/task`",
        "/etc:/usr is my PATH",
    ],
)
def test_what_is_not_command_like_is_a_message(body: str) -> None:
    assert parse(body, AGENTS) is None


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("/", ["nothing after the slash", "`/help`"]),
        ("/tsak x", ["no command `/tsak`", "Did you mean `/task`?", "`/help` lists"]),
        ("/qeue", ["Did you mean `/queue`?"]),
        ("/xyzzy", ["no command `/xyzzy`. `/help` lists", "`//`"]),
        ("/handoff", ["who hands on and to whom", "`/handoff @CLAUDE @CODEX write the tests`"]),
        ("/handoff @claude", ["who hands on and to whom"]),
        ("/handoff @claud qa", ["no agent `claud`", "Did you mean `@CLAUDE`?"]),
        ("/handoff h3", ["`retry`, `escalate`, `skip` or `branch`"]),
        ("/handoff h3 skip", ["why it is skipped"]),
        ("/handoff h3 branch a b", ["one word"]),
        ("/handoff h3 retry now", ["takes nothing more"]),
        ("/handoff t3 retry", ["like `h12`", "which is a task"]),
        ("/pipeline", ["what is to be done"]),
        ("/explore", ["what is to be done", "/explore 3 Cache the answers"]),
        ("/explore 3", ["what is to be done"]),
        ("/explore 1 Cache the answers", ["two or more"]),
        ("/explore take x3", ["which variant"]),
        ("/explore take x3 redis src/a.py", ["`src/a.py` is not `path=variant`"]),
        ("/explore take x3 'redis", ["quotation mark"]),
        ("/task", ["title is missing", "`/task <title> | t<number>", "`/task Fix the login page`"]),
        ("/task t3 is broken", ["`is` is nothing of a task", "`priority`", "`/task -- t3 …`"]),
        ("/task t3 priority high", ["`high` is no priority"]),
        ("/task t3 t4 title x", ["one task at a time"]),
        ("/task t3 files", ["what the files is to be", "`-` for none"]),
        ("/give t3", ["to whom", "`any`"]),
        ("/give t3 @NOBODY", ["no agent `NOBODY`"]),
        ("/give @CODEX", ["number of the task"]),
        ("/archive t3 done", ["numbers of tasks"]),
        ("/move", ["number of the task", "`/move t3 in_progress`"]),
        ("/move done #3", ["number of the task", "not `done`"]),
        ("/move #3", ["status is missing", "<pending|in_progress|done>"]),
        ("/move #3 dome", ["`dome` is not a status", "Did you mean `done`?"]),
        ("/move #0 done", ["start at 1"]),
        ("/move #-3 done", ["like `t12`"]),
        ("/move ٣ done", ["like `t12`"]),
        ("/move 99999999999 done", ["like `t12`"]),
        ("/moveall", ["status is missing"]),
        ("/clearall done", ["This command takes no arguments", "`/clearall`"]),
        ("/help qeue", ["no command `/qeue`", "`/queue`"]),
        ("/route", ["number of the message", "/route m12 CLAUDE CODEX"]),
        ("/route CLAUDE 12", ["number of the message"]),
        ("/route #12", ["which agents"]),
        ("/route #12 CLAUD", ["no agent `CLAUD`", "`@CODEX`", "Did you mean `@CLAUDE`?"]),
        ("/retry", ["number of the job or message"]),
        ("/move m3 done", ["like `t12`", "which is a message"]),
        ("/route t3 CLAUDE", ["like `m12`", "which is a task"]),
        ("/retry t3", ["number of the job or message"]),
        ("/allow m3", ["like `p12`", "which is a message"]),
        ("/retry 1 2", ["One number"]),
        ("/cancel", ["whose turn", "/cancel @CLAUDE"]),
        ("/pause @bob", ["no agent `bob`"]),
        ("/intent", ["which agent", "/intent @CODEX src/auth/session.py"]),
        ("/intent @all x.py", ["one at a time"]),
        ("/intent src/a.py", ["no agent `src/a.py`"]),
        ("/intent @CODEX", ["which files"]),
        ("/intent @CODEX 'x", ["quotation mark"]),
        ("/move #3 `x\n`done", ["`x 'done` is not a status"]),
        ("/locks a b", ["One path at a time"]),
        ("/remember ", ["what to remember", "/remember never mock the clock"]),
        ("/remember " + "x" * 4097, ["4,097 characters"]),
        ("/decide", ["what is decided"]),
        ("/decide because of it", ["what is decided"]),
        ("/decide use it because ", ["Say why"]),
        ("/forget", ["number of the memory is needed, like `r12`"]),
        ("/forget m14", ["which is a message"]),
        ("/forget 0", ["start at 1"]),
        ("/rewind", ["whose work", "/rewind CODEX to 14:00 preview"]),
        ("/rewind codex", ["whose work"]),
        ("/rewind codex to", ["which moment"]),
        ("/rewind codex to preview", ["which moment"]),
        ("/rewind codex to 14:00 into space", ["one of: new, worktree, main"]),
        ('/rewind codex to "x" y', ["Behind the moment"]),
        ("/rewind undo codex", ["Behind `undo`"]),
        ("/checkpoint", ["name is missing"]),
        ("/checkpoint x of @nobody", ["no agent", "CLAUDE"]),
        ("/unlock", ["which path", "/unlock src/app.py I take it over"]),
        ("/unlock src/app.py", ["Say why"]),
        ("/unlock 'src/app.py moved", ["quotation mark"]),
        ("/unlock x " + "y" * 301, ["301 characters"]),
    ],
)
def test_a_problem_says_what_would_be_right(body: str, says: list[str]) -> None:
    problem = parse(body, AGENTS)
    assert isinstance(problem, Problem)
    for words in says:
        assert words in problem.text


def test_every_command_is_found_completed_and_shown_by_an_example_that_works() -> None:
    assert [c["name"] for c in completions()] == [spec.name for spec in COMMANDS]
    for spec in COMMANDS:
        assert find(spec.name[1:].upper()) is spec
        assert spec.usage.split()[0] == spec.name
        assert not isinstance(parse(spec.example, AGENTS), Problem | None)
        assert completions()[COMMANDS.index(spec)] == {
            "name": spec.name,
            "usage": spec.usage,
            "help": spec.help,
        }


def test_without_agents_a_name_is_a_problem_and_a_pause_is_of_nobody() -> None:
    problem = parse("/cancel @claude")
    assert isinstance(problem, Problem)
    assert "none yet" in problem.text
    assert parse("/pause") == Pause(())


@given(st.sampled_from([*COMMANDS]), st.text(max_size=80))
def test_any_arguments_give_a_command_or_a_problem(spec: Command, rest: str) -> None:

    assert parse(f"{spec.name} {rest}", AGENTS) is not None


@given(st.text(max_size=80))
def test_only_a_slash_makes_a_command(body: str) -> None:
    if not body.lstrip().startswith("/"):
        assert parse(body, AGENTS) is None


_text = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=60)
_words = _text.map(lambda text: " ".join(text.split())).filter(bool)
_unquoted = _words.filter(lambda text: '"' not in text)
_reasonless = _words.filter(lambda text: "because" not in text.casefold())
_agents = st.lists(st.sampled_from(AGENTS), unique=True, max_size=3).map(tuple)
_numbers = st.integers(1, 999_999)
_variants = st.sampled_from(["redis", "in-memory", "a.b_c"])
_files = st.builds("{}={}".format, _text, _variants)
_givers = st.sampled_from(["@CLAUDE", "@CODEX", "developer", "qa"])
_opened = st.sampled_from(["", "@CODEX ", "@all ", ", @CODEX ", ": "])
_said = st.builds("{}{}".format, _opened, _words)
_several = st.lists(_numbers, unique=True, min_size=1, max_size=3).map(tuple)
_paths = _words.filter(lambda path: path == path.strip(",") != "-")
_files_reviewed = st.lists(_paths | st.sampled_from(["undo", "--"]), unique=True, min_size=1, max_size=3).map(
    tuple
)
_actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(AddTask, _words, st.none() | _words),
    st.builds(ShowTask, _numbers),
    st.builds(EditTasks, st.tuples(_numbers), st.just(Field.TITLE), _words),
    st.builds(EditTasks, st.tuples(_numbers), st.just(Field.DESCRIPTION), _words),
    st.builds(EditTasks, _several, st.just(Field.PRIORITY), st.integers(1, 10).map(str)),
    st.builds(EditTasks.files, _numbers, st.lists(_paths, unique=True, max_size=3)),
    st.builds(EditTasks.depends, _numbers, st.lists(_numbers, unique=True, max_size=3)),
    st.builds(MoveTasks, _several.filter(lambda tasks: len(tasks) > 1), st.sampled_from(Status)),
    st.builds(Archive, _several),
    st.builds(Give, _several, st.none() | st.sampled_from(AGENTS)),
    st.builds(MoveTask, _numbers, st.sampled_from(Status)),
    st.builds(MoveAll, st.sampled_from(Status)),
    st.builds(Undo, _numbers),
    st.sampled_from([ClearAll(), Undo(), Continue(), ShowTasks(), ShowWho(), ShowQueue(), ShowAirspace()]),
    st.sampled_from([ShowHelp(), ShowHelp("/move"), ShowLocks()]),
    st.builds(Route, _agents.filter(bool), _numbers),
    st.builds(Retry, _numbers, st.sampled_from(["job", "message", "any"])),
    *(st.builds(kind, _agents) for kind in (Pause, Resume)),
    *(st.builds(kind, _agents.filter(bool)) for kind in (Cancel, TryNow, Stop, TakeMain)),
    st.builds(GoFirst, st.sampled_from(AGENTS)),
    st.builds(RetryAll, st.sampled_from(AGENTS)),
    st.builds(MarkReviewed, st.sampled_from(AGENTS), _files_reviewed, st.booleans()),
    st.builds(Steer, _agents.filter(bool), _said),
    st.builds(HandOn, _givers, _givers, st.none() | _words),
    st.builds(RunPipeline, _words),
    st.builds(Explore, st.integers(2, 99), _words),
    *(st.builds(kind, _numbers) for kind in (ShowExploration, EndExploration)),
    st.builds(TakeVariant, _numbers, _variants, st.lists(_files, max_size=3).map(tuple)),
    st.builds(
        AnswerHandoff, _numbers, st.sampled_from([HandoffAnswer.RETRY, HandoffAnswer.ESCALATE]), st.none()
    ),
    st.builds(AnswerHandoff, _numbers, st.just(HandoffAnswer.SKIP), _words),
    st.builds(
        DeclareIntent,
        st.sampled_from(AGENTS),
        st.lists(_words.filter(lambda path: path == path.strip(",") != "-"), unique=True, max_size=3).map(
            tuple
        ),
    ),
    st.builds(Permit, _numbers.map(str), st.none() | _words, st.booleans()),
    st.builds(ShowLocks, _text.filter(str.strip)),
    st.builds(ForceRelease, _text.filter(str.strip), _words),
    st.builds(
        Rewind,
        st.sampled_from(["CODEX", "ann lee", "s1/CODEX", "undo", "road to rome"]),
        _unquoted,
        st.sampled_from([None, "new", "worktree", "main"]),
        st.booleans(),
        st.booleans(),
    ),
    *(st.builds(kind, st.booleans(), st.booleans()) for kind in (UndoRewind, RedoRewind)),
    st.builds(Recall, st.just("") | _words),
    st.builds(Remember, _words),
    st.builds(Decide, _reasonless, st.none() | _words),
    st.builds(Forget, _numbers | st.just("k1a2b3c4d")),
    st.builds(JudgeMemory, _numbers, st.booleans()),
    st.builds(MakeCheckpoint, _unquoted, st.none() | st.sampled_from(AGENTS)),
)


@given(_actions)
def test_an_action_is_its_line_and_its_json(action: Action) -> None:
    assert parse(action.line(), AGENTS) == action
    assert of_json(json.loads(json.dumps(action.as_json()))) == action


@given(
    st.sampled_from([spec.name for spec in COMMANDS] + ["/", "/nothing", "//task", "/a/b", ""]),
    st.text(max_size=20),
)
def test_what_looks_like_a_command_is_parsed_as_one(name: str, rest: str) -> None:
    assert is_command(name + rest) == (parse(name + rest, AGENTS) is not None)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("/resolve c3 4", None),
        ("/resolve c3 4\n```\nx = 1\n```", "x = 1\n"),
        ("/resolve c3 4\n````python\na = 1\n```\n````\n", "a = 1\n```\n"),
        ("/resolve #3 4\n    return 1\n    # more", "    return 1\n    # more\n"),
        ("/resolve c3 4\n```\n```", ""),
    ],
)
def test_what_a_person_writes_below_a_choice_is_its_text(body: str, text: str | None) -> None:
    assert parse(body) == Resolve(3, 4, None, text)


@pytest.mark.parametrize("text", ["", "x = 1\n", "```\n````\n", "\n\n  a\n\n"])
def test_a_written_choice_reads_as_it_was_written(text: str) -> None:
    action = Resolve(3, 4, None, text)
    assert parse(action.line()) == action


def test_lines_stand_below_no_other_choice() -> None:
    problem = parse("/resolve c3 2\nx = 1")
    assert isinstance(problem, Problem) and "Only below `4`" in problem.text
