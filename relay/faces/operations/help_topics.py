"""The texts of `help(topic)`: how an agent does what has no tool of its own.

Invariant: every topic stands on its own, and names commands and endpoints that exist.
"""

from __future__ import annotations

from collections.abc import Mapping

from relay.config.command_line import program
from relay.model.terms import glossary

_LOCKS = """\
Lock what you will edit: acquire_lock(file_path="src/app.py"). A lock on a folder covers all below it; a pattern
(`src/**/*.py`, `src/{a,b}.py`) covers what it matches; a logical key (`api:GET /v1/users`, `db:schema`) covers
itself.
- blocked: `locked_by`, `expires_at`, `held` say by whom and until when. wait_seconds=60 waits in a fair line;
  explain(kind="lock", id=path) shows the line. A wait that would be a deadlock is refused, with the cycle.
- file_paths=[...] takes several, all or none. mode="shared" goes beside other shared locks.
- acquire again (or renew) before `expires_at`; the default is 30 minutes, the most 8 hours.
- `fencing_token` proves your lease: hand it to release_lock, complete_work and POST /changesets. `stale_token`
  means that your lease ran out: acquire again, look at what changed, then write.
- locks belong to your session. A person can take one away (POST /locks/force-release); you are told in the room.
- on HTTP also: GET /locks/status/{path} (or ?path=), GET /locks, POST /locks/explain {file_path}."""

_WORK = """\
get_work() claims the next task: by submit time and priority (1 is first), and only tasks whose dependencies are
done.
get_work(task_id) claims this one; wait_seconds waits for one. task_id null: `why` says why there is none.
A task that a person gave you by a message (`t3`) is yours already: end it with complete_work(task_id="t3").
End a claim with complete_work(task_id, success, result or
error_message) or release_work(task_id, reason) (another attempt later). A failure that you report is final.
- A claim has a lease of 30 minutes that each of your calls extends. Later, `stale_token`: it was given to another.
- A task's `files` are locked for you with the claim, and released with it.
- submit_work(task_type, task_description, depends_on=[task_id], on_failed="block"|"cascade"|"ignore", files=[...]).
  idempotency_key makes it safe to send twice.
- explain(kind="work", id=task_id): every reason why you cannot claim it.
- on HTTP also: GET /work (work://all?status=open here), GET /work/pending,
  GET /work/{task_id}, POST /work/needs {task_id, depends_on}, POST /work/reopen
  {task_id} (a person's: a new attempt of a finished task)."""

_MEMORY = """\
recall(task_description) before you begin, remember(event_type, summary, outcome, lessons, tags) when you learned
something.
The same event_type and summary within an hour is one memory: lessons, tags and details are joined (`merged`).
The room remembers by itself what is said, decided and done, and a turn of its own agents begins with what bears on it
([MEMORY], with the number of each: r14). In the room a person says /recall, /remember, /decide, /forget r14.
recall gives [{memory_type, content, relevance, why}]: experiences, skills and knowledge, best first; tags narrow it.
feedback(memory_id, useful) says whether one helped (its id, or r14): it moves its rank for everybody.
working_memory(content, critical, key) holds what this session needs; without content it reads. Older notes are
shortened above the budget, critical ones never; timeline(what="show", moment=ID) shows one of `removed` whole.
skill(task_type) lists what worked best; skill(task_type, name, success, steps) counts a use, as
complete_work(skill=NAME) does.
knowledge(about, agent, kind, file) says what was decided, found out or changed; near=ID what relates to an entry,
up to three steps away; as_of=TIME what held then. Lines such as DECISION: use X instead of Y because Z in what
you say become entries: also FACT, CONSTRAINT, PATTERN, PROBLEM, SOLUTION, CONTRACT, CONFIGURATION."""

_ROOM = """\
read_room() gives the newest entries and `next`; read_room(cursor=next) what came since, to_me=true only what names
or answers you.
post_message(body) speaks
as you.
in_reply_to takes an entry's id or its number (`m12`); client_id makes it safe to send twice. What you read counts
as seen by you.
@NAME addresses somebody. Whether an agent's @mention sets another agent to work is the room's setting
(room.agent_mentions), with a limit on how far that goes without a person; beyond it your message is shown and held
until a person says /continue.
declare_intent(paths) tells others which files you will touch; it replaces what your session said before and ends
after 30 minutes.
who() says who you are, which agents there are (`agents`: @NAME sets them to work; `visitors` run on their own and
read your message with their next read_room, as `people` do) and which sessions live. A visitor with `attached` is a
person's own session (relay attach): a message that names it reaches it in its turn, or waits for its next prompt."""

_SESSIONS = """\
You are (agent, session); the pair holds locks and claims, and two sessions of one agent are two holders.
- `relay mcp`: RELAY_SESSION_ID, else a session of the process that ends with it. HTTP: the header X-Relay-Session
  or `session_id` in the body, else your key's own.
- Every call is a heartbeat. A named session lives 30 minutes after its last call, and as long as its last lock was
  promised; a process's 90 s after its last sign of life. Then what it held is free.
- on HTTP: GET /sessions?all=true, POST /sessions/end (yours is over: its locks and claims are free at once), POST
  /sessions/heartbeat."""

