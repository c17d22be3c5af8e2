/** Who holds what: locks with their holders, those who wait, and the sessions behind them. */

import "../style/views.css";
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api";
import { api } from "../api_views";
import { locks, lookAtHeld, roomNow, sessions } from "../state/locks";
import "../style/locks.css";
import { ago, counted, full, instant, lasting } from "../text/format";
import type { Lock, Session } from "../coordination_types";
import { Icon, Layer, toast, Words } from "./bits";
import { Copyable, Path } from "./copyable";
import { Who } from "./proximity";
import { shell } from "../state/room";

/** Milliseconds between two looks at what nobody tells: who waits, and who was heard from. */
const LOOK = 5000;
/** Rows that are drawn at once. */
const SHOWN = 300;
/** Milliseconds before its end that a lock is marked. */
const SOON = 60_000;

const KINDS: Readonly<Record<string, string>> = { glob: "pattern", key: "key" };

function Left({ lock }: { lock: Lock }) {
  const until = instant(lock.expires_at);
  if (until === null) return null;
  const left = until - roomNow.value;
  return <time class={`left ${left < SOON ? "soon" : ""}`} dateTime={String(lock.expires_at)} data-tip={`Until ${full(lock.expires_at)}`} data-testid="left">{lasting(left)}</time>;
}

function Waiting({ lock }: { lock: Lock }) {
  const line = lock.waiting ?? [];
  if (!line.length) return null;
  return (
    <span class="waiting" data-testid="waiting">
      {line.slice(0, 3).map((wait, i) => <span key={`${wait.agent} ${wait.session}`}>{i > 0 && ", "}<Who name={wait.agent} /></span>)}
      {line.length > 3 && ` and ${line.length - 3} more`} {line.length === 1 ? "waits" : "wait"} <span class="nowrap" data-tip={full(line[0]!.since)}>({lasting(roomNow.value - (instant(line[0]!.since) ?? roomNow.value))})</span>
    </span>
  );
}

function Row({ lock, onRelease }: { lock: Lock; onRelease: () => void }) {
  return (
    <tr data-testid="lock" data-path={lock.file_path}>
      <th scope="row">
        <span class="what">
          <Path path={lock.file_path} />
          {KINDS[lock.kind] && <span class="tag">{KINDS[lock.kind]}</span>}
          {lock.mode === "shared" && <span class="tag" data-tip="Others can hold it too, but nobody alone.">shared</span>}
        </span>
        <Waiting lock={lock} />
      </th>
      <td class="holder"><Who name={lock.locked_by} /></td>
      <td class="why">{lock.reason}</td>
      <td class="num taken muted" data-tip={full(lock.acquired_at)}>{ago(lock.acquired_at, roomNow.value)}</td>
      <td class="num"><Left lock={lock} /></td>
      <td class="act"><button type="button" class="button small" aria-label={`Release ${lock.file_path} from ${lock.locked_by}`} onClick={onRelease} data-testid="release">Release</button></td>
    </tr>
  );
}

function ReleaseDialog({ lock, onClose }: { lock: Lock; onClose: () => void }) {
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState("");
  const [asking, setAsking] = useState(false);
  const still = locks.value.some((other) => other.file_path === lock.file_path && other.locked_by === lock.locked_by && other.session === lock.session);
  const next = lock.waiting?.[0];
  const release = async (): Promise<void> => {
    setAsking(true);
    try {
      await api.unlock(lock.file_path, reason.trim());
      toast(`${lock.file_path} is free; ${lock.locked_by} is told.`);
      onClose();
    } catch (caught) {
      if (!(caught instanceof ApiError)) throw caught;
      setProblem([caught.message, caught.fix].filter(Boolean).join(" "));
      setAsking(false);
    }
  };
  return (
    <Layer label="Release a lock by force" class="release-dialog" onClose={onClose} testid="release-dialog">
      <form onSubmit={(event) => { event.preventDefault(); if (reason.trim() && still && !asking) void release(); }}>
        <h2>Release it by force?</h2>
        <code class="what">{lock.file_path}</code>
        {still ? (
          <p>
            <Who name={lock.locked_by} /> holds it {lock.mode === "shared" ? "with others" : "alone"}, for <Left lock={lock} /> more{lock.reason ? <>: “{lock.reason}”</> : ""}. What it writes there after this is refused.
          </p>
        ) : (
          <p role="status">{lock.locked_by} does not hold it any more.</p>
        )}
        {still && (
          <>
            <label for="release-reason">Why</label>
            <input id="release-reason" value={reason} onInput={(e) => setReason(e.currentTarget.value)} maxLength={300} placeholder="I take it over" autofocus data-testid="release-reason" />
            <p class="muted">The room tells {lock.locked_by}, with your name and reason.{next ? ` ${next.agent} waits for it and is next.` : ""}</p>
          </>
        )}
        {problem && <p class="problem" role="alert"><Words text={problem} /></p>}
        <div class="dialog-act">
          <button type="button" class="button" onClick={onClose}>{still ? "Leave it" : "Close"}</button>
          {still && <button type="submit" class="button danger" disabled={!reason.trim() || asking} data-testid="release-now"><Icon name="lock" size={14} /> Release</button>}
        </div>
      </form>
    </Layer>
  );
}

