/** The agents in full: their view, and the panel of one. Loaded when the first of them is opened. */

import "../style/views.css";
import "../style/panel.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api_views";
import { locks } from "../state/locks";
import { agents, away, dispatcher, now, workers } from "../state/room";
import { taskLine, toolOf, turnAsked } from "../state/glance";
import { permissions } from "../state/permissions";
import { usage } from "../state/usage";
import { visitors } from "../state/visitors";
import { agentPanel, show, showEntry } from "../state/view";
import { absence } from "../text/fleet";
import { amount, counted, moment } from "../text/format";
import { said } from "../text/usage";
import type { Agent, Meter, TokenMeter } from "../types";
import { Last } from "./doing";
import { DISPATCHER_WORDS, Dot, health, healthLine } from "./agents";
import { attempt, Avatar, hued, Icon, IconButton, tell, toast, Words } from "./bits";
import { Copyable } from "./copyable";
import { PermissionCard } from "./permissions";
import { FleetCards } from "./fleet_cards";
import { Whereabouts } from "./near";
import { Term } from "./term";
import { Steer } from "./steer";
import { UsageChart } from "./usage_chart";
import { VisitorCards, VisitorPanel } from "./visitors";

/** Where an agent lives, where that is at another member of the fleet. */
const lives = (agent: Agent): string => (agent.member ? `at ${agent.member}` : "");

/** What the tokens of a budget are made of, and what is left out. */
function tokenKinds(meter: TokenMeter): string {
  return `Counts new input (${amount(meter.input)}), cache writes (${amount(meter.cache_write)}) and output (${amount(meter.output)}) of the last 24 hours. Cache reads (${amount(meter.cache_read)}) do not count.`;
}

function BudgetMeter({ name, meter, money = false, tip }: { name: string; meter: Meter; money?: boolean; tip?: string }) {
  const part = meter.limit > 0 ? Math.min(1, meter.used / meter.limit) : 0;
  const show = (n: number): string => (money ? `$${n.toFixed(2)}` : amount(n));
  return (
    <div class={`meter ${part >= 1 ? "spent" : part > 0.8 ? "near" : ""}`} data-tip={tip} tabIndex={tip ? 0 : undefined}>
      <span class="meter-name">{name}</span>
      <span class="meter-value">{show(meter.used)} / {show(meter.limit)}{meter.limit > meter.used && part > 0 ? <span class="muted">, {show(meter.limit - meter.used)} left</span> : null}</span>
      <div class="meter-bar" role="meter" aria-label={`${name} used`} aria-valuemin={0} aria-valuemax={meter.limit} aria-valuenow={meter.used}>
        <i style={{ width: `${part * 100}%` }} />
      </div>
    </div>
  );
}

function Meters({ agent }: { agent: Agent }) {
  const budget = agent.budget;
  const rows = [
    budget?.turns_per_hour && <BudgetMeter key="t" name="Turns this hour" meter={budget.turns_per_hour} />,
    budget?.tokens && <BudgetMeter key="k" name="Tokens in 24 h, without cache reads" meter={budget.tokens} tip={tokenKinds(budget.tokens)} />,
    budget?.usd && <BudgetMeter key="u" name="Dollars in 24 h" meter={budget.usd} money />,
    ...(agent.limits ?? []).map((limit) => (
      <BudgetMeter key={limit.window} name={`Its account's ${limit.window}, in %`} meter={{ used: limit.used_percent, limit: 100 }}
        tip={limit.resets_at ? `Begins again ${moment(limit.resets_at, now.value)}.` : undefined} />
    )),
  ].filter(Boolean);
  return rows.length ? <div class="meters">{rows}</div> : null;
}

/** What it used since midnight. */
function Today({ name }: { name: string }) {
  const used = usage.value?.agents[name];
  return used ? <p class="detail" data-testid="today">Today: {said(used)}</p> : null;
}

function Settings({ agent }: { agent: Agent }) {
  const [model, setModel] = useState(agent.model ?? "");
  const [effort, setEffort] = useState(agent.effort ?? "");
  useEffect(() => {
    setModel(agent.model ?? "");
    setEffort(agent.effort ?? "");
  }, [agent.model, agent.effort]);
  const changed = model !== (agent.model ?? "") || effort !== (agent.effort ?? "");
  if (agent.name === "RELAY" || agent.kind === "steward") return null;
  if (agent.member) return <p class="detail">Its settings are in <code>config.json</code> at {agent.member}.</p>;
  return (
    <form
      class="settings"
      onSubmit={(event) => {
        event.preventDefault();
        // An emptied field takes the key out of the configuration.
        const patch = { ...(model !== (agent.model ?? "") && { model: model.trim() || null }), ...(effort !== (agent.effort ?? "") && { effort: effort.trim() || null }) };
        void attempt(api.agentSet(agent.name, patch)).then((ok) => ok && toast(`${agent.name}: written to config.json.`));
      }}
    >
      <label>
        <span>Model</span>
        <input value={model} placeholder="the program's default" spellcheck={false} autocomplete="off" onInput={(e) => setModel(e.currentTarget.value)} />
      </label>
      <label>
        <span>Effort</span>
        <input value={effort} list="efforts" placeholder="default" spellcheck={false} autocomplete="off" onInput={(e) => setEffort(e.currentTarget.value)} />
        <datalist id="efforts"><option value="low" /><option value="medium" /><option value="high" /></datalist>
      </label>
      {changed && (
        <div class="settings-act">
          <button type="submit" class="button small primary">Save</button>
          <button type="button" class="button small" onClick={() => { setModel(agent.model ?? ""); setEffort(agent.effort ?? ""); }}>Reset</button>
        </div>
      )}
    </form>
  );
}

