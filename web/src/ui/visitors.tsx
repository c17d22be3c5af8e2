/** Agents that people run themselves: what they hold and work on. relay does not run them, so nothing here starts or stops one. */

import { agentPanel, show, taskOpen } from "../state/view";
import { roomNow } from "../state/locks";
import { cameBy, claimsOf, doing, locksOf, visitorOf, visitors, type Visitor } from "../state/visitors";
import { airspace } from "../state/airspace";
import { ago, counted, full, instant, span } from "../text/format";
import { ref } from "../text/reference";
import "../style/visitors.css";
import { Avatar, hued, IconButton } from "./bits";
import { Path } from "./copyable";
import { dotOf } from "./visitor_list";

/** Paths that are listed; the locks' own view has all. */
const SHOWN = 6;

const PROGRAMS: Readonly<Record<string, string>> = { claude: "Claude Code", codex: "Codex" };

/** How what is said reaches it. */
function hears(visitor: Visitor): string {
  const attached = visitor.sessions[0]!.attached;
  if (!attached) return "A mention reaches it when it next reads the room.";
  if (attached.state === "working") return "It hears within the turn: what is urgent after its next tool, the rest at the end of its turn.";
  return attached.state === "waiting" ? "It waits for its person, and hears what is said once that one has answered." : "It is idle: it hears what is said with its next prompt.";
}

/** How it came, and as what: "claude-code, connected over MCP". */
function origin(visitor: Visitor): string {
  const last = visitor.sessions[0]!;
  if (last.attached) return `${PROGRAMS[last.attached.program] ?? last.attached.program} of ${last.attached.person}, ${visitor.alive ? "attached" : "was attached"}`;
  const how = `${visitor.alive ? "connected" : "was connected"} ${cameBy(last)}`;
  return last.agent_type === "agent" ? how : `${last.agent_type}, ${how}`;
}

function State({ of: visitor }: { of: Visitor }) {
  const last = visitor.sessions[0]!;
  return (
    <p class={`health ${visitor.alive ? "" : "health-off"}`} data-testid="health">
      <i class={`dot dot-${dotOf(visitor)}`} aria-hidden="true" />
      {visitor.alive && last.attached && <b data-testid="doing">{doing(last.attached)} {span(roomNow.value - (instant(last.attached.since) ?? roomNow.value))}</b>}{visitor.alive && last.attached && <span class="muted"> · </span>}
      {visitor.alive
        ? <span data-tip={full(last.heartbeat_at)}>heard {ago(last.heartbeat_at, roomNow.value)}</span>
        : <span data-tip={full(last.ended_at)}>left {ago(last.ended_at, roomNow.value)}{last.end_reason ? <span class="muted">, {last.end_reason}</span> : null}</span>}
      {visitor.sessions.length > 1 && <span class="muted"> · {counted(visitor.sessions.length, "session")}</span>}
    </p>
  );
}

function Work({ of: visitor }: { of: Visitor }) {
  const held = locksOf(visitor.name), claimed = claimsOf(visitor.name);
  const agent = airspace.value?.agents.find((a) => a.agentId === visitor.name);
  const intent = (agent?.intent ?? []).filter((path) => !held.some((lock) => lock.file_path === path));
  if (!visitor.alive) return null;
  const attached = visitor.sessions[0]!.attached;
  if (!held.length && !claimed.length && !intent.length && !attached) return <p class="detail">It holds no lock and no task.</p>;
  return (
    <dl class="visitor-work">
      {attached && <div><dt>Where</dt><dd><span>{attached.branch || "no branch"}</span><Path path={attached.checkout} /></dd></div>}
      {attached && attached.paths.length > 0 && <div><dt>Touches</dt><dd>{attached.paths.slice(-SHOWN).reverse().map((path) => <Path key={path} path={path} />)}</dd></div>}
      {claimed.length > 0 && (
        <div><dt>Works on</dt><dd>{claimed.map((task) => <button key={task.id} type="button" class="link" onClick={() => (taskOpen.value = task.number)}><span class="task-number">{ref("t", task.number)}</span> {task.title}</button>)}</dd></div>
      )}
      {held.length > 0 && (
        <div>
          <dt>Holds</dt>
          <dd>
            {held.slice(0, SHOWN).map((lock) => <span key={`${lock.file_path} ${lock.session}`}><Path path={lock.file_path} />{lock.mode === "shared" && <span class="tag">shared</span>}</span>)}
            {held.length > SHOWN && <span class="muted">and {held.length - SHOWN} more</span>}
          </dd>
        </div>
      )}
      {intent.length > 0 && (
        <div><dt>Will change next</dt><dd>{intent.slice(0, SHOWN).map((path) => <Path key={path} path={path} />)}{intent.length > SHOWN && <span class="muted">and {intent.length - SHOWN} more</span>}</dd></div>
      )}
    </dl>
  );
}

/** In the agents' view, below the room's own. */
export function VisitorCards() {
  if (!visitors.value.length) return null;
  return (
    <section class="visitors" aria-label="Connected on their own">
      <header><h2>Connected on their own</h2><p>People started them, not the room.</p></header>
      <div class="cards">
        {visitors.value.map((visitor) => (
          <article key={visitor.name} class={`card agent-card ${visitor.alive ? "" : "agent-off"}`} style={hued(visitor.name)} data-testid={`visitor-card-${visitor.name}`}>
            <header>
              <Avatar name={visitor.name} kind="agent" />
              <div><h2>{visitor.name}</h2><p>{origin(visitor)}</p></div>
              <button type="button" class="button small" onClick={() => (agentPanel.value = visitor.name)} aria-label={`Open ${visitor.name}`}>Open</button>
            </header>
            <State of={visitor} />
            {visitor.alive && <p class="detail">{hears(visitor)}</p>}
            <Work of={visitor} />
          </article>
        ))}
      </div>
    </section>
  );
}

export function VisitorPanel({ name }: { name: string }) {
  const visitor = visitorOf(name);
  if (!visitor) return null;
  return (
    <aside class="panel" aria-label={`Agent ${visitor.name}`} data-testid="agent-panel" key={visitor.name} onKeyDown={(event) => { if (event.key === "Escape") agentPanel.value = null; }}>
      <header class="panel-head" style={hued(visitor.name)}>
        <Avatar name={visitor.name} kind="agent" />
        <div><h2>{visitor.name}</h2><p>{origin(visitor)}</p></div>
        <IconButton icon="close" label="Close" keys="Esc" onClick={() => (agentPanel.value = null)} />
      </header>
      <div class="panel-body">
        <State of={visitor} />
        <Work of={visitor} />
        <p class="detail">A person started it. The room cannot start, pause or stop it. {hears(visitor)}</p>
        <h3>{visitor.sessions.length === 1 ? "Session" : "Sessions"}</h3>
        <ul class="visitor-sessions">
          {visitor.sessions.map((each) => (
            <li key={each.session_id}>
              <code data-tip={each.session_id}>{each.session_id}</code>
              <span class="muted">{cameBy(each)}, since {ago(each.started_at, roomNow.value)}</span>
            </li>
          ))}
        </ul>
        {visitor.alive && <button type="button" class="link now-on" onClick={() => show("locks")}>All locks and sessions</button>}
      </div>
    </aside>
  );
}
