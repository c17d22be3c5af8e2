import { describe, expect, it } from "vitest";
import { ALL, fits, NOBODY, type Filter } from "../src/board/fits";
import { asks, givenState, inHand, ordered, remarks, waitsFor } from "../src/board/cards";
import { aboutTasks, changed } from "../src/state/board";
import type { Task } from "../src/coordination_types";
import type { Job, JobState, Need } from "../src/types";

const NOW = Date.parse("2027-01-15T08:00:00Z");
const iso = (seconds: number): string => new Date(NOW + seconds * 1000).toISOString();

function task(number: number, more: Partial<Task> = {}): Task {
  return {
    id: `t${number}`, number, title: `Task ${number}`, status: "pending", badge: null, assignee: null, created_by: "ann",
    created_at: iso(-3600 + number), updated_at: iso(0), priority: 5, ...more,
  };
}

const numbers = (tasks: readonly Task[]): number[] => tasks.map((one) => one.number);

describe("the board", () => {
  it("takes changes in by number, and lets go what left", () => {
    const board = changed([], [task(3), task(1), task(2)], []);
    expect(numbers(board)).toEqual([1, 2, 3]);
    const next = changed(board, [task(2, { title: "new" }), task(4)], ["t1"]);
    expect(next.map((one) => one.title)).toEqual(["new", "Task 3", "Task 4"]);
  });

  it("says that the work for a task has landed", () => {
    expect(remarks(task(1, { status: "in_progress", assignee: "AVA", landed: "b5f12be0cafe" }), [], NOW).map((one) => one.text)).toContain("landed as b5f12be");
  });

  it("knows where a bare number is a task", () => {
    const said = (kind: "human" | "system" | "agent", speaker: string, body: string, meta = {}) => ({ kind, speaker, body, meta });
    const notice = said("system", "RELAY", "Task #3 fails with one that it depends on: #2 failed.", { coordination: "task.changed", notice: "coordination" });
    expect(aboutTasks(notice, undefined)).toBe(true);
    expect(aboutTasks({ ...notice, speaker: "CLAUDE", kind: "agent" }, undefined)).toBe(false);
    expect(aboutTasks({ ...notice, meta: { coordination: "lock.forced" } }, undefined)).toBe(false);
    expect(aboutTasks(said("human", "ann", "/move #3 done"), undefined)).toBe(true);
    expect(aboutTasks(said("human", "ann", "look at #3"), undefined)).toBe(false);
    expect(aboutTasks(said("system", "RELAY", "#3 is done."), { body: "/move #3 done" })).toBe(true);
  });

  it("shows what waits as it will be given out: by rank, the blocked last", () => {
    const list = [task(1, { badge: "blocked", priority: 1 }), task(2), task(3, { priority: 4 }), task(4, { priority: 6, created_at: iso(-9000) })];
    expect(numbers(ordered(list, "pending"))).toEqual([4, 3, 2, 1]);
    expect(numbers(ordered(list, "done"))).toEqual([1, 2, 3, 4]);
  });

  it("names what a task still waits for", () => {
    const need = (number: number) => ({ id: `t${number}`, number });
    const all = [task(1), task(2, { status: "done" }), task(3, { status: "done", badge: "failed" })];
    expect(waitsFor(task(9, { depends_on: [1, 2, 3, 8].map(need) }), all)).toEqual(["t1", "t3 (failed)"]);
    expect(waitsFor(task(9), all)).toEqual([]);
  });

  it.each([
    [task(1), []],
    [task(1, { badge: "blocked", note: "It needs what failed." }), ["warn It needs what failed."]],
    [task(1, { badge: "blocked" }), ["warn waits for others"]],
    [task(1, { attempts: 1, max_attempts: 3, not_before: iso(20) }), [" 1 of 3 attempts made", " again in 20 s"]],
    [task(1, { status: "in_progress", attempts: 0, max_attempts: 3, lease_until: iso(90) }), [" lease 1:30"]],
    [task(1, { status: "in_progress", attempts: 1, max_attempts: 3 }), [" attempt 2 of 3"]],
    [task(1, { status: "in_progress", attempts: 2, max_attempts: 3 }), ["warn attempt 3 of 3"]],
    [task(1, { status: "in_progress", lease_until: iso(-1) }), ["warn lease ran out"]],
    [task(1, { status: "done", badge: "failed", error_message: "exit 1", note: "n", attempts: 1, max_attempts: 3 }), ["bad exit 1"]],
    [task(1, { status: "done", badge: "dead", note: "Its lease ran out." }), ["bad Its lease ran out."]],
    [task(1, { status: "done", lease_until: iso(90) }), []],
  ])("says what calls for somebody (%#)", (one, said) => {
    expect(remarks(one, [one], NOW).map((remark) => `${remark.tone} ${remark.text}`)).toEqual(said);
  });
});

