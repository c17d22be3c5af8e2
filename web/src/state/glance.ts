/** Each agent in one line: what it works on, or how its branch stands. Every view takes it from here. */

import { computed } from "@preact/signals";
import type { Agent, Need } from "../types";
import type { About, Standing, Verdict } from "../worktree_types";
import { entryOfAgent, mainFails, newest } from "./landing";
import { needs } from "./needs";
import { requestOf } from "./permissions";
import { agents, entryNow, streams, tasks } from "./room";
import { looking, worktreeFor, worktrees } from "./worktrees";
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

/** The first open task that it has, was not yet asked about in its last turn, and of which nothing landed; "": none. */
export function taskLine(agent: Agent): string {
  const own = tasks.value.find((task) => task.assignee === agent.name && task.status !== "done" && !task.landed && (!agent.last || task.given?.at(-1)?.message !== agent.last.message_id));
  return own ? `Has ${ref("t", own.number)}: ${own.title}` : "";
}

/** What its branch is about, as the room names it in git; null: it changes nothing, or nobody knows. */
export const aboutOf = (name: string): About | null => (standing(name) && worktreeFor(name)?.about) || null;

/** What of the inbox is about an agent; undefined: nothing. */
export const waitsFor = (name: string): Need | undefined => needs.value.find((need) => need.about.split(" and ").includes(name));

/** What the tests say of an agent's work; as the room tells it with its worktree, which knows whether that is what was tested. */
export function verdictOf(name: string): Verdict | null {
  const told = worktreeFor(name)?.verified;
  if (told !== undefined) return told;
  const one = newest.value.agents.get(name);
  return one ? { ...one, present: true, said: "" } : null;
}

/** How an agent stands to the others and to the main branch, as the room says it; null: it has changed nothing, or nobody knows. */
export function standing(name: string): Standing | null {
  const told = worktreeFor(name)?.stands ?? null;
  // Who begins a turn, or is asked to land, is not ready any more: the room says that before the worktrees are read again.
  return told?.kind === "ready" && (entryOfAgent(name) || agents.value.some((agent) => agent.running && agent.name === name)) ? { ...told, kind: "changed", text: "not merged yet" } : told;
}

/** Is it not known yet how its branch stands? */
export const unseen = (name: string): boolean => looking.value && !worktreeFor(name);

const IN_TROUBLE: ReadonlySet<string | undefined> = new Set(["collides", "conflicts"]);

/** Who is to be seen first: 0 waits for a person's leave, and not for long; 1 has failed, or its branch does not merge; 2 works; 3 something of it waits for a person; 4 it can land; 5 the rest. */
export const urgency = (agent: Agent): number => {
  const kind = standing(agent.name)?.kind;
  return requestOf(agent.name) ? 0 : agent.breaker.state === "open" || IN_TROUBLE.has(kind) ? 1 : agent.running ? 2 : waitsFor(agent.name) ? 3 : kind === "ready" ? 4 : 5;
};

/** Whose branches can land now; nobody's while the main branch fails by itself. */
export const readyToLand = computed(() => mainFails.value ? [] : [...new Set([...agents.value.map((agent) => agent.name), ...(worktrees.value ?? []).map((tree) => tree.agent)])].filter((name) => standing(name)?.kind === "ready"));
