import { describe, expect, it } from "vitest";
import type { Job } from "../types";
import { amount, bytes, hue, instant, receipt, span } from "./format";

const NOW = Date.parse("2026-01-01T12:00:00Z");
const job = (changes: Partial<Job>): Job => ({
  id: 1, message_id: "m", agent: "CLAUDE", state: "pending", attempts: 1, reason: null, error_class: null, created_at: null, not_before: null,
  started_at: null, ended_at: null, answer_id: null, folded_into: null, ...changes,
});

describe("times and sizes", () => {
  it.each([[0, "0 ms"], [420, "420 ms"], [5300, "5 s"], [83_000, "1:23"], [3_960_000, "1 h 06"], [200_000_000, "2 d"], [-5, "0 ms"]])(
    "span %d", (ms, words) => expect(span(ms)).toBe(words));
  it.each([["2026-01-01T12:00:00Z", NOW], [NOW / 1000, NOW], [String(NOW / 1000), NOW], [null, null], ["", null], ["nonsense", null]])(
    "instant %s", (time, ms) => expect(instant(time)).toBe(ms));
  it.each([[12, "12 B"], [1500, "1.5 kB"], [50_000, "50 kB"], [1_048_576, "1.0 MB"]])("bytes %d", (n, words) => expect(bytes(n)).toBe(words));
  it.each([[8, "8"], [4.128, "4.13"], [1500, "1.5k"], [412_000, "412k"], [2_000_000, "2.0M"]])("amount %d", (n, words) => expect(amount(n)).toBe(words));
});

describe("receipts", () => {
  it.each([
    ["pending", {}, "queued", "queued"],
    ["active", { started_at: NOW / 1000 - 12 }, "working", "working 12 s"],
    ["done", {}, "answered", "answered"],
    ["done", { folded_into: 7 }, "answered", "answered with #70"],
    ["failed", { not_before: NOW / 1000 + 65 }, "failed", "retry in 1:05"],
    ["failed", {}, "failed", "will be retried"],
    ["dead", { reason: "crashed" }, "dead", "failed"],
    ["skipped", { reason: "breaker open" }, "skipped", "skipped: breaker open"],
    ["skipped", { error_class: "not_installed" }, "skipped", "skipped: not installed"],
  ] as const)("%s %o", (state, changes, tone, label) => {
    const read = receipt(job({ state, ...changes }), NOW, (n) => n * 10);
    expect([read.tone, read.label]).toEqual([tone, label]);
    expect(read.detail).toContain("CLAUDE");
  });
});

it("gives a name one hue, however it is written", () => {
  expect(hue("CLAUDE")).toBe(hue("claude"));
  expect(new Set(["ann", "ben", "mira", "CLAUDE", "CODEX", "GEMINI"].map(hue)).size).toBeGreaterThan(3);
});
