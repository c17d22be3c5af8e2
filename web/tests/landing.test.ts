import { describe, expect, it } from "vitest";
import type { Approval, Entry, Result, Verification } from "../src/landing/types";
import { byPolicy, deadline, decisionSaid, groups, isOver, lastLines, names, outcomeSaid, plain, policiesSaid, runNotes, stateSaid, testedBy, testsOf, tierWords, took, waitsFor } from "../src/landing/words";

const result = (more: Partial<Result>): Result => ({
  policy: "unit", attempt: 1, tier: 1, executor: "inline", state: "passed", reason: "", exit_code: 0, seconds: 2.04, output_bytes: 0, flaky: false,
  sandboxed: true, reused: null, url: null, began: null, ended: null, ...more,
});
const verification = (number: number, more: Partial<Verification> = {}): Verification => ({
  number, reference: `v${number}`, state: "running", tier: 1, decides: "unit", reason: "", source: "landing", agent: "AVA", asker: "ann", branch: "main",
  commit: null, base: null, tree: null, files: null, summary: "", task: null, about: {}, at: "2026-11-23T12:00:00Z", began: null, ended: null, results: [], ...more,
});
const entry = (number: number, agent: string, more: Partial<Entry> = {}): Entry => ({
  number, agent, asker: "ann", state: "waiting", branch: "b", at_commit: "c", policies: [], note: "", verification: null, task: null, commit: null, reason: "",
  output: "", at: "2026-11-23T12:00:00Z", began: null, ended: null, ...more,
});

describe("the queue", () => {
  const test = verification(4, { about: { part: "batch", entries: [3, 1], agents: ["CLEO", "AVA"] } });
  const queue = [entry(1, "AVA", { state: "testing", testing: test }), entry(2, "BEN"), entry(3, "CLEO", { state: "testing", testing: test })];
  it("has what is tested first, in the order in which it is merged", () => {
    expect(groups(queue).map((group) => [group.tested?.reference, ...group.entries.map((one) => one.agent)])).toEqual([["v4", "CLEO", "AVA"], [undefined, "BEN"]]);
    expect(groups([])).toEqual([]);
  });
  const nobody = (): undefined => undefined;
  it("says what each waits for", () => {
    expect(waitsFor(queue[1]!, queue, nobody)).toBe("until v4 is tested");
    expect(waitsFor(entry(2, "BEN"), [], nobody)).toBe("it is tested next");
    expect(waitsFor(entry(2, "BEN", { state: "asked" }), [], nobody)).toBe("its work is looked at next");
    expect(waitsFor(entry(2, "BEN", { state: "asked" }), queue, nobody)).toBe("until v4 is tested");
    expect(waitsFor(entry(2, "BEN", { note: "main fails by itself" }), queue, nobody)).toBe("main fails by itself");
  });
  it("says of a batch that failed that the others are tested without one", () => {
    const before = entry(2, "BEN", { verification: "v3" });
    expect(waitsFor(before, queue, () => "failed")).toBe("v3 failed with it: v4 tests the others without it");
    expect(waitsFor(before, [], () => "failed")).toBe("v3 failed with it, and it is tested again");
    expect(waitsFor(before, queue, () => "cancelled")).toBe("until v4 is tested");
  });
});

describe("what landed", () => {
  it("was tested only where its test passed", () => {
    const results = [result({ policy: "style", tier: 0, state: "failed" }), result({ attempt: 1, state: "failed" }), result({ attempt: 2, flaky: true })];
    expect(testedBy({ tested: true, results })).toEqual({ by: ["unit (flaky)"], beside: ["style failed"] });
    expect(testedBy({ tested: false, results })).toEqual({ by: [], beside: [] });
    expect(testedBy({})).toEqual({ by: [], beside: [] });
  });
});

