import { describe, expect, it } from "vitest";
import { complete, usage, type Words } from "../src/text/completion";
import { ago, amount, bytes, counted, fullOptions, instant, moment, receipt, span } from "../src/text/format";
import { inOneLine, plainLine } from "../src/text/markdown";
import { readRef } from "../src/text/reference";
import type { Task } from "../src/coordination_types";
import type { Job } from "../src/types";

const task = (number: number, status: Task["status"]): Task => ({
  id: String(number), number, title: `t${number}`, status, badge: null, assignee: null, created_by: "ann",
  created_at: null, updated_at: null, priority: null,
});
const words: Words = {
  agents: [{ name: "CLAUDE", help: "" }, { name: "CODEX", help: "" }],
  commands: [
    { name: "/move", usage: "/move #<id> <pending|in_progress|done>", help: "" },
    { name: "/moveall", usage: "/moveall <pending|in_progress|done>", help: "" },
    { name: "/tasks", usage: "/tasks", help: "" },
  ],
  tasks: [task(1, "pending"), task(2, "done"), task(12, "in_progress")],
};

describe("completion", () => {
  it.each([
    ["@c", ["@CLAUDE ", "@CODEX "]],
    ["ask @co", ["@CODEX "]],
    ["(@a", ["@all "]],
    ["/mo", ["/move ", "/moveall "]],
    ["/tasks", ["/tasks"]],
    ["/move ", ["t1 ", "t12 "]],
    ["/move t1", ["t1 ", "t12 "]],
    ["/move #12", ["t12 "]],
    ["/move t12 d", ["done"]],
    ["/move #12 d", ["done"]],
    ["/moveall ", ["pending", "in_progress", "done"]],
  ])("%j offers %j", (text, inserts) => {
    expect(complete(text, text.length, words)?.choices.map((c) => c.insert)).toEqual(inserts);
  });

  it.each(["ann@co", "`@co", "```\n@co", "hello /mo", "@nobody", "plain"])("%j offers nothing", (text) => {
    expect(complete(text, text.length, words)).toBeNull();
  });

  it("looks at the caret, not at the end", () => {
    expect(complete("@co and more", 3, words)).toMatchObject({ from: 0, to: 3 });
  });

  it("knows the usage of a whole command", () => {
    expect(usage("/move #1", words.commands)?.name).toBe("/move");
    expect(usage("/mov", words.commands)).toBeNull();
  });
});

describe("words for figures", () => {
  it.each([[420, "420 ms"], [5300, "5 s"], [83_000, "1:23"], [3_960_000, "1 h 06"], [-5, "0 ms"]])("%d ms is %s", (ms, text) =>
    expect(span(ms)).toBe(text));
  it.each([[999, "999 B"], [1500, "1.5 kB"], [2_500_000, "2.5 MB"]])("%d bytes are %s", (count, text) => expect(bytes(count)).toBe(text));
  it.each([[1.5, "1.50"], [1234, "1.2k"], [45_000, "45k"], [2_000_000, "2.0M"]])("%d is %s", (count, text) => expect(amount(count)).toBe(text));
  it("reads both kinds of time", () => {
    expect(instant("2026-01-02T00:00:00Z")).toBe(1_767_312_000_000);
    expect(instant(1_767_312_000)).toBe(1_767_312_000_000);
    expect(instant(null)).toBeNull();
  });
  it.each([[3, "just now"], [42, "42 s ago"], [59.9, "59 s ago"], [60, "1 min ago"], [421, "7 min ago"], [3599, "59 min ago"], [3960, "1 h 06 ago"], [172_800, "2 d ago"]])("%d s past is %s", (s, text) =>
    expect(ago(100, (100 + s) * 1000)).toBe(text));
  it.each([[0, "0 files"], [1, "1 file"], [2000, "2,000 files"]])("%d is %s", (count, text) => expect(counted(count, "file")).toBe(text));
});

