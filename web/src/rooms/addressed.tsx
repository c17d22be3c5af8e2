/** Whom a text that is written names, besides agents that answer. Comes as a file of its own. */

import "../style/visitors.css";

import { personName } from "../state/prefs";
import { agents, away, now, people, timeline } from "../state/room";
import { visitors } from "../state/visitors";
import { waiting } from "../text/fleet";
import { Who } from "../ui/proximity";

function named<T extends { name: string }>(text: string, among: readonly T[]): T[] {
  if (!among.length || !text.includes("@") || text.startsWith("/")) return [];
  const words = new Set(text.replace(/```[\s\S]*?(```|$)|`[^`]*`/g, " ").match(/(?<![\w.@/])@[\w.-]+/g)?.map((word) => word.slice(1).replace(/[.-]+$/, "").toUpperCase()));
  return among.filter((one) => words.has(one.name.toUpperCase()));
}

/** The other people of the room. One who is not here has spoken. */
function others(): string[] {
  const spoke = timeline.value.entries.flatMap((entry) => (entry.kind === "human" ? entry.speaker : []));
  return [...new Set([...people.value, ...spoke])].filter((name) => name !== personName.value);
}

/** What the room does for the people, the visitors and the agents out of reach that a text names. */
export function Addressed({ text }: { text: string }) {
  const its = named(text, visitors.value);
  const gone = named(text, away.value);
  const asked = named(text, [{ name: "all" }, ...agents.value, ...visitors.value]).length > 0;
  const told = asked ? [] : named(text, others().map((name) => ({ name })));
  return (
    <>
      {gone.length > 0 && <p class="composer-note" role="status" data-testid="composer-away">{waiting(gone, now.value)}</p>}
      {told.length > 0 && <p class="composer-note" role="status" data-testid="composer-told">for {told.map((one) => one.name).join(", ")}; no agent is asked</p>}
      {its.length > 0 && (
        <p class="composer-note" role="status" data-testid="composer-note">
          <span>{its.map((one, i) => <span key={one.name}>{i > 0 && ", "}<Who name={one.name} /></span>)} {its.length === 1 ? "works on its own, and the room cannot start it: it reads this when it next looks at the room" : "work on their own, and the room cannot start them: they read this when they next look at the room"}{its.every((one) => !one.alive) && ", should it come back"}.</span>
        </p>
      )}
    </>
  );
}