_CHANGESETS = """\
POST /changesets {"summary": "...", "files": ["src/app.py"], "base": "<rev>", "head": "<rev>", "fencing_token": 7}
says what you changed; the answer says what git saw: `changed`, `undeclared` (told to the room), `missing`.
Refused with `stale_token` when a lock of yours on a changed file ran out, with `locked` when another holds one.
GET /changesets?session=ID lists them. `relay guard install` puts the same checks before each commit and push."""

_ERRORS = """\
What was not done answers {"success": false, "reason": CODE, "message", "fix", "error": {"code", "message", "fix"}}:
do what `fix` says.
A refusal (locked, not_yours, stale_token) is HTTP 200 and a plain tool result; else 400 malformed, 401 no
valid key, 403 another's identity (`foreign_identity`) or a scope that the key lacks (`scope`), 404 unknown, 413 too
large, 429 and 503 busy: try again. Locked is not a failure: wait, take another task, or ask the holder in the
room."""

_HTTP = """\
Send the key as X-API-Key (or Authorization: Bearer) and JSON bodies. Every tool has an endpoint, with the same
fields:
POST /locks/acquire, /locks/release, /locks/renew, /locks/check, /locks/explain, GET /locks, GET
/locks/status/{path}; POST /work/claim, /work/complete, /work/submit, /work/release, /work/renew, /work/explain,
/work/needs, GET /work/pending, GET /work/{task_id}; POST /memory/remember, /memory/recall, /memory/working,
/memory/skills, /memory/feedback, /memory/import, /memory/forget, GET /memory/{memory_id}; POST or GET /knowledge;
POST /timeline; POST /intents; POST /land, GET /policies; POST /changesets, GET /changesets; GET /conflicts, POST
/conflicts/answer; GET /room/messages, POST /room/messages; GET /who, GET /sessions, POST /sessions/end; GET
/help/{topic}.
GET /openapi.json describes all of it, GET /reference is a page of that."""

_CLI = """\
- the room: relay run (starts it), relay join (the room in a terminal), relay link (a sign-in link for the page),
  relay log, relay archive, relay verify (is the log of events whole?), relay demo (a throw-away room to look at)
- who holds what: relay locks [list | show PATH | release PATH --reason R], relay work [list | show N | submit TEXT |
  reopen N], relay sessions [list | end ID], relay changesets [list | show ID | record TEXT FILE...]
- what was learned: relay memory import FILE.jsonl | recall [TEXT] [--queries FILE.jsonl] | show N | forget N |
  feedback N --useful | rebuild
- the codebase: relay airspace [mark m12 useful | noise], relay worktrees, relay guard install (git hooks),
  relay timeline [log | show EVENT | rewind LANE --to MOMENT | undo | redo] (who changed what, and taking it back)
- merging: relay merge BASE OURS THEIRS | check A B | blame PATH | resolve CONFLICT | install (git's driver)
- how changes are verified: relay verify-policy explain PATH... | list | install; and land: relay land [AGENT...]
- what needs a person: relay inbox [ID ACTION], relay notify [test]; comments on an agent's branch: relay review AGENT
- one message: relay message edit m12 TEXT | delete | pin | pins | thread
- the room's agents: relay agents doctor (can each take a turn?) | cost (what did it cost today?) |
  set AGENT (its model, effort, on or off)
- what came of the work, as figures: relay metrics [--days N]
- your own sessions of Claude Code and Codex in the room: relay attach [claude|codex] (shows the change and asks), and
  relay detach (undoes it)
- the relays of several machines that share this room: relay fleet
- a task in several ways, the best kept: relay explore FILE | TASK | compare ID | take ID VARIANT | end ID
- who may: relay keys create NAME | list | revoke ID, relay mcp, relay mcp install
Each has --help, and --json where it prints data. Only a person can release, end and reopen."""

_SETUP = """\
MCP: `relay mcp install` writes the configuration for Claude Code, Codex and Gemini. By hand: the command `relay
mcp` with RELAY_CONFIG=/path/to/config.json and RELAY_API_KEY (from `relay keys create NAME`) or
RELAY_AGENT_ID=NAME; RELAY_SESSION_ID when one conversation starts many processes. It works while the daemon is
down.
git's hooks (`relay guard install`) know your session in every shell that your program opens. Elsewhere (a container,
another host) say it: RELAY_AGENT_ID=NAME RELAY_SESSION_ID=ID git commit ... (`who` shows yours as `you`).
HTTP: the address is in .relay/state.json; the key from `relay keys create NAME`."""

TOPICS: Mapping[str, str] = {
    "locks": _LOCKS,
    "work": _WORK,
    "memory": _MEMORY,
    "room": _ROOM,
    "sessions": _SESSIONS,
    "changesets": _CHANGESETS,
    "errors": _ERRORS,
    "http": _HTTP,
    "cli": _CLI,
    "setup": _SETUP,
    "words": glossary(),
}

_START = """\
relay is the room where people and agents work on one codebase.
Before you edit: acquire_lock. Looking for work: get_work, then complete_work. Before a task: recall; after it:
remember.
To talk: post_message, read_room, who. When something is refused, its `fix` says what to do; explain says why.
Topics of help: """


def help_text(topic: str | None) -> str | None:
    """The text of a topic; without one, where to begin; None when there is no such topic."""
    if topic is None or not topic.strip():
        return f"{_START}{', '.join(TOPICS)}."
    name = topic.strip().lower()
    here = f"Type `{program()}` for `relay`.\n" if name in ("cli", "setup") and program() != "relay" else ""
    return here + TOPICS[name] if name in TOPICS else None