describe("references", () => {
  it.each([
    ["m14", "m", 14], ["#m14", "m", 14], ["#14", "m", 14], ["14", "m", 14], ["T3", "t", 3], ["#j7", "j", 7], ["p2", "p", 2], ["h12", "h", 12], ["#h12", "h", 12],
    ["v12", "v", 12], ["#a3", "a", 3], ["#task-3", "t", 3], ["job-4", "j", 4],
  ])("%s", (text, thing, number) => {
    expect(readRef(text)).toEqual({ thing, number });
  });
  it.each(["", "x14", "m", "14m", "m1234567890", "m1.5", "/m1"])("not %s", (text) => {
    expect(readRef(text)).toBeNull();
  });
  it("a bare number is what is meant there", () => {
    expect(readRef("#3", "t")).toEqual({ thing: "t", number: 3 });
  });
});

describe("times", () => {
  it("say the day where it is not today", () => {
    const now = new Date(2026, 10, 22, 14, 0).getTime();
    const at = (...when: [number, number, number, number, number]) => moment(new Date(...when).toISOString(), now);
    expect(at(2026, 10, 22, 14, 12)).toBe("14:12");
    expect(at(2026, 10, 23, 0, 1)).toBe("tomorrow 00:01");
    expect(at(2026, 10, 21, 23, 59)).toBe("yesterday 23:59");
    expect(at(2026, 10, 25, 9, 0)).toMatch(/25.*09:00/);
    expect(at(2027, 0, 2, 9, 0)).toMatch(/2027.*09:00/);
  });
});

describe("receipts", () => {
  const job: Job = {
    id: 7, message_id: "m", agent: "CODEX", state: "pending", attempts: 0, reason: null, error_class: null, created_at: null,
    not_before: null, started_at: null, ended_at: null, answer_id: null, folded_into: null,
  };
  const read = (more: Partial<Job>) => receipt({ ...job, ...more }, 100_000, (id) => (id === 3 ? 33 : null));
  it.each([
    [{}, "queued", "queued"],
    [{ state: "active", started_at: 60, attempts: 1 }, "working", "working 40 s"],
    [{ state: "active", started_at: 99.9, attempts: 1 }, "working", "working 1 s"],
    [{ state: "done", attempts: 1 }, "answered", "answered"],
    [{ state: "done", folded_into: 3 }, "answered", "answered with m33"],
    [{ state: "failed", not_before: 110, reason: "it broke" }, "failed", "retry in 10 s"],
    [{ state: "dead", attempts: 3, error_class: "crash" }, "dead", "failed"],
    [{ state: "skipped", reason: "circuit open; `/resume`" }, "skipped", "skipped: circuit open; /resume"],
  ] as [Partial<Job>, string, string][])("%j", (more, tone, label) => expect(read(more)).toMatchObject({ tone, label }));
  it("tells the reason to who asks", () => {
    expect(read({ state: "dead", attempts: 3, error_class: "crash" }).detail).toBe("CODEX failed for good after 3 attempts: crashed");
  });
});

it.each(["en-US", "en-GB", "de"])("the time of a day has 24 hours in %s", (locale) => {
  const options = fullOptions;
  expect(new Intl.DateTimeFormat(locale, { ...options, timeZone: "UTC" }).format(Date.UTC(2026, 10, 23, 21, 5, 9))).toContain("21:05:09");
});

describe("plain lines", () => {
  it("name what Markdown shows or links, and say that an entry was deleted", () => {
    expect(plainLine("![cart.png](relay-file:0011.png) **Now** [said](https://a.b/c) [x]")).toBe("cart.png Now said [x]");
    expect(inOneLine({ body: "", meta: { deleted: { at: "" } } }, 20)).toBe("deleted");
    expect(inOneLine({ body: "as it was", meta: {} }, 20)).toBe("as it was");
    expect(inOneLine({ body: "/steer @BEN No, books are net.", meta: {} }, 40)).toBe("No, books are net.");
    expect(inOneLine({ body: "/review @AVA 1 comment on `tw/ann/ava` at 7894a34:\n\n1. Why a list?", meta: {} }, 60)).toBe("1 comment on your branch: 1. Why a list?");
    expect(inOneLine({ body: "/give t1 @BEN", meta: {} }, 40)).toBe("/give t1 @BEN");
  });
});
