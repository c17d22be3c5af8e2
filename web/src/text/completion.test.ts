import { describe, expect, it } from "vitest";
import type { Task } from "../types";
import { complete, usage, type Words } from "./completion";

const task = (number: number, status: Task["status"]): Task => ({
  id: `t${number}`, number, title: `title ${number}`, status, badge: null, assignee: null, created_by: "ann", created_at: null, updated_at: null, priority: 0,
});
const words: Words = {
  agents: [{ name: "CLAUDE", help: "" }, { name: "CODEX", help: "" }],
  commands: [
    { name: "/move", usage: "/move #<id> <status>", help: "" },
    { name: "/moveall", usage: "/moveall <status>", help: "" },
    { name: "/who", usage: "/who", help: "" },
  ],
  tasks: [task(1, "done"), task(12, "pending"), task(13, "in_progress")],
};

/** The text with | where the caret is -> what is offered. */
function offered(text: string): string[] {
  const caret = text.indexOf("|");
  return complete(text.replace("|", ""), caret, words)?.choices.map((c) => c.insert) ?? [];
}

describe("completion", () => {
  it.each([
    ["@|", ["@CLAUDE ", "@CODEX ", "@all "]],
    ["@c|", ["@CLAUDE ", "@CODEX "]],
    ["hi @cod| there", ["@CODEX "]],
    ["(@a|", ["@all "]],
    ["ann@c|", []],
    ["`@c|", []],
    ["```\n@c|", []],
    ["```\nx\n```\n@cl|", ["@CLAUDE "]],
    ["@zz|", []],
    ["/m|", ["/move ", "/moveall "]],
    ["/w|", ["/who"]],
    ["say /m|", []],
    ["/move |", ["#12 ", "#13 "]],
    ["/move #13|", ["#13 "]],
    ["/move #13 |", ["pending", "in_progress", "done"]],
    ["/moveall d|", ["done"]],
    ["/moveall done|", []],
  ])("%s", (text, expected) => expect(offered(text)).toEqual(expected));

  it("replaces only the typed piece", () => {
    const found = complete("hi @cod there", 7, words)!;
    expect([found.from, found.to]).toEqual([3, 7]);
  });

  it("shows the usage of a whole command only", () => {
    expect(usage("/move #1", words.commands)?.name).toBe("/move");
    expect(usage("/mov", words.commands)).toBeNull();
  });
});
