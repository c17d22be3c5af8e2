/** The stretch of time that is looked at, and the marks on its axis. Pure; times in milliseconds. */

export interface Stretch {
  from: number;
  to: number;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
export const SHORTEST = 2 * SECOND;
export const LONGEST = 20 * 365 * DAY;

export const length = (view: Stretch): number => view.to - view.from;
export const xOf = (view: Stretch, at: number, width: number): number => ((at - view.from) / length(view)) * width;
export const timeAt = (view: Stretch, x: number, width: number): number => view.from + (x / width) * length(view);

/** All of it, with a margin. */
export function whole(span: Stretch | null, now: number): Stretch {
  if (!span) return { from: now - HOUR, to: now };
  const margin = Math.max((span.to - span.from) * 0.04, SHORTEST);
  return { from: span.from - margin, to: span.to + margin };
}

/** `factor` < 1 is nearer; what is at `at` stays where it is. */
export function zoomed(view: Stretch, factor: number, at: number): Stretch {
  const wanted = Math.min(LONGEST, Math.max(SHORTEST, length(view) * factor));
  const part = (at - view.from) / length(view);
  const from = at - part * wanted;
  return { from, to: from + wanted };
}

/** Moved by a part of its length. It never leaves all that there is behind. */
export function moved(view: Stretch, part: number, span: Stretch | null): Stretch {
  let by = part * length(view);
  if (span) by = Math.max(span.from - view.to + length(view) * 0.1, Math.min(span.to - view.from - length(view) * 0.1, by));
  return { from: view.from + by, to: view.to + by };
}

/** Moved, where needed, so that a time is within it; no farther than it must where the time is near. */
export function around(view: Stretch, at: number): Stretch {
  const margin = length(view) * 0.08;
  if (at >= view.from + margin && at <= view.to - margin) return view;
  const near = at > view.from - length(view) && at < view.to + length(view);
  const part = !near ? 0.5 : at < view.from + margin ? 0.08 : 0.92;
  return { from: at - part * length(view), to: at + (1 - part) * length(view) };
}

const STEPS = [100, 200, 500, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY];
const MONTHS = [1, 2, 3, 6, 12, 24, 60];

export interface Tick {
  at: number;
  label: string;
  /** A day or a month begins: it says which. */
  strong: boolean;
}

const timeFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const secondFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const dayFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const monthFormat = new Intl.DateTimeFormat(undefined, { month: "short", year: "numeric" });

/** The ticks of a view, no nearer to each other than `apart` pixels. By this machine's time zone. */
export function ticks(view: Stretch, width: number, apart = 92): Tick[] {
  const least = (length(view) / Math.max(1, width)) * apart;
  const step = STEPS.find((ms) => ms >= least);
  return step === undefined ? monthTicks(view, least) : step >= DAY ? dayTicks(view, step / DAY) : clockTicks(view, step);
}

function clockTicks(view: Stretch, step: number): Tick[] {
  const found: Tick[] = [];
  const midnight = new Date(view.from).setHours(0, 0, 0, 0);
  for (let at = midnight + Math.ceil((view.from - midnight) / step) * step; at <= view.to; at += step) {
    const date = new Date(at);
    const strong = date.getHours() === 0 && at % MINUTE === 0 && date.getMinutes() === 0;
    const label = strong ? dayFormat.format(at) : step < SECOND ? `${secondFormat.format(at)}.${Math.floor((at % SECOND) / 100)}` : step < MINUTE ? secondFormat.format(at) : timeFormat.format(at);
    found.push({ at, label, strong });
  }
  return found;
}

function dayTicks(view: Stretch, days: number): Tick[] {
  const found: Tick[] = [];
  const date = new Date(view.from);
  date.setHours(0, 0, 0, 0);
  // The same days, wherever the view begins.
  for (let number = Math.round((date.getTime() - date.getTimezoneOffset() * MINUTE) / DAY); number % days; number++) date.setDate(date.getDate() + 1);
  for (; date.getTime() <= view.to; date.setDate(date.getDate() + days)) {
    const strong = date.getDate() <= days;
    if (date.getTime() >= view.from) found.push({ at: date.getTime(), label: dayFormat.format(date), strong });
  }
  return found;
}

function monthTicks(view: Stretch, least: number): Tick[] {
  const step = MONTHS.find((months) => months * 30 * DAY >= least) ?? 120;
  const found: Tick[] = [];
  const date = new Date(view.from);
  const month = Math.floor((date.getFullYear() * 12 + date.getMonth()) / step) * step;
  for (let k = month; ; k += step) {
    const at = new Date(Math.floor(k / 12), k % 12, 1).getTime();
    if (at > view.to) return found;
    if (at >= view.from) found.push({ at, label: monthFormat.format(at), strong: k % 12 === 0 });
  }
}

/** How long the view is, in words: "3 h", "12 days". */
export function lengthWords(view: Stretch): string {
  const ms = length(view);
  const [unit, name] = ([[365 * DAY, "year"], [30 * DAY, "month"], [DAY, "day"], [HOUR, "hour"], [MINUTE, "minute"], [SECOND, "second"]] as const).find(([size]) => ms >= 1.5 * size) ?? [SECOND, "second"];
  const count = Math.round(ms / unit);
  return `${count} ${name}${count === 1 ? "" : "s"}`;
}
