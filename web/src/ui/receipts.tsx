/** What became of a message: the decision about it, and one receipt per agent. */

import { useState } from "preact/hooks";
import { api } from "../api";
import { requestOf } from "../state/permissions";
import { send } from "../state/outbox";
import { away, cycle, jobs, now, numberOf, receiptsOf } from "../state/room";
import { showEntry } from "../state/view";
import { receipt, span, type Tone } from "../text/format";
import { ref } from "../text/reference";
import type { Cycle, Decision, Entry, Job } from "../types";
import { attempt, hued, Icon, tell } from "./bits";
import { Lazy } from "./lazy";

const overrule = () => import("./overrule").then((all) => ({ default: all.Overrule }));

const GLYPH: Record<Tone, string> = {
  queued: "○",
  working: "◐",
  answered: "✓",
  failed: "↻",
  dead: "✕",
  skipped: "–",
  folded: "⤷",
};

function ReceiptChip({ job, deleted }: { job: Job; deleted: boolean }) {
  // Only what counts time follows the clock; the rest is drawn once.
  const ticking = job.state === "active" || job.state === "failed" || job.state === "pending";
  const read = receipt(job, ticking ? now.value : 0, folding, ticking ? away.value.find((one) => one.name === job.agent) : undefined, ticking ? requestOf(job.agent) : undefined);
  const answer = job.state === "done" ? job.answer_id : null;
  const body = (
    <>
      <span class="glyph" aria-hidden="true">{GLYPH[read.tone]}</span>
      <span class="who" style={hued(job.agent)}>{job.agent}</span>{" "}
      <span class="what">{read.label}</span>
    </>
  );
  return (
    <li class={`receipt receipt-${read.tone}`} data-testid="receipt" data-agent={job.agent} data-state={job.state}>
      {answer ? (
        <button type="button" class="receipt-main" data-tip={`${read.detail}. Click to go there.`} aria-description={`${read.detail}. Go there.`} onClick={() => void showEntry(answer)}>
          {body}
        </button>
      ) : (
        <span class="receipt-main" tabIndex={0} data-tip={read.detail} aria-label={read.detail} role="note">
          {body}
        </span>
      )}
      {!deleted && (job.state === "dead" || job.state === "failed" || job.state === "skipped") && (
        <button
          type="button"
          class="receipt-act"
          aria-label={`Retry ${job.agent} now`}
          data-tip="Try again now"
          onClick={() => void tell(api.retry(job.id))}
        >
          Retry
        </button>
      )}
      {job.state === "active" && (
        <button type="button" class="receipt-act" aria-label={`Cancel ${job.agent}'s turn`} data-tip={`End this turn, and remove what waits for ${job.agent}`} onClick={() => void attempt(api.agentDo(job.agent, "cancel"))}>
          Cancel
        </button>
      )}
    </li>
  );
}

/** What a decision says in words; `ask` = the agents that it named. */
const VERBS: Record<string, (ask: string) => string> = {
  route: (ask) => `routed to ${ask}`,
  absorb: () => "answered by the dispatcher",
  clarify: () => "asked back",
  off: () => "every active agent is asked",
  fallback: () => "every active agent is asked",
};

function words(decision: Partial<Decision>): string {
  const ask = decision.agents?.join(", ") ?? "";
  if (decision.by) return `${decision.by} chose ${ask}`;
  return VERBS[decision.action ?? ""]?.(ask) ?? decision.action ?? "";
}

/** The reason, without repeating what `words` says already. */
function because(decision: Partial<Decision>): string {
  if (decision.by) return "";
  return (decision.reason ?? "").replace(/: every active agent is asked$/, "");
}