function AgentLog({ name }: { name: string }) {
  const [lines, setLines] = useState<{ ts: string; text: string }[] | null>(null);
  const [problem, setProblem] = useState("");
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let gone = false;
    const read = (): void => {
      api.log(name, 200).then(
        (found) => { if (!gone) { setLines(found); setProblem(""); } },
        (error: Error) => { if (!gone) setProblem(error.message); },
      );
    };
    read();
    const timer = setInterval(read, 3000);
    return () => { gone = true; clearInterval(timer); };
  }, [name]);
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines?.length]);
  return (
    <div class="log" ref={box} tabIndex={0} role="region" aria-label={`Log of ${name}`} data-testid="agent-log">
      {problem && <p class="log-note">{problem}</p>}
      {lines?.length === 0 && <p class="log-note">Nothing yet. What {name}'s program says about itself appears here during a turn.</p>}
      {lines?.map((l, i) => <div key={i}><time>{moment(l.ts, now.value)}</time><span>{l.text}</span></div>)}
    </div>
  );
}

function Facts({ agent }: { agent: Agent }) {
  const at = now.value;
  const state = health(agent, at);
  const b = agent.breaker;
  const held = locks.value.filter((lock) => lock.locked_by === agent.name).length;
  return (
    <>
      {agent.about && <p class="detail about" data-testid="about">{agent.about}</p>}
      <p class={`health health-${state}`} data-testid="health"><Dot state={state} /> {healthLine(agent, at)}{agent.queued ? <span class="muted"> · {agent.queued} queued</span> : null}</p>
      {agent.away && <p class="detail away-why" data-testid="away">{absence(agent, at)}. What is written to {agent.name} waits for it{agent.running ? ", and so does what it was working on" : ""}.</p>}
      {agent.channel && agent.installed && (
        <p class="detail" data-testid="channel" data-tip={agent.channel.why || undefined}>gets messages {agent.channel.hears === "boundary" ? `during the turn (${agent.channel.name})` : "at the next turn"}</p>
      )}
      {agent.running && (
        <>
          {agent.running.asked ? (
            <button type="button" class="link now-on asked" data-testid="asked" aria-label={`${agent.away ? "what it was working on" : "what it is working on"}, ${agent.running.asked.by}: ${turnAsked(agent.running.message_id, agent.running.asked)}`} onClick={() => void showEntry(agent.running!.message_id)}>
              {agent.running.asked.by}: {turnAsked(agent.running.message_id, agent.running.asked)}
            </button>
          ) : <button type="button" class="link now-on" onClick={() => void showEntry(agent.running!.message_id)}>{agent.away ? "what it was working on" : "what it is working on"}</button>}
          {toolOf(agent) && <p class="detail doing-tool mono">{toolOf(agent)}</p>}
        </>
      )}
      {!agent.running && taskLine(agent) && <p class="detail" data-testid="task-of">{taskLine(agent)}</p>}
      {!agent.running && agent.last && <button type="button" class="link now-on asked" data-testid="last" onClick={() => void showEntry(agent.last!.message_id)}><Last agent={agent} /></button>}
      {held > 0 && <button type="button" class="link now-on" onClick={() => show("locks")} data-testid="holds">holds {counted(held, "lock")}</button>}
      {agent.detail && <p class="detail"><Words text={agent.detail} /></p>}
      {!agent.installed && agent.fix && <Copyable text={agent.fix} testid="fix" />}
      {b.state !== "closed" && (
        <p class="breaker" data-testid="breaker">
          <b><Term id="breaker" /> {b.state === "open" ? "open" : "half open"}.</b> {counted(b.failures, "failure")} in a row (limit {b.threshold}).
          {b.state === "open" ? <> New messages are skipped until one <Term id="probe">attempt</Term> succeeds.</> : <> The next message is that <Term id="probe">attempt</Term>.</>}
        </p>
      )}
      {b.state === "closed" && b.failures > 0 && <p class="detail">{b.failures} of {b.threshold} failures before the <Term id="breaker">circuit</Term> opens.</p>}
    </>
  );
}