describe("which cards are shown", () => {
  const list = [
    task(1, { title: "Mend the roof", description: "Mend the roof\n\nIt leaks over the stage.", files: ["src/roof.py"] }),
    task(2, { status: "in_progress", assignee: "AVA" }),
    task(3, { badge: "blocked" }),
    task(4, { status: "done", badge: "dead", assignee: "BEN", source: "https://example.org/issues/9" }),
  ];
  const found = (by: Partial<Filter>): number[] => numbers(list.filter((one) => fits(one, { ...ALL, ...by })));
  it("by state, by who has it, by words of all that they say", () => {
    expect(found({})).toEqual([1, 2, 3, 4]);
    expect(found({ state: "pending" })).toEqual([1, 3]);
    expect(found({ state: "blocked" })).toEqual([3]);
    expect(found({ state: "failed" })).toEqual([4]);
    expect(found({ who: "AVA" })).toEqual([2]);
    expect(found({ who: NOBODY })).toEqual([1, 3]);
    expect(found({ words: "STAGE roof.py" })).toEqual([1]);
    expect(found({ words: "t2" })).toEqual([2]);
    expect(found({ words: "issues/9" })).toEqual([4]);
    expect(found({ words: "stage", who: "AVA" })).toEqual([]);
  });
});

describe("a task that was given", () => {
  const job = (state: JobState, more: Partial<Job> = {}): Job => ({ id: 7, message_id: "m-1", agent: "AVA", state, attempts: 1, reason: null, error_class: null, created_at: iso(0), not_before: null, started_at: null, ended_at: null, answer_id: null, folded_into: null, ...more });
  const one = task(1, { status: "in_progress", assignee: "AVA", given: [{ message: "m-0", number: 2, agent: "BEN" }, { message: "m-1", number: 4, agent: "AVA" }] });
  it("says how its message stands, and asks when that is answered", () => {
    expect(givenState(one, new Map([[7, job("active")]]))).toBe("active");
    expect(givenState(one, new Map([[7, job("done", { agent: "BEN" })]]))).toBe(null);
    expect(givenState({ ...one, assignee: "ann" }, new Map([[7, job("done")]]))).toBe(null);
    // What it waits for is the inbox's word.
    const says = "AVA has answered (m3): c1 is to be settled first";
    const need: Need = { id: "conflict:c1", kind: "conflict", at: "", about: "AVA", text: "", ref: "c1", ends_at: null, actions: [], tasks: [{ ref: `t${one.number}`, says }] };
    expect([asks(one, [need]), asks(one, [{ ...need, tasks: [] }])]).toEqual([says, ""]);
    expect(remarks(one, [], NOW, "done", says).map((said) => said.text)).toEqual([says]);
    expect(remarks(one, [], NOW, "done").map((said) => said.text)).toEqual(["AVA has answered"]);
    expect(remarks(task(2, { given: one.given, note: "AVA was skipped." }), [], NOW).map((said) => said.text)).toEqual(["AVA was skipped."]);
  });

  it("wears the marks of its agent's branch only while that branch has work of it", () => {
    // Just given, or read and not begun: the branch has what was asked before.
    expect([null, "pending", "done"].map((state) => inHand(one, state as JobState | null))).toEqual([false, false, false]);
    expect(inHand(one, "active")).toBe(true);
    expect(inHand({ ...one, in_branch: true }, "done")).toBe(true);
    expect(inHand({ ...one, status: "done", in_branch: true }, null)).toBe(true);
    expect(inHand({ ...one, landed: "b5f12be0cafe" }, "done")).toBe(false);
    // Claimed by a session, nobody gave it.
    expect(inHand(task(2, { status: "in_progress", assignee: "AVA" }), null)).toBe(true);
  });
});
