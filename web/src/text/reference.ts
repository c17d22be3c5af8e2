/**
 * How people write what the room numbers: `m14` a message, `t14` a task, `j14` a job, `p14` a request for permission,
 * `h14` a handoff, `r14` a memory, `c14` a conflict, `v14` a verification, `a14` an approval.
 *
 * Invariant: one function writes a reference and one reads it, as in `relay/model/references.py`. Pure.
 */

export type Thing = "m" | "t" | "j" | "p" | "h" | "r" | "c" | "v" | "a";

export interface Reference {
  thing: Thing;
  number: number;
}

export const THINGS: Record<Thing, string> = { m: "message", t: "task", j: "job", p: "request", h: "handoff", r: "memory", c: "conflict", v: "verification", a: "approval" };

export const ref = (thing: Thing, number: number): string => `${thing}${number}`;

/** What a text or an address means by it; null when it is none. `#14` is a message, unless `bare` says another thing.
 * `task-3` and `job-4` stand in addresses that were copied before. */
export function readRef(text: string, bare: Thing = "m"): Reference | null {
  const [, old, letter, number] = /^#?(?:(task|job)-|([mtjphrcva]))?(\d{1,9})$/i.exec(text.trim()) ?? [];
  if (!number) return null;
  return { thing: ((old?.[0] ?? letter)?.toLowerCase() as Thing | undefined) ?? bare, number: Number(number) };
}
