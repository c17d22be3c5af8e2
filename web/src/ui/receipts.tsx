/** What became of a message: the decision about it, and one receipt per agent. */

import { useState } from "preact/hooks";
import { api } from "../api";
import { cycle, now, numberOf, receiptsOf, workers } from "../state/room";
import { showEntry } from "../state/view";
import { receipt, span, type Tone } from "../text/format";
import type { Cycle, Decision, Entry, Job } from "../types";
import { attempt, hued, Icon, toast } from "./bits";

const GLYPH: Record<Tone, string> = {
  queued: "○",
  working: "◐",
  answered: "✓",
  failed: "↻",
  dead: "✕",
  skipped: "–",
  folded: "⤷",
};

function ReceiptChip({ job }: { job: Job }) {
  // Only what counts time follows the clock; the rest is drawn once.
  const ticking = job.state === "active" || job.state === "failed" || job.state === "pending";
  const read = receipt(job, ticking ? now.value : 0, numberOf);
  const answer = job.state === "done" ? job.answer_id : (job.folded_into ?? null);
  const body = (
    <>
      <span class="glyph" aria-hidden="true">{GLYPH[read.tone]}</span>
      <span class="who" style={hued(job.agent)}>{job.agent}</span>
      <span class="what">{read.label}</span>
    </>
  );
  return (
    <li class={`receipt receipt-${read.tone}`} data-testid="receipt" data-agent={job.agent} data-state={job.state}>
      {answer ? (
        <button type="button" class="receipt-main" data-tip={`${read.detail}. Click to go there.`} aria-label={`${read.detail}. Go there.`} onClick={() => void showEntry(answer)}>
          {body}
        </button>
      ) : (
        <span class="receipt-main" tabIndex={0} data-tip={read.detail} aria-label={read.detail} role="note">
          {body}
        </span>
      )}
      {(job.state === "dead" || job.state === "failed" || job.state === "skipped") && (
        <button
          type="button"
          class="receipt-act"
          aria-label={`Retry ${job.agent} now`}
          data-tip="Try again now"
          onClick={() => void attempt(api.retry(job.id)).then((ok) => ok && toast(`${job.agent} is asked again.`))}
        >
          Retry
        </button>
      )}
      {job.state === "active" && (
        <button type="button" class="receipt-act" aria-label={`Cancel ${job.agent}'s turn`} data-tip="End this turn" onClick={() => void attempt(api.agentDo(job.agent, "cancel"))}>
          Cancel
        </button>
      )}
    </li>
  );
}

const VERBS: Record<string, string> = {
  route: "routed to",
  routed: "routed to",
  absorb: "answered by the dispatcher",
  absorbed: "answered by the dispatcher",
  clarify: "asked back",
  clarified: "asked back",
};

function words(decision: Partial<Decision> & { state?: string }): string {
  const verb = VERBS[decision.action || decision.state || ""] ?? decision.action ?? "";
  const whom = decision.agents?.length && verb.endsWith("to") ? ` ${decision.agents.join(", ")}` : "";
  return verb + whom;
}

/** "routed to CLAUDE: why, 420 ms", and the way to say otherwise. */
function DecisionChip({ entry, decision, state }: { entry: Entry; decision: Partial<Decision>; state?: Cycle["state"] }) {
  const [open, setOpen] = useState(false);
  const [chosen, setChosen] = useState<string[]>([]);
  const took = decision.took_ms === null || decision.took_ms === undefined ? "" : span(decision.took_ms);
  return (
    <div class="decision" data-testid="decision">
      <Icon name="route" size={13} />
      <span class="decision-text">
        <b>{words({ ...decision, state })}</b>
        {decision.reason ? <span class="why">{decision.reason}</span> : null}
        {took ? <span class="took">{took}</span> : null}
      </span>
      <button type="button" class="receipt-act" aria-expanded={open} onClick={() => { setChosen(decision.agents ?? []); setOpen(!open); }}>
        Overrule
      </button>
      {open && (
        <form
          class="overrule"
          aria-label="Choose who answers"
          onKeyDown={(event) => event.key === "Escape" && setOpen(false)}
          onSubmit={(event) => {
            event.preventDefault();
            void attempt(api.route(entry.id, chosen)).then((ok) => ok && setOpen(false));
          }}
        >
          <span>Who should answer?</span>
          {workers.value.map((a) => (
            <label key={a.name} class="pick" style={hued(a.name)}>
              <input
                type="checkbox"
                checked={chosen.includes(a.name)}
                disabled={!a.installed}
                onChange={(event) => setChosen(event.currentTarget.checked ? [...chosen, a.name] : chosen.filter((n) => n !== a.name))}
              />
              {a.name}
            </label>
          ))}
          <button type="submit" class="button small primary" disabled={!chosen.length}>Route</button>
        </form>
      )}
    </div>
  );
}

/** Everything that stands below a person's message. */
export function Receipts({ entry }: { entry: Entry }) {
  const list = receiptsOf(entry.id).value;
  const state = cycle(entry.id).value;
  const decided = entry.meta.decision ?? (state && ["routed", "absorbed", "clarified"].includes(state.state) && state.action !== "mention" ? state : null);
  const routing = state?.state === "routing";
  const folded = state?.state === "folded" && state.folded_into ? state.folded_into : null;
  if (!list.length && !decided && !routing && !folded) return null;
  return (
    <div class="outcome">
      {routing && <span class="routing" data-testid="routing">deciding who answers…</span>}
      {decided && <DecisionChip entry={entry} decision={decided as Partial<Decision>} state={state?.state} />}
      {folded && !list.length && (
        <button type="button" class="receipt receipt-folded folded-note" onClick={() => void showEntry(folded)}>
          ⤷ folded into {numberOf(folded) ? `#${numberOf(folded)}` : "a later message"}
        </button>
      )}
      {list.length > 0 && (
        <ul class="receipts" aria-label="Receipts">
          {list.map((job) => (
            <ReceiptChip key={job.id} job={job} />
          ))}
        </ul>
      )}
    </div>
  );
}
