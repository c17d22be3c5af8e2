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
  not_landed: { name: "Did not land", icon: "landing" },
};
/** A kind of a newer room is shown all the same. */
export const kindOf = (need: Need): Kind => KINDS[need.kind] ?? { name: need.kind.replaceAll("_", " "), icon: "more" };

/** The word for the way to what it is about; "" = there is none. */
export function opens(need: Need): string {
  if (!need.ref) return "";
  const words: Readonly<Record<string, string>> = { collision: "Evidence", approval: "Difference", conflict: "Both sides", failed_agent: "Log", budget: "Agent", silent: "Log", permission: "Agent", not_landed: "Landing", exploration: "Compare", task: "Task", answered: "Task" };
  return words[need.kind] ?? "Show";
}