describe("runs", () => {
  it("stand by tier, each policy's last attempt first", () => {
    const runs = [result({}), result({ policy: "style", tier: 0 }), result({ attempt: 2 }), result({ policy: "a", tier: 1 })];
    expect(byPolicy(runs).map((each) => each.map((one) => `${one.policy}${one.attempt}`))).toEqual([["a1"], ["unit2", "unit1"], ["style1"]]);
  });
  it.each([
    [{}, ["in a sandbox"]],
    [{ sandboxed: false, exit_code: 2, state: "failed" }, ["exit code 2", "without a sandbox"]],
    [{ sandboxed: null, executor: "manual", reason: "ann approved it" }, ["ann approved it"]],
    [{ attempt: 2, flaky: true, reason: "as the room says it" }, ["attempt 2", "flaky: it failed, and passed when it was run again", "in a sandbox"]],
    [{ state: "running" }, []],
  ] as [Partial<Result>, string[]][])("%j are told", (more, told) => expect(runNotes(result(more))).toEqual(told));
  it("say how long they took, and never of what was reused", () => {
    const now = Date.parse("2026-11-23T12:00:42Z");
    expect(took(result({}), now)).toBe("2.0 s");
    expect(took(result({ seconds: 83 }), now)).toBe("1:23");
    expect(took(result({ seconds: 0.042 }), now)).toBe("42 ms");
    expect(took(result({ reused: "v3" }), now)).toBe("");
    expect(took(result({ state: "running", began: "2026-11-23T12:00:00Z" }), now)).toBe("42 s");
    expect(took(result({ state: "queued", seconds: 0 }), now)).toBe("");
  });
  it("have a word and a sign for each state", () => {
    expect(outcomeSaid({ state: "timed_out" })).toEqual({ word: "took too long", sign: "✕", tone: "bad" });
    expect(outcomeSaid({ state: "error" }).word).toBe("could not run");
    expect([stateSaid("not_tested"), stateSaid("passed")].map((said) => `${said.sign} ${said.word}`)).toEqual(["– not tested", "✓ passed"]);
    expect((["queued", "running", "waiting", "passed", "cancelled"] as const).map((state) => isOver({ state }))).toEqual([false, false, false, true, true]);
    expect([tierWords(1), tierWords(9)]).toEqual(["tier 1, unit tests", "tier 9, other tests"]);
  });
});

describe("policies", () => {
  it.each([
    [{ policies: 0, merge_test: false, trouble: "" }, "no policies"],
    [{ policies: 1, merge_test: false, trouble: "" }, "1 policy"],
    [{ policies: 3, merge_test: true, trouble: "" }, "3 policies and the merge test"],
    [{ policies: 0, merge_test: true, trouble: "" }, "the merge test"],
    [{ policies: 0, merge_test: true, trouble: "a.yaml:1" }, "no policy can be used"],
  ])("%j", (of, said) => expect(policiesSaid(of)).toBe(said));
  it("names the tests of merged trees once", () => expect(testsOf(["unit tests", "merge.test"])).toEqual(["unit tests", "the merge test"]));
});

describe("approvals", () => {
  const asked = (more: Partial<Approval>) => decisionSaid({ state: "waiting", decided_by: null, reason: "", ...more });
  it("say who decided, and why", () => {
    expect(asked({})).toBe("waits for a person");
    expect(asked({ state: "approved", decided_by: "ann" })).toBe("ann approved it");
    expect(asked({ state: "rejected", decided_by: "ben", reason: "no tests" })).toBe("ben rejected it: no tests");
    expect(asked({ state: "expired", decided_by: "RELAY", reason: "nobody decided in time" })).toBe("nobody decided in time");
    expect(asked({ state: "withdrawn", reason: "it was put out" })).toBe("nobody is asked any more: it was put out");
  });
  it("say until when", () => {
    const now = new Date(2026, 10, 22, 14, 0).getTime();
    expect(deadline(new Date(2026, 10, 23, 14, 12).toISOString(), now)).toBe("until tomorrow 14:12, 1 d left");
    expect(deadline(new Date(2026, 10, 22, 13, 59).toISOString(), now)).toBe("its time is over");
  });
});

describe("output", () => {
  it("keeps its last whole lines", () => {
    expect(lastLines("a\nb\nc\n\n", 2)).toBe("b\nc");
    expect(lastLines("a long line\nnext\nlast", 9, 12)).toBe("next\nlast");
    expect(lastLines("", 2)).toBe("");
  });
  it("is text, whatever a terminal would make of it", () => {
    expect(plain("\u001b[32mok\u001b[0m\r\nhalf\rdone\u0007\tx")).toBe("ok\nhalf\ndone\tx");
  });
});

it("names several", () => {
  expect([[], ["A"], ["A", "B"], ["A", "B", "C"]].map(names)).toEqual(["", "A", "A and B", "A, B and C"]);
});
