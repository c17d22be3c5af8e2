import { describe, expect, it } from "vitest";
import { absence, clockOff, shared, standing, waiting } from "../src/text/fleet";
import { moment, receipt } from "../src/text/format";
import type { Agent, Fleet, FleetMember, Job } from "../src/types";

const NOW = Date.parse("2027-01-15T08:00:00Z");
const heard = (NOW - 300_000) / 1000;
const at = moment(heard, NOW);

function member(name: string, more: Partial<FleetMember> = {}): FleetMember {
  return { name, state: "live", leader: false, host: "h", folder: "~/x", url: "", version: "1", joined_at: heard, heartbeat_at: heard, clock_offset_s: 0, agents: [], ...more };
}

function agent(more: Partial<Agent> = {}): Agent {
  return {
    name: "BRAVO", kind: "command", preset: null, model: null, effort: null, enabled: true, paused: false, installed: true, detail: "", fix: "", version: "",
    breaker: { state: "closed", failures: 0, threshold: 3, retry_at: null }, parked_until: null, running: null, queued: 0, budget: null, ...more,
  };
}

const AWAY = agent({ member: "laptop", away: true, absence: "laptop has given no sign of life", heard_at: new Date(heard * 1000).toISOString() });

function job(state: Job["state"]): Job {
  return { id: 7, message_id: "m1", agent: "BRAVO", state, attempts: 1, reason: null, error_class: null, created_at: null, not_before: null, started_at: null, ended_at: null, answer_id: null, folded_into: null } as unknown as Job;
}

describe("the fleet", () => {
  it("is nothing to see where a room has one relay", () => {
    const fleet = (...members: FleetMember[]): Fleet => ({ name: "tower", leader: "tower", members });
    expect(shared(null)).toEqual([]);
    expect(shared(fleet())).toEqual([]);
    expect(shared(fleet(member("tower")))).toEqual([]);
    expect(shared(fleet(member("tower"), member("laptop")))).toHaveLength(2);
  });

  it("says how each member is", () => {
    expect(standing(member("tower", { leader: true }), NOW)).toBe("leads");
    expect(standing(member("tower"), NOW)).toBe("");
    expect(standing(member("laptop", { state: "away" }), NOW)).toBe(`no sign of life since ${at}`);
    expect(standing(member("laptop", { state: "left" }), NOW)).toBe(`stopped since ${at}`);
  });

  it("says of a clock only what matters", () => {
    expect(clockOff(member("laptop", { clock_offset_s: 0.6 }))).toBe("");
    expect(clockOff(member("laptop", { clock_offset_s: 45 }))).toBe("its clock is 45 s slow");
    expect(clockOff(member("laptop", { clock_offset_s: -3700 }))).toBe("its clock is 1 h 01 fast");
  });

  it("says what waits for a machine that is away, and for how long", () => {
    expect(absence(agent({ member: "laptop" }), NOW)).toBe("");
    expect(absence(AWAY, NOW)).toBe(`laptop has given no sign of life since ${at}`);
    expect(waiting([AWAY], NOW)).toBe(`BRAVO is away: laptop has given no sign of life since ${at}. It reads this when laptop is back.`);
    const two = [AWAY, { ...AWAY, name: "DELTA" }, { ...AWAY, name: "ECHO", member: "attic", absence: "attic has been stopped" }];
    expect(waiting(two, NOW)).toBe(
      `BRAVO and DELTA are away: laptop has given no sign of life since ${at}. They read this when laptop is back. ` +
        `ECHO is away: attic has been stopped since ${at}. It reads this when attic is back.`,
    );
  });
});

describe("a receipt of an agent that is away", () => {
  const read = (state: Job["state"], away?: Agent) => receipt(job(state), NOW, () => null, away);
  it("waits for its machine, and is neither queued nor at work", () => {
    expect(read("pending", AWAY)).toMatchObject({ tone: "queued", label: "waits for laptop" });
    expect(read("failed", AWAY).label).toBe("waits for laptop");
    expect(read("active", AWAY)).toMatchObject({ tone: "queued", label: "cut off with laptop" });
    expect(read("pending", AWAY).detail).toContain(`no sign of life since ${at}`);
  });
  it("keeps what is over, and what is here", () => {
    expect(read("done", AWAY).tone).toBe("answered");
    expect(read("skipped", AWAY).tone).toBe("skipped");
    expect(read("pending").label).toBe("queued");
  });
});
