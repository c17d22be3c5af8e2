import { describe, expect, it } from "vitest";
import { aboutTasks, changed, ordered, remarks, waitsFor } from "../src/state/board";
import type { Task } from "../src/coordination_types";

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
