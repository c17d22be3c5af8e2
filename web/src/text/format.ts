/** Words for times, sizes and receipts. Pure; `now` is always given, in milliseconds. */

import type { Time } from "../basic_types";
import type { Agent, Job, PermissionRequest } from "../types";
import { ref } from "./reference";

/** ISO 8601 text or Unix seconds -> milliseconds, or null. */
export function instant(time: Time | undefined): number | null {
  if (time === null || time === undefined || time === "" || time === 0) return null;
  if (typeof time === "number") return time * 1000;
  const parsed = /^\d+(\.\d+)?$/.test(time) ? Number(time) * 1000 : Date.parse(time);
  return Number.isNaN(parsed) ? null : parsed;
}

const clockFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const dayFormat = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
export const fullOptions: Intl.DateTimeFormatOptions = { dateStyle: "full", timeStyle: "medium", hourCycle: "h23" };
const fullFormat = new Intl.DateTimeFormat(undefined, fullOptions);

export function clock(time: Time): string {
  const at = instant(time);
  return at === null ? "" : clockFormat.format(at);
}

const dateFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

/** A time with its day where that is not today: "14:12", "tomorrow 14:12", "25 Nov 14:12". */
export function moment(time: Time, now: number): string {
  const at = instant(time);
  if (at === null) return "";
  const days = Math.round((new Date(at).setHours(0, 0, 0, 0) - new Date(now).setHours(0, 0, 0, 0)) / 86_400_000);
  const year = new Date(at).getFullYear() === new Date(now).getFullYear() ? "" : ` ${new Date(at).getFullYear()}`;
  const day = { "0": "", "1": "tomorrow ", "-1": "yesterday " }[String(days)] ?? `${dateFormat.format(at)}${year} `;
  return day + clockFormat.format(at);
}

export function full(time: Time): string {
  const at = instant(time);
  return at === null ? "" : fullFormat.format(at);
}

/** A key that is equal within one local day. */
export function dayKey(time: Time): string {
  const at = instant(time);
  return at === null ? "" : new Date(at).toDateString();
}

export function dayName(time: Time, now: number): string {
  const at = instant(time);
  if (at === null) return "";
  const day = new Date(at).toDateString();
  if (day === new Date(now).toDateString()) return "Today";
  if (day === new Date(now - 86_400_000).toDateString()) return "Yesterday";
  const year = new Date(at).getFullYear();
  return dayFormat.format(at) + (year === new Date(now).getFullYear() ? "" : ` ${year}`);
}

/** 420 -> "420 ms", 5_300 -> "5 s", 83_000 -> "1:23", 4_000_000 -> "1 h 06". */
export function span(ms: number): string {
  if (ms < 0) ms = 0;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")}`;
  return `${Math.floor(s / 86_400)} d`;
}

/** A time that goes on, which is read by the second: never "936 ms". */
export const lasting = (ms: number): string => span(Math.max(1000, ms));

/** "just now", "42 s ago", "7 min ago", "1 h 06 ago": minutes alone, since "7:01 ago" reads as a time of the day. */
export function ago(time: Time, now: number): string {
  const at = instant(time);
  if (at === null) return "";
  const ms = now - at;
  if (ms < 5000) return "just now";
  return ms >= 60_000 && ms < 3_600_000 ? `${Math.floor(ms / 60_000)} min ago` : `${span(ms)} ago`;
}

/** (1, "file") -> "1 file", (2_000, "file") -> "2,000 files". */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

export function bytes(count: number): string {
  if (count < 1000) return `${count} B`;
  if (count < 1_000_000) return `${(count / 1000).toFixed(count < 10_000 ? 1 : 0)} kB`;
  return `${(count / 1_000_000).toFixed(1)} MB`;
}

export function amount(count: number): string {
  if (count >= 1_000_000) return `${(count / 1_000_000).toFixed(1)}M`;
  if (count >= 10_000) return `${Math.round(count / 1000)}k`;
  if (count >= 1000) return `${(count / 1000).toFixed(1)}k`;
  return Number.isInteger(count) ? String(count) : count.toFixed(2);
}

