/** The relays that share a room, and agents that live at another one, in words. Pure; `now` in milliseconds. */

import type { Agent, Fleet, FleetMember } from "../types";
import { moment, span } from "./format";

/** The members, where there is more than this relay: a room that has one says nothing of it. */
export const shared = (fleet: Fleet | null): readonly FleetMember[] => (fleet && fleet.members.length > 1 ? fleet.members : []);

/** What keeps an agent's machine from answering: "laptop has given no sign of life since 12:03"; "" = nothing does. */
export function absence(agent: Agent | undefined, now: number): string {
  return agent?.away ? `${agent.absence} since ${moment(agent.heard_at ?? null, now)}` : "";
}

/** How a member is, behind its name. */
export function standing(member: FleetMember, now: number): string {
  if (member.state === "live") return member.leader ? "leads" : "";
  return `${member.state === "left" ? "stopped" : "no sign of life"} since ${moment(member.heartbeat_at, now)}`;
}

/** Seconds by which a clock may differ before it is worth a word. */
const CLOCK = 1;

/** "its clock is 2:03 slow", or nothing. */
export function clockOff(member: FleetMember): string {
  const off = member.clock_offset_s;
  return Math.abs(off) > CLOCK ? `its clock is ${span(Math.abs(off) * 1000)} ${off > 0 ? "slow" : "fast"}` : "";
}

/** What is written to those who are away, by their machines: "BRAVO is away: laptop has … since 12:03. It reads this
 * when laptop is back." */
export function waiting(away: readonly Agent[], now: number): string {
  const machines = [...new Set(away.map((agent) => agent.member))];
  return machines
    .map((machine) => {
      const there = away.filter((agent) => agent.member === machine);
      const one = there.length === 1;
      return `${listed(there.map((agent) => agent.name))} ${one ? "is" : "are"} away: ${absence(there[0], now)}. ${one ? "It reads" : "They read"} this when ${machine} is back.`;
    })
    .join(" ");
}

/** "A, B and C" */
export const listed = (names: readonly string[]): string => (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : (names[0] ?? ""));
