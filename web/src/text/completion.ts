/** What the composer offers while somebody types. Pure: text and caret in, choices out. */

import "../style/completion.css";

import type { Task } from "../coordination_types";
import type { Command } from "../types";
import { ref } from "./reference";

export interface Choice {
  /** What replaces the typed piece. */
  insert: string;
  label: string;
  help: string;
}

export interface Completion {
  kind: "mention" | "command" | "argument";
  from: number;
  to: number;
  choices: Choice[];
}

export interface Words {
  agents: readonly { name: string; help: string }[];
  commands: readonly Command[];
  tasks: readonly Task[];
}

const STATUSES = ["pending", "in_progress", "done"];

function starts(word: string, piece: string): boolean {
  return word.toLowerCase().startsWith(piece.toLowerCase());
}

export function complete(text: string, caret: number, words: Words): Completion | null {
  const before = text.slice(0, caret);
  const command = /^\/([\w-]*)$/.exec(before);
  if (command) {
    const choices = words.commands
      .filter((c) => starts(c.name.slice(1), command[1]!))
      .map((c) => ({ insert: `${c.name}${c.usage.trim() === c.name ? "" : " "}`, label: c.usage || c.name, help: c.help }));
    return choices.length ? { kind: "command", from: 0, to: caret, choices } : null;
  }
  const mention = /(^|[\s(,;:])@([\w-]*)$/.exec(before);
  if (mention && !insideCode(before)) {
    const piece = mention[2]!;
    const all = { name: "all", help: "every active agent" };
    const choices = [...words.agents, all]
      .filter((a) => starts(a.name, piece))
      .map((a) => ({ insert: `@${a.name} `, label: `@${a.name}`, help: a.help }));
    return choices.length ? { kind: "mention", from: caret - piece.length - 1, to: caret, choices } : null;
  }
  return argument(before, caret, words);
}

function argument(before: string, caret: number, words: Words): Completion | null {
  const status = /^\/(?:move\s+[#t]?\d+|moveall)\s+(\w*)$/.exec(before);
  if (status) {
    const piece = status[1]!;
    const choices = STATUSES.filter((s) => starts(s, piece) && s !== piece).map((s) => ({ insert: s, label: s, help: "" }));
    return choices.length ? { kind: "argument", from: caret - piece.length, to: caret, choices } : null;
  }
  const task = /^\/move\s+((?:#|t)?\d*)$/i.exec(before);
  if (task) {
    const piece = task[1]!;
    const choices = words.tasks
      .filter((t) => t.status !== "done" && ref("t", t.number).startsWith(`t${piece.replace(/^[#t]/i, "")}`))
      .slice(0, 8)
      .map((t) => ({ insert: `${ref("t", t.number)} `, label: ref("t", t.number), help: t.title }));
    return choices.length ? { kind: "argument", from: caret - piece.length, to: caret, choices } : null;
  }
  return null;
}

/** A mention in a code span or block is no mention, so none is offered there. */
function insideCode(before: string): boolean {
  if ((before.match(/```/g)?.length ?? 0) % 2 === 1) return true;
  const line = before.slice(before.lastIndexOf("\n") + 1).replace(/```/g, "");
  return (line.match(/`/g)?.length ?? 0) % 2 === 1;
}

/** The usage line of the command that is being typed, once its name is complete. */
export function usage(text: string, commands: readonly Command[]): Command | null {
  const name = /^(\/[\w-]+)/.exec(text)?.[1];
  return (name && commands.find((c) => c.name === name)) || null;
}