function SessionRow({ session }: { session: Session }) {
  const held = locks.value.filter((lock) => lock.locked_by === session.agent_id && lock.session === session.session_id).length;
  const claims = typeof session.claims === "number" ? session.claims : (session.claims?.length ?? 0);
  const holds = [held ? counted(held, "lock") : "", claims ? counted(claims, "task") : ""].filter(Boolean).join(", ");
  return (
    <tr class={session.alive ? "" : "ended"} data-testid="session" data-session={session.session_id}>
      <th scope="row"><Who name={session.agent_id} /> <code class="session-id" data-tip={session.session_id}>{session.session_id}</code></th>
      <td>{session.kind === "process" ? <span data-tip="It ends when its process ends.">a process</span> : <span data-tip="Its owner gave it a name. It ends when nothing is heard from it.">a named session</span>}</td>
      <td class="num muted" data-tip={full(session.started_at)}>{ago(session.started_at, roomNow.value)}</td>
      <td class="heard">{session.alive ? <><i class="dot dot-ready" aria-hidden="true" /> heard {ago(session.heartbeat_at, roomNow.value)}</> : <>ended {ago(session.ended_at, roomNow.value)}</>}</td>
      <td>{session.alive ? holds || <span class="muted">nothing</span> : <span class="muted">{session.end_reason ?? ""}</span>}</td>
    </tr>
  );
}

function Empty() {
  // Who is here already needs no telling how to come.
  if (sessions.value.some((session) => session.alive)) return <p class="locks-note" data-testid="no-locks">Nobody holds a lock now.</p>;
  return (
    <div class="empty" data-testid="no-locks">
      <h2>Nobody holds a lock</h2>
      <p>Agents take locks and tasks through MCP or HTTP. This writes relay's tools into the settings of Claude Code, Codex and Gemini CLI:</p>
      <Copyable text={shell("install")} />
      <p class="muted">An agent that then starts in this folder locks the files that it will change. They are listed here.</p>
    </div>
  );
}

export default function LocksView() {
  const [releasing, setReleasing] = useState<Lock | null>(null);
  const [filter, setFilter] = useState("");
  useEffect(() => {
    // What cannot be read now is read at the next look; the live line says that the room is away.
    const again = (): void => void (document.hidden || lookAtHeld().catch(() => undefined));
    again();
    const timer = setInterval(again, LOOK);
    return () => clearInterval(timer);
  }, []);
  const all = [...locks.value].sort((a, b) => a.file_path.localeCompare(b.file_path));
  const words = filter.trim().toLowerCase();
  const list = words ? all.filter((lock) => `${lock.file_path} ${lock.locked_by} ${lock.reason ?? ""}`.toLowerCase().includes(words)) : all;
  const holders = new Set(all.map((lock) => lock.locked_by)).size;
  const waits = new Set(all.flatMap((lock) => (lock.waiting ?? []).map((wait) => `${wait.agent} ${wait.session}`))).size;
  return (
    <section class="view locks-view" aria-label="Locks">
      <header class="view-head">
        <h1>Locks</h1>
        {all.length > 0 && <p>{all.length} held by {holders}{waits ? `, ${waits} waiting` : ""}</p>}
        {all.length > 8 && <div class="filter"><Icon name="search" size={15} /><input value={filter} onInput={(e) => setFilter(e.currentTarget.value)} placeholder="Path, agent or reason" aria-label="Show only locks with" data-testid="locks-filter" /></div>}
      </header>
      <div class="locks-box">
        {all.length > 0 ? (
          <table class="locks">
            <thead><tr><th>What</th><th>Holder</th><th>Why</th><th class="num">Taken</th><th class="num">Time left</th><th><span class="offscreen">Actions</span></th></tr></thead>
            <tbody>{list.slice(0, SHOWN).map((lock) => <Row key={`${lock.file_path} ${lock.locked_by} ${lock.session}`} lock={lock} onRelease={() => setReleasing(lock)} />)}</tbody>
          </table>
        ) : (
          <Empty />
        )}
        {all.length > 0 && list.length === 0 && <p class="locks-note">No lock matches “{filter.trim()}”.</p>}
        {list.length > SHOWN && <p class="locks-note">{(list.length - SHOWN).toLocaleString("en")} more. Use the filter above.</p>}
        {sessions.value.length > 0 && (
          <section aria-label="Sessions">
            <h2>Sessions</h2>
            <table class="locks sessions">
              <thead><tr><th>Agent</th><th>Session of</th><th class="num">Since</th><th>State</th><th>Holds</th></tr></thead>
              <tbody>{sessions.value.slice(0, SHOWN).map((session) => <SessionRow key={`${session.agent_id} ${session.session_id}`} session={session} />)}</tbody>
            </table>
          </section>
        )}
      </div>
      {releasing && <ReleaseDialog lock={releasing} onClose={() => setReleasing(null)} />}
    </section>
  );
}