export type Tone = "queued" | "working" | "answered" | "failed" | "dead" | "skipped" | "folded";

export interface Receipt {
  tone: Tone;
  /** What stands beside the agent's name. */
  label: string;
  /** The whole story, for hover and for readers of the screen. */
  detail: string;
}

const CLASS_WORDS: Record<string, string> = {
  not_installed: "not installed",
  not_signed_in: "not signed in",
  rate_limit: "rate limited",
  timeout: "timed out",
  crash: "crashed",
  empty: "gave an empty answer",
  cancelled: "cancelled",
};

/** "heard after Bash" */
const heardAfter = (job: Job): string => (job.heard_after ? `heard after ${job.heard_after.split(":")[0]}` : "heard in the turn");

/** "asks you 1:57": how long there still is for an answer. */
export const asksYou = (request: PermissionRequest, now: number): string => `asks you ${lasting((instant(request.deadline_at) ?? now) - now)}`;

/** One (message, agent) as people read it. `number` is the room number of the message that a job is about, if known;
 * `away` its agent where that one's machine cannot be reached; `asks`: what its agent asks a person now. */
export function receipt(job: Job, now: number, number: (job: number) => number | null, away?: Agent, asks?: PermissionRequest): Receipt {
  const cause = job.reason?.replace(/`/g, "") || (job.error_class ? (CLASS_WORDS[job.error_class] ?? job.error_class) : "");
  const attempts = job.attempts > 1 ? `, attempt ${job.attempts}` : "";
  const started = instant(job.started_at);
  const due = instant(job.not_before);
  const into = job.folded_into === null ? null : number(job.folded_into);
  const heard = job.heard_at ? `, ${heardAfter(job)}` : "";
  const together = job.folded_into === null ? "" : ` together with ${into ? ref("m", into) : "another message"}`;
  if (away && (job.state === "pending" || job.state === "failed" || job.state === "active")) {
    const why = `${away.absence} since ${moment(away.heard_at ?? null, now)}`;
    if (job.state === "active") return { tone: "queued", label: `cut off with ${away.member}`, detail: `${job.agent} was working on it: ${why}. It goes on when ${away.member} is back.` };
    return { tone: "queued", label: `waits for ${away.member}`, detail: `${job.agent} is away: ${why}. This waits until ${away.member} is back${attempts}.` };
  }
  switch (job.state) {
    case "pending": {
      const wait = due !== null && due > now + 900 ? `, not before ${span(due - now)} from now` : "";
      return { tone: "queued", label: "queued", detail: `Queued for ${job.agent}${attempts}${wait}${cause ? `. ${cause}` : ""}` };
    }
    case "active": {
      if (heard) return { tone: "working", label: heardAfter(job), detail: `${job.agent} answers it with its turn${heard}` };
      if (asks) return { tone: "working", label: asksYou(asks, now), detail: `${job.agent} asks: ${asks.title || asks.tool}. A person decides.` };
      const elapsed = started === null ? "" : ` ${lasting(now - started)}`;
      return { tone: "working", label: `working${elapsed}`, detail: `${job.agent} is working${elapsed ? ` for${elapsed}` : ""}${attempts}` };
    }
    case "done": {
      const ended = instant(job.ended_at);
      const took = started !== null && ended !== null ? ` in ${span(ended - started)}` : "";
      return { tone: "answered", label: together ? `answered with ${into ? ref("m", into) : "another"}` : "answered", detail: `${job.agent} answered${together}${took}${attempts}${heard}` };
    }
    case "failed": {
      const again = due === null ? "will be retried" : due > now ? `retry in ${span(due - now)}` : "retrying";
      return { tone: "failed", label: again, detail: `${job.agent} failed${attempts}${cause ? `: ${cause}` : ""}. Will be retried.` };
    }
    case "dead":
      return { tone: "dead", label: "failed", detail: `${job.agent} failed for good after ${job.attempts} attempts${cause ? `: ${cause}` : ""}` };
    case "skipped":
      return { tone: "skipped", label: cause ? `skipped: ${cause}` : "skipped", detail: `${job.agent} did not answer${cause ? `: ${cause}` : ""}` };
  }
}
