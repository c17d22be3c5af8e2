/** The agents in the side bar: who can answer, and how they are. */

import { useRef } from "preact/hooks";
import { requestOf } from "../state/permissions";
import { agents, dispatcher, now } from "../state/room";
import { agentPanel, show } from "../state/view";
import { asksYou, instant, lasting, moment } from "../text/format";
import type { Agent, DispatcherState } from "../types";
import { aboutOf, readyToLand, standing, taskLine, unseen, urgency } from "../state/glance";
import { hued } from "./bits";
import { BranchWays, Cost, Doing, NeedsMark } from "./doing";

type Health = "away" | "ready" | "spent" | "working" | "asks" | "paused" | "open" | "half_open" | "parked" | "missing" | "off";

export function health(agent: Agent, at: number): Health {
  if (agent.away) return "away";
  if (!agent.installed) return "missing";
  if (!agent.enabled) return "off";
  if (agent.paused) return "paused";
  if (requestOf(agent.name)) return "asks";
  if (agent.running) return "working";
  if (agent.breaker.state !== "closed") return agent.breaker.state;
  if ((instant(agent.parked_until) ?? 0) > at) return "parked";
  if (spent(agent)) return "spent";
  return "ready";
}

function spent(agent: Agent): boolean {
  return Object.values(agent.budget ?? {}).some((meter) => meter && meter.used >= meter.limit);
}

const HEALTH_WORDS: Record<Health, string> = {
  away: "away",
  ready: "ready",
  spent: "budget spent",
  working: "working",
  asks: "asks you",
  paused: "paused",
  open: "circuit open",
  half_open: "trial next",
  parked: "rate limited",
  missing: "not installed",
  off: "switched off",
};

/** One short line about an agent now. */
export function healthLine(agent: Agent, at: number, short = false): string {
  const state = health(agent, at);
  if (state === "away") return `away${short ? "" : ` with ${agent.member}`} since ${moment(agent.heard_at ?? null, at)}`;
  if (state === "working") return `working ${lasting(at - (instant(agent.running!.since) ?? at))}`;
  if (state === "asks") return asksYou(requestOf(agent.name)!, at);
  if (state === "open") {
    const retry = instant(agent.breaker.retry_at);
    return `circuit open${retry && retry > at ? `${short ? " " : ", retry in "}${lasting(retry - at)}` : ""}`;
  }
  if (state === "parked") return `${short ? "limited" : "rate limited"} until ${moment(agent.parked_until, at)}`;
  return state === "missing" && agent.broken ? "broken" : HEALTH_WORDS[state];
}

export function Dot({ state }: { state: Health }) {
  return <i class={`dot dot-${state}`} aria-hidden="true" />;
}

/** How it is, on the first line. Of many, what a ready one's branch is about, where the second line says how that stands. */
function FirstLine({ agent, state, many }: { agent: Agent; state: Health; many: boolean }) {
  if (state !== "ready") return <span class="agent-line">{healthLine(agent, now.value, true)}</span>;
  if (unseen(agent.name)) return <span class="agent-line">looking…</span>;
  const about = many && aboutOf(agent.name);
  if (about) return <span class="agent-line agent-task" data-testid={`about-${agent.name}`}>{about.text}</span>;
  return <span class="agent-line">{agent.member ? `at ${agent.member}` : (agent.model ?? (agent.kind === "steward" ? "steward" : ""))}</span>;
}

/** The short list in the side bar. */
export function AgentList() {
  const many = agents.value.length > 5;
  const list = useRef<HTMLUListElement>(null);
  const before = useRef<string[]>([]);
  // Many may not all be in sight, so who waits for nothing is last. Under a pointer or a key no row moves.
  const still = list.current?.matches(":hover, :has(:focus-visible)");
  const place = (agent: Agent): number => (still ? before.current.indexOf(agent.name) : urgency(agent));
  const shown = many ? [...agents.value].sort((a, b) => place(a) - place(b)) : agents.value;
  before.current = shown.map((agent) => agent.name);
  return (
    <ul ref={list} class={`agent-list ${many ? "many" : ""}`}>
      {shown.map((agent) => {
        const state = health(agent, now.value);
        return (
          <li key={agent.name} class={readyToLand.value.includes(agent.name) ? "with-ways" : ""}>
            <button type="button" class={`agent-row agent-${state} ${agent.running || agent.last || standing(agent.name) || taskLine(agent) ? "busy" : ""}`} aria-pressed={agentPanel.value === agent.name} onClick={() => (agentPanel.value = agentPanel.value === agent.name ? null : agent.name)} data-testid={`agent-${agent.name}`}>
              <Dot state={state} />
              <span class="agent-lines">
                <span class="agent-first">
                  <span class="agent-how">
                    <span class={`agent-name ${agent.kind === "steward" ? "neutral" : ""}`} style={hued(agent.name)}>{agent.name}</span>
                    <NeedsMark name={agent.name} />
                    <FirstLine agent={agent} state={state} many={many} />
                    {agent.queued > 0 && <span class="count" data-tip={`${agent.queued} queued`}>{agent.queued}</span>}
                  </span>
                  <Cost name={agent.name} />
                </span>
                <Doing agent={agent} many={many} />
              </span>
            </button>
            {readyToLand.value.includes(agent.name) && <BranchWays name={agent.name} />}
          </li>
        );
      })}
    </ul>
  );
}

export const DISPATCHER_WORDS: Record<DispatcherState["state"], { dot: string; line: (model: string) => string; story: string }> = {
  ok: { dot: "ready", line: (model) => model, story: "It decides who answers messages that name nobody." },
  fallback: { dot: "parked", line: () => "asking everyone", story: "It cannot decide now, so messages that name nobody go to every active agent." },
  off: { dot: "off", line: () => "off", story: "It is switched off: messages that name nobody go to every active agent." },
  unknown: { dot: "off", line: () => "not asked yet", story: "It has not been asked yet." },
};

/** The dispatcher as one row of the side bar. */
export function DispatcherRow() {
  const d = dispatcher.value;
  if (!d) return null;
  const words = DISPATCHER_WORDS[d.state];
  return (
    <button type="button" class={`agent-row dispatcher-row dispatcher-is-${d.state}`} data-testid="dispatcher-row" data-state={d.state} data-tip={`${words.story}${d.detail ? `\n${d.detail.replace(/`/g, "")}` : ""}`} onClick={() => show("agents")}>
      <i class={`dot dot-${words.dot}`} aria-hidden="true" />
      <span class="dispatcher-name">dispatcher</span>
      <span class="agent-line">{words.line(d.model)}</span>
    </button>
  );
}
