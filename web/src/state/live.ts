/**
 * The live line: one WebSocket that resumes where the last one stopped.
 *
 * A connection is dropped and made anew with the last applied cursor when the server says it lagged, when the
 * machine slept, when the network comes back, or when it just breaks; so there is no gap, and `arrive` in
 * timeline.ts drops what comes twice.
 */

import { signal } from "@preact/signals";
import { ApiError, whenAnswered } from "../api";
import type { Frame } from "../types";
import { personName, refuseName } from "./prefs";
import { say } from "./said";
import { applyFrames, lastCursor, loaded, refresh, room } from "./room";

export type Line =
  | { state: "connecting"; attempt: number }
  | { state: "live" }
  | { state: "offline"; retryAt: number; attempt: number };

export const line = signal<Line>({ state: "connecting", attempt: 0 });
/** The relay is there, and cut off from the room's database: since when (milliseconds), and what it says. */
export const cutOff = signal<{ since: number; why: string; fix: string } | null>(null);
/** The daemon runs another version than this page was made for. */
export const outdated = signal(false);

const BAD_FIRST_FRAME = 4400;
const UNKNOWN_CURSOR = 4404;
/** Milliseconds between two attempts, at most: a room that is back is found within this. */
const LONGEST_WAIT = 3000;

let socket: WebSocket | null = null;
let attempt = 0;
let retry: ReturnType<typeof setTimeout> | undefined;
let waiting: Frame[] = [];
let flushing: ReturnType<typeof setTimeout> | undefined;
let stopped = true;
let lastBeat = Date.now();
const whenLive: (() => void)[] = [];

export function onLive(callback: () => void): void {
  whenLive.push(callback);
}

// Whatever the room answers to, it is there: no countdown stands beside it.
whenAnswered(() => {
  if (line.value.state !== "offline" || trying || stopped || socket !== null) return;
  clearTimeout(retry);
  void reconnect();
});

function flush(): void {
  flushing = undefined;
  const frames = waiting;
  waiting = [];
  applyFrames(frames);
}

function receive(frame: Frame, from: WebSocket): void {
  if (frame.type === "lagging") {
    if (flushing !== undefined) clearTimeout(flushing);
    flush();
    from.close();
    attempt = 0;
    lost(from, 0);
    return;
  }
  if (frame.type === "hello") {
    attempt = 0;
    cutOff.value = null;
    line.value = { state: "live" };
    if (room.value && frame.data.version !== room.value.version) outdated.value = true;
    for (const callback of whenLive) callback();
    return;
  }
  waiting.push(frame);
  flushing ??= setTimeout(flush, 16);
}

function lost(from: WebSocket, delay?: number): void {
  if (socket !== from || stopped) return;
  socket = null;
  attempt += 1;
  const wait = delay ?? Math.min(LONGEST_WAIT, 400 * 2 ** (attempt - 1)) * (0.7 + Math.random() * 0.6);
  line.value = wait < 50 ? { state: "connecting", attempt } : { state: "offline", retryAt: Date.now() + wait, attempt };
  clearTimeout(retry);
  retry = setTimeout(() => void reconnect(), wait);
}

/** What a failed look at the room says of why: an answer that never came says nothing new. */
export function seeCut(problem: unknown): void {
  if (!(problem instanceof ApiError) || problem.code === "slow") return;
  cutOff.value = problem.cutOff ? { since: cutOff.value?.since ?? Date.now(), why: problem.message, fix: problem.fix } : null;
}

let was = "";
line.subscribe(({ state }) => {
  if (state === "connecting" || state === was) return;
  if (was) say(state === "live" ? "Connected to the room again." : "The connection to the room is lost.");
  was = state;
});

let trying = false;

/** Reads the state first: it tells a lost session (401) from a lost daemon. */
async function reconnect(): Promise<void> {
  if (stopped || trying) return;
  trying = true;
  line.value = { state: "connecting", attempt };
  try {
    await refresh();
  } catch (problem) {
    if (problem instanceof ApiError && problem.status === 401) return;
    seeCut(problem);
  } finally {
    trying = false;
  }
  if (!stopped && socket === null) open();
}

function open(): void {
  line.value = { state: "connecting", attempt };
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const opened = new WebSocket(`${scheme}://${location.host}/ws`);
  socket = opened;
  const name = personName.value;
  opened.onopen = () => opened.send(JSON.stringify({ after: lastCursor(), ...(name && { name }) }));
  opened.onmessage = (message: MessageEvent<string>) => {
    if (socket === opened) receive(JSON.parse(message.data) as Frame, opened);
  };
  opened.onclose = (event) => {
    if (socket !== opened || stopped) return;
    // Another room is at this address now (its database was removed): nothing held here belongs to it.
    if (event.code === UNKNOWN_CURSOR) return location.reload();
    if (event.code !== BAD_FIRST_FRAME || !name) return lost(opened);
    lost(opened, 0);
    refuseName(name, `${name} is the name of an agent or of the room here.`);
  };
}

export function connect(): void {
  stopped = false;
  attempt = 0;
  if (socket === null) open();
}

export function disconnect(): void {
  stopped = true;
  clearTimeout(retry);
  const old = socket;
  socket = null;
  old?.close();
}

/** Try at once: the reader asked, or the network or the machine came back. */
export function reconnectNow(): void {
  if (stopped || !loaded.value) return;
  clearTimeout(retry);
  const old = socket;
  socket = null;
  old?.close();
  attempt = 0;
  void reconnect();
}

// Who is here goes by the name of the first frame: another name takes another connection.
personName.subscribe(() => reconnectNow());

addEventListener("online", reconnectNow);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && line.value.state === "offline") reconnectNow();
});
// A timer that comes far too late means that the machine slept: the old socket may hang half-open.
setInterval(() => {
  const late = Date.now() - lastBeat > 30_000;
  lastBeat = Date.now();
  if (late && !document.hidden) reconnectNow();
}, 5000);

