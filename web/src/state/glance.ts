/** Each agent in one line: what it works on, or how its branch stands. Every view takes it from here. */

import { computed } from "@preact/signals";
import type { Agent, Need } from "../types";
import type { About, Verdict, Worktree } from "../worktree_types";
import { warningsOf } from "./airspace";
import { isOver } from "../landing/over";
import { entryOfAgent, landing, mainFails, newest } from "./landing";
import { needs } from "./needs";
import { requestOf } from "./permissions";
import { agents, entryNow, streams, tasks } from "./room";
import { worktreeFor, worktrees } from "./worktrees";
import { ref } from "../text/reference";

/** What somebody asked for, without the names that it begins with. */
const askedFor = (text: string): string => text.replace(/^(?:\s*@[\w-]+[,:]?)+\s*/, "") || text;

/** What a turn was asked for: the room tells it once, and its author may have deleted it since. */
export const turnAsked = (message: string, asked: { text: string }): string => (entryNow(message)?.meta.deleted ? "deleted" : askedFor(asked.text));

/** The last tool of its turn, as its stream says it, else as the room does. */
export function toolOf(agent: Agent): string {
  const turn = agent.running;
  return turn ? (streams.value.get(turn.job)?.tool || turn.tool) ?? "" : "";
}

/** The first open task that it has and was not yet asked about in its last turn; "": none. */
export function taskLine(agent: Agent): string {
  const own = tasks.value.find((task) => task.assignee === agent.name && task.status !== "done" && (!agent.last || task.given?.at(-1)?.message !== agent.last.message_id));
  return own ? `Has ${ref("t", own.number)}: ${own.title}` : "";
}

/** What its branch is about, as the room names it in git; null: it changes nothing, or nobody knows. */
export const aboutOf = (name: string): About | null => (standing(name) && worktreeFor(name)?.about) || null;

/** What of the inbox is about an agent; undefined: nothing. */
export const waitsFor = (name: string): Need | undefined => needs.value.find((need) => need.about.split(" and ").includes(name));

export interface Standing {
  kind: "collides" | "conflicts" | "queued" | "ready" | "changed";
  text: string;
  /** It is what its tests say. */
  tests?: true;
}

/** What a verification says of work that cannot land. */
const REFUSED: ReadonlySet<string> = new Set(["failed", "error"]);

/** Can its branch land as it stands? Its agent is idle, which the room says before the worktrees are read again, and git merges it. */
const lands = (tree: Worktree): boolean => !tree.working && !agents.value.some((agent) => agent.running && agent.name === tree.agent) && !tree.merging && !tree.unsettled && (tree.merges === "clean" || tree.merges === "joins");

/** What the tests say of an agent's work; as the room tells it with its worktree, which knows whether that is what was tested. */
export function verdictOf(name: string): Verdict | null {
  const told = worktreeFor(name)?.verified;
  if (told !== undefined) return told;
  const one = newest.value.agents.get(name);
  return one ? { ...one, present: true, said: "" } : null;
}

/** How an agent stands to the others and to the main branch; null: it has changed nothing, or nobody knows. */
export function standing(name: string): Standing | null {
  const warning = warningsOf(name)[0];
  const tree = worktreeFor(name);
  // One advisory can be about more than two: where git names pairs, these, as in Worktrees.
  const met = tree?.collides?.map((hit) => hit.agent) ?? [];
  const others = met.length ? met : warning?.agents.filter((other) => other.toUpperCase() !== name.toUpperCase()) ?? [];
  if (others.length) return { kind: "collides", text: `collides with ${others.join(", ")}` };
  const into = tree?.into ?? "the main branch";
  if (warning || tree?.merges === "conflicts") return { kind: "conflicts", text: `conflicts with ${into}` };
  if (!tree || !tree.files || tree.merges === "nothing") return null;
  const entry = entryOfAgent(name);
  if (entry?.approvals?.some((one) => one.state === "waiting")) return { kind: "queued", text: "waits for an approval" };
  if (entry) return { kind: "queued", text: entry.state === "testing" ? "is tested for landing" : "waits in the landing queue" };
  if (landing.value?.put_out?.includes(name)) return { kind: "conflicts", text: "did not land" };
  const verified = verdictOf(name);
  if (verified && REFUSED.has(verified.state)) return { kind: "conflicts", text: `its tests failed${verified.present ? "" : ", changed since"}`, tests: true };
  if (verified && !isOver(verified)) return { kind: "changed", text: verified.state === "waiting" ? "waits for an approval" : "is being tested", tests: true };
  if (verified && !verified.present) return { kind: "changed", text: "changed since its tests passed", tests: true };
  const undone = tree.undoes?.[0];
  if (undone) return { kind: "conflicts", text: `${undone.did === "took back" ? `would bring back what ${undone.agent} took back` : `would undo ${undone.agent}'s landed lines`} in ${undone.path.split("/").pop()}` };
  return lands(tree) ? { kind: "ready", text: mainFails.value ? `ready, ${mainFails.value.branch} fails` : "ready to land" } : { kind: "changed", text: "not merged yet" };
}

const IN_TROUBLE: ReadonlySet<string | undefined> = new Set(["collides", "conflicts"]);

/** Who is to be seen first: 0 waits for a person's leave, and not for long; 1 has failed, or its branch does not merge; 2 works; 3 something of it waits for a person; 4 it can land; 5 the rest. */
export const urgency = (agent: Agent): number => {
  const kind = standing(agent.name)?.kind;
  return requestOf(agent.name) ? 0 : agent.breaker.state === "open" || IN_TROUBLE.has(kind) ? 1 : agent.running ? 2 : waitsFor(agent.name) ? 3 : kind === "ready" ? 4 : 5;
};

/** Whose branches can land now; nobody's while the main branch fails by itself. */
export const readyToLand = computed(() => mainFails.value ? [] : [...new Set([...agents.value.map((agent) => agent.name), ...(worktrees.value ?? []).map((tree) => tree.agent)])].filter((name) => standing(name)?.kind === "ready"));