function Actions({ agent }: { agent: Agent }) {
  const act = (action: "pause" | "resume" | "cancel", done: string): void => {
    void attempt(api.agentDo(agent.name, action)).then((ok) => ok && toast(done));
  };
  if (agent.name === "RELAY" || agent.kind === "steward") return null;
  return (
    <div class="agent-actions">
      {agent.paused ? (
        <button type="button" class="button small" onClick={() => act("resume", `${agent.name} takes messages again.`)}><Icon name="play" size={13} /> Resume</button>
      ) : (
        <button type="button" class="button small" onClick={() => act("pause", `${agent.name} is paused.`)} disabled={!agent.installed}><Icon name="pause" size={13} /> Pause</button>
      )}
      {agent.breaker.state === "open" && (
        <button type="button" class="button small" data-testid="try-now" data-tip="One attempt now, with the last message it could not answer. If it succeeds, the agent gets work again; if not, it is left alone as before." onClick={() => void tell(api.agentDo(agent.name, "try"))}><Icon name="retry" size={13} /> Try now</button>
      )}
      <button type="button" class="button small danger" disabled={!agent.running} onClick={() => act("cancel", `${agent.name}'s turn is being ended.`)}><Icon name="stop" size={13} /> Cancel turn</button>
      {!agent.member && <button type="button" class="button small" onClick={() => void attempt(api.agentSet(agent.name, { enabled: !agent.enabled }))}>{agent.enabled ? "Switch off" : "Switch on"}</button>}
    </div>
  );
}

export function AgentPanel() {
  const agent = agents.value.find((a) => a.name === agentPanel.value);
  if (!agent) return agentPanel.value ? <VisitorPanel name={agentPanel.value} /> : null;
  return (
    <aside class="panel" aria-label={`Agent ${agent.name}`} data-testid="agent-panel" key={agent.name} onKeyDown={(event) => { if (event.key === "Escape") agentPanel.value = null; }}>
      <header class="panel-head" style={hued(agent.name)}>
        <Avatar name={agent.name} kind="agent" />
        <div>
          <h2>{agent.name}</h2>
          <p>{[agent.preset ?? agent.kind, agent.version, lives(agent)].filter(Boolean).join(" · ")}</p>
        </div>
        <IconButton icon="close" label="Close" keys="Esc" onClick={() => (agentPanel.value = null)} />
      </header>
      <div class="panel-body">
        {permissions.value.filter((one) => one.agent === agent.name).map((one) => <PermissionCard key={one.id} request={one} named={false} />)}
        <Facts agent={agent} />
        <Whereabouts name={agent.name} />
        <Actions agent={agent} />
        {agent.running && <Steer agent={agent.name} />}
        <Today name={agent.name} />
        <Meters agent={agent} />
        <Settings agent={agent} />
        <h3>Log</h3>
        {agent.member ? <p class="detail">What its program says about itself stays at {agent.member}.</p> : <AgentLog name={agent.name} />}
      </div>
    </aside>
  );
}

export default function AgentsView() {
  const d = dispatcher.value;
  const here = visitors.value.filter((one) => one.alive).length;
  return (
    <section class="view agents-view" aria-label="Agents">
      <header class="view-head">
        <h1>Agents</h1>
        <p>{workers.value.filter((a) => a.installed).length} of {workers.value.length} installed{away.value.length > 0 && `, ${away.value.length} away`}{here > 0 && `, ${here} connected on ${here === 1 ? "its" : "their"} own`}</p>
      </header>
      <UsageChart />
      {d && (
        <div class={`dispatcher dispatcher-${d.state}`} data-testid="dispatcher">
          <Icon name="route" />
          <div>
            <b>Dispatcher</b> <span class="muted">{d.enabled ? `${d.model} at ${d.host}` : "off"}</span>
            <p>{DISPATCHER_WORDS[d.state].story}</p>
            {d.detail && <p class="muted"><Words text={d.detail} /></p>}
          </div>
        </div>
      )}
      <div class="cards">
        {agents.value.map((agent) => (
          <article key={agent.name} class={`card agent-card agent-${health(agent, now.value)}`} style={hued(agent.name)}>
            <header>
              <Avatar name={agent.name} kind="agent" />
              <div>
                <h2>{agent.name}</h2>
                <p data-testid={`lives-${agent.name}`}>{[agent.preset ?? agent.kind, agent.model, agent.effort, lives(agent)].filter(Boolean).join(" · ")}</p>
              </div>
              <button type="button" class="button small" onClick={() => (agentPanel.value = agent.name)} aria-label={`Open ${agent.name}`}>Open</button>
            </header>
            <Facts agent={agent} />
            <Whereabouts name={agent.name} />
            <Today name={agent.name} />
            <Meters agent={agent} />
          </article>
        ))}
      </div>
      <VisitorCards />
      <FleetCards />
      {!workers.value.length && !visitors.value.length && (
        <div class="empty">
          <h2>No agent is configured</h2>
          <p>Add one under <code>agents</code> in <code>config.json</code>; the steward says how:</p>
          <Copyable text="/help agents" />
        </div>
      )}
    </section>
  );
}
