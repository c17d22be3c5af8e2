/** How near somebody is to others, in the small: chips, and advisories in the transcript. */

import "../style/advisory.css";

import { advisoryOf, isOpen, LEVEL_WORDS, linkKey } from "../state/airspace";
import { showAirspace } from "../state/view";
import type { Advisory } from "../airspace_types";
import type { Level } from "../basic_types";
import type { Entry } from "../types";
import { Icon } from "./bits";
import { Choices } from "./choices";
import { term } from "../text/terms";
import { Markdown } from "./markdown";
import { Who } from "./proximity";
import { explain, Term } from "./term";
import { VERIFIED } from "../text/verified";

const TERM_OF: Readonly<Record<Level, string | null>> = { clear: null, advisory: "ta", resolution: "ra" };

/** The level as a word and a shape, and only then as a colour. `inside` a button it is explained on hover alone: a
 * button holds no other. */
export function LevelChip({ level, inside = false }: { level: Level; inside?: boolean }) {
  const id = TERM_OF[level];
  const words = <>{id ? term(id).name : "clear"}<span class="offscreen"> {LEVEL_WORDS[level]}</span></>;
  return <span class={`level level-${level}`} data-level={level} data-tip={id && inside ? term(id).text : undefined}>{id && !inside ? <Term id={id}>{words}</Term> : words}</span>;
}

/** What the transcript says for an advisory: its level, who, one line, and the way to the evidence. */
export function AdvisoryEntry({ entry }: { entry: Entry }) {
  // What one means to do next, passed on to the others: one line, no advisory of its own.
  if (entry.meta.intent) return <div class="said-intent" data-testid="said-intent"><Markdown text={entry.body} /></div>;
  // What came of an agent's work is told to it like this, too.
  if (entry.meta.notice && VERIFIED.has(entry.meta.notice))
    return (
      <div class="said-advisory said-unknown" data-testid="said-notice">
        <p class="said-head">{entry.to.map((name) => <Who key={name} name={name} />)}</p>
        <Markdown text={entry.body} own="rva" />
      </div>
    );
  const one = advisoryOf(entry);
  // What was said then is in the entry; what it is now, in the advisory.
  const said = typeof entry.meta.advisory === "object" ? entry.meta.advisory : null;
  const level = entry.meta.level ?? said?.level ?? one?.level;
  const names = said?.agents ?? one?.agents ?? entry.to;
  const over = one?.opened_at !== undefined && !isOpen(one as Advisory) && level !== "clear";
  // What was offered then, as far as it still can be decided: as buttons, in the place of the commands' words.
  const can = one && isOpen(one as Advisory) ? (one as Advisory).actions : [];
  const acts = (entry.meta.actions ?? []).filter((each) => !can || can.some((now) => now.command === each.command));
  return (
    <div class={`said-advisory said-${level ?? "unknown"}`} data-testid="said-advisory">
      <p class="said-head">
        {level && <LevelChip level={level} />}
        {names.map((name, i) => <span key={name}>{i > 0 && <span class="muted">↔ </span>}<Who name={name} /></span>)}
        {over && <span class="muted">over</span>}
      </p>
      <Markdown text={acts.length ? entry.body.replace(/\n\nA person can say: [^\n]*$/, "") : entry.body} explain={explain} own />
      {acts.length > 0 && <Choices of={acts} />}
      <button type="button" class="button small" onClick={() => showAirspace(one?.id ? { advisory: one.id } : names.length > 1 ? { link: linkKey(names[0]!, names[1]!) } : null)} data-testid="show-in-airspace">
        <Icon name="airspace" size={14} /> Show in airspace
      </button>
    </div>
  );
}