/** "routed to CLAUDE: why, 420 ms", and the way to say otherwise. */
function DecisionChip({ entry, decision }: { entry: Entry; decision: Partial<Decision> }) {
  const [open, setOpen] = useState(false);
  const took = decision.took_ms === null || decision.took_ms === undefined ? "" : span(decision.took_ms);
  const why = because(decision);
  return (
    <div class="decision" data-testid="decision">
      <Icon name="route" size={13} />
      <span class="decision-text">
        <b>{words(decision)}</b>
        {why ? <span>: {why}</span> : null}
        {took ? <span>, {took}</span> : null}
      </span>
      <button type="button" class="receipt-act" aria-expanded={open} onClick={() => setOpen(!open)}>
        Overrule
      </button>
      {open && <Lazy load={overrule} given={{ id: entry.id, chosen: decision.agents ?? [], close: () => setOpen(false) }} over />}
    </div>
  );
}

const DECIDED = new Set(["routed", "absorbed", "clarified"]);
/** A command is answered by the room at once: no dispatcher, and no receipt unless it is not answered. */
const COMMAND = /^\/[a-z]+(?=[\s?]|$)/i;
/** Milliseconds in which a message that nobody took up yet counts as being decided about. */
const DECIDING = 60_000;

/** What has become of a message by live frames, or, for one that was read, by what stands in its meta. */
function standing(entry: Entry, live: Cycle | null, asked: readonly Job[]): { decision: Partial<Decision> | null; folded: string | null; deciding: boolean; held: boolean } {
  const decision = live && DECIDED.has(live.state) ? (live as Partial<Decision>) : (entry.meta.decision ?? null);
  const folded = live?.folded_into ?? entry.meta.folded_into ?? null;
  const open = entry.kind === "human" && !decision && !folded && !asked.length;
  const held = open && entry.meta.held === true;
  const asks = open && !held && !entry.meta.history && !entry.to.length && !entry.meta.told && !COMMAND.test(entry.body) && live === null;
  const deciding = live?.state === "routing" || (asks && now.value - Date.parse(entry.ts) < DECIDING);
  return { decision: decision?.action === "steward" ? null : decision, folded: decision || asked.length ? null : folded, deciding, held };
}

const folding = (job: number): number | null => numberOf(jobs.value.get(job)?.message_id ?? "");

/** Everything that stands below a message that asks. */
export function Receipts({ entry }: { entry: Entry }) {
  const all = receiptsOf(entry.id).value;
  const { decision, folded, deciding, held } = standing(entry, cycle(entry.id).value, all);
  const list = (COMMAND.test(entry.body) && !entry.meta.steer) || entry.meta.decision?.action === "steward" ? all.filter((job) => job.state !== "done") : all;
  // A person may have given it to an agent since (/route).
  const told = !decision && !all.length && !entry.meta.deleted && entry.meta.told;
  if (!list.length && (!decision || entry.meta.deleted) && !deciding && !folded && !held && !told) return null;
  return (
    <div class="outcome">
      {deciding && <span class="routing" data-testid="routing">deciding who answers…</span>}
      {told && <span class="decision" data-testid="told">for {told.join(", ")}; no agent is asked</span>}
      {decision && !entry.meta.deleted && <DecisionChip entry={entry} decision={decision} />}
      {folded && (
        <button type="button" class="receipt receipt-folded folded-note" data-testid="folded" onClick={() => void showEntry(folded)}>
          ⤷ folded into {numberOf(folded) ? ref("m", numberOf(folded)!) : "a later message"}
        </button>
      )}
      {held && (
        <span class="receipt receipt-held" data-testid="held">
          <span class="receipt-main" tabIndex={0} data-tip="The hop limit: agents can give each other work only a few times before a person agrees.">
            <span class="glyph" aria-hidden="true">‖</span> held back
          </span>
          <button type="button" class="receipt-act" onClick={() => send("/continue")}>Let them continue</button>
        </span>
      )}
      {list.length > 0 && (
        <ul class="receipts" aria-label="Receipts">
          {list.map((job) => (
            <ReceiptChip key={job.id} job={job} deleted={!!entry.meta.deleted} />
          ))}
        </ul>
      )}
    </div>
  );
}
