/** What kinds of needs are called, and what each opens. Pure. */

import type { IconName } from "../ui/bits";
import type { Need } from "../types";

interface Kind {
  name: string;
  icon: IconName;
  /** It keeps somebody from working, or is refused when nobody answers. */
  urgent?: boolean;
}

const KINDS: Readonly<Record<string, Kind>> = {
  collision: { name: "Collision", icon: "airspace", urgent: true },
  permission: { name: "Permission", icon: "key", urgent: true },
  approval: { name: "Approval", icon: "approve" },
  conflict: { name: "Conflict", icon: "merge", urgent: true },
  failed_agent: { name: "Failed agent", icon: "agents", urgent: true },
  budget: { name: "Budget spent", icon: "metrics" },
  unanswered: { name: "Not answered", icon: "queue" },
  task: { name: "Failed task", icon: "board" },
  answered: { name: "Done?", icon: "check" },
  question: { name: "Question", icon: "help" },
  silent: { name: "Silent", icon: "pause" },
  handoff: { name: "Handoff", icon: "right" },
  exploration: { name: "Variants", icon: "route" },
  held: { name: "Talk is held", icon: "stop" },
  main_fails: { name: "Tests fail", icon: "branch", urgent: true },
  not_landed: { name: "Did not land", icon: "landing" },
  settled: { name: "Settled", icon: "check" },
  setup_failed: { name: "Setup failed", icon: "branch" },
  app_ended: { name: "App ended", icon: "play" },
};
/** A kind of a newer room is shown all the same. */
export const kindOf = (need: Need): Kind => KINDS[need.kind] ?? { name: need.kind.replaceAll("_", " "), icon: "more" };

/** The word for the way to what it is about; "" = there is none. */
export function opens(need: Need): string {
  if (!need.ref) return "";
  const words: Readonly<Record<string, string>> = { collision: "Evidence", approval: "Difference", conflict: "Both sides", failed_agent: "Log", budget: "Agent", silent: "Log", permission: "Agent", main_fails: "Show log", not_landed: "Landing", settled: "Both sides", setup_failed: "Agent", app_ended: "Agent", exploration: "Compare", task: "Task", answered: "Task" };
  return words[need.kind] ?? "Show";
}

/** A need in the list; `gone`: it is settled, and keeps its place; `heir`: the need that stands for its task now; `past`: its actions that are no more, and keep theirs; `late`: it expires, so it came while the list stands still, below it. */
export interface Placed {
  need: Need;
  gone: boolean;
  heir?: Need;
  past?: ReadonlySet<string>;
  late?: boolean;
}

/** Is it decided without a person when its time is over? A spent budget is only free again then. */
export const expires = (need: Need): boolean => need.ends_at !== null && need.kind !== "budget";

/** The need as it is now, each button where it was: what a second click meets is what the first one met, or nothing. What is offered anew comes behind them only where none of them is left, since another row of buttons would move every card below. */
function still({ need: old, late }: Placed, need: Need): Placed {
  const now = new Map(need.actions.map((action) => [action.name, action]));
  const past = new Set(old.actions.flatMap(({ name }) => (now.has(name) ? [] : [name])));
  const added = past.size === old.actions.length ? need.actions : [];
  return { need: { ...need, actions: [...old.actions.map((action) => now.get(action.name) ?? action), ...added] }, gone: false, past, ...(late && { late }) };
}

/**
 * What is shown, behind what was shown before. `held`: a person is in the list, by pointer or by focus, so every card keeps
 * its place, and what is new is only counted, but what expires. What the person settles (`own`) keeps it under a pointer,
 * where the next card would meet a second click, and leaves at once where keys decide.
 */
export function merged(before: readonly Placed[], all: readonly Need[], held: "pointer" | "focus" | "", own: ReadonlySet<string>): { shown: readonly Placed[]; fresh: number } {
  const now = new Map(all.map((need) => [need.id, need]));
  const pointed = held === "pointer";
  const kept = before.flatMap((one): Placed[] => {
    const need = now.get(one.need.id);
    if (need) return [pointed ? still(one, need) : { need, gone: false, ...(one.late && { late: true }) }];
    const heir = one.need.kind === "answered" ? all.find((other) => other.tasks?.some(({ ref }) => ref === one.need.ref)) : undefined;
    return own.has(one.need.id) && !pointed ? [] : [{ need: one.need, gone: true, ...(heir && { heir }), ...(one.late && { late: true }) }];
  });
  if (!held || !kept.some((one) => !one.gone || (pointed && own.has(one.need.id)))) return { shown: all.map((need) => ({ need, gone: false })), fresh: 0 };
  const there = new Set(kept.map((one) => one.need.id));
  const fresh = all.filter((need) => !there.has(need.id));
  const late = fresh.filter(expires).map((need): Placed => ({ need, gone: false, late: true }));
  return { shown: [...kept, ...late], fresh: fresh.length - late.length };
}
