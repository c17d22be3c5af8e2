/** Taking back, undoing and redoing: what it would do, then the button. The room plans it; the page shows its plan. */

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api_views";
import { onEntries } from "../state/room";
import { counted } from "../text/format";
import type { Rewound, RewindAction } from "../timeline_types";
import { Layer, toast, Words } from "../ui/bits";
import { Path } from "../ui/copyable";
import { problemOf } from "./answer";
import { Name } from "./name";
import { lanesOf, loadTakenBack, nameIn, readNow, set, table, taken, words } from "./state";

/** Take back what `name` did from the event `from` on. */
export interface WantedRewind {
  name: string;
  from: number;
  /** The event in words. */
  words: string;
}
type Wanted = { what: "rewind"; of: WantedRewind } | { what: "undo" | "redo" };

const wanted = signal<Wanted | null>(null);
export const startRewind = (of: WantedRewind): void => void (wanted.value = { what: "rewind", of });
export const startUndo = (what: "undo" | "redo"): void => void (wanted.value = { what });

/** Where it is done, as the room calls it; null = where the work stands. */
const PLACES: readonly { into: string | null; name: string; note: string }[] = [
  { into: null, name: "Where it stands", note: "Work that has landed goes to a new branch, the rest out of the agent's own worktree." },
  { into: "new", name: "New branch", note: "On a branch of its own. Nobody's files move." },
  { into: "worktree", name: "Worktree", note: "In the agent's own worktree." },
  { into: "main", name: "Main branch", note: "A commit on top of the main branch, and its checkout." },
];
const ACTIONS: Readonly<Record<RewindAction, { sign: string; name: string }>> = {
  restored: { sign: "↶", name: "as it was before" },
  deleted: { sign: "−", name: "deleted" },
  merged: { sign: "±", name: "others' lines stay" },
  kept: { sign: "=", name: "stays" },
  conflict: { sign: "!", name: "conflict, stays as it is" },
};

/** The moment right before an event, as the room takes it: the event before, or a time before all. */
function momentBefore(number: number): string {
  const before = table.before(number);
  if (before !== null) return `#${before}`;
  const place = table.find(number)!;
  return new Date(place.block.at[place.i]! - 1).toISOString();
}

function Affected({ plan }: { plan: Rewound }) {
  const byEvent = new Map<string, Rewound["invalidated"]>();
  for (const one of plan.invalidated) byEvent.set(one.event, [...(byEvent.get(one.event) ?? []), one]);
  return (
    <>
      <h3>{counted(plan.files.length, "file")}</h3>
      {plan.files.length === 0 && <p class="muted">No file would change.</p>}
      <ul class="tl-plan" data-testid="tl-plan">
        {plan.files.map((file) => (
          <li key={file.path} class={`tl-action-${file.action}`}><span aria-hidden="true">{ACTIONS[file.action].sign}</span><Path path={file.path} /><span class="muted">{ACTIONS[file.action].name}</span></li>
        ))}
      </ul>
      {plan.invalidated.length > 0 && (
        <>
          <h3>Others had built on it</h3>
          <ul class="tl-plan" data-testid="tl-invalidated">
            {[...byEvent].slice(0, 12).map(([event, all]) => {
              return <li key={event}><span aria-hidden="true">◦</span><span><Name name={nameIn(all[0]!.lane)} /> had read {all.slice(0, 3).map((one, i) => <span key={one.read}>{i > 0 && ", "}<Path path={one.read} /></span>)}{all.length > 3 && ` and ${all.length - 3} more`}</span><span class="muted">{event.slice(0, 8)}</span></li>;
            })}
            {byEvent.size > 12 && <li class="muted">and {byEvent.size - 12} more events</li>}
          </ul>
          <p class="muted">Their work stays. Look whether it still fits.</p>
        </>
      )}
      {(plan.left ?? []).length > 0 && <p class="notice">{counted(plan.left!.length, "event")} of it has not landed, and so stays.</p>}
      {plan.conflicts.length > 0 && <p class="notice notice-warn" role="alert" data-testid="tl-conflicts">{counted(plan.conflicts.length, "file")} cannot be taken apart by lines: others have changed the same. {plan.conflicts.length === 1 ? "It stays" : "They stay"} as {plan.conflicts.length === 1 ? "it is" : "they are"}.</p>}
    </>
  );
}

/** The last offer to take an operation of ours back: it ends with its click, and when the room would act on something else. */
let offer: { event: string; what: "undo" | "redo"; end: () => void } | null = null;

function endOffer(): void {
  offer?.end();
  offer = null;
}
function checkOffer(): void {
  if (offer && offer.event !== taken.peek()[offer.what]) endOffer();
}
taken.subscribe(checkOffer);
// Also while the timeline is not looked at.
onEntries(() => {
  if (offer) void loadTakenBack();
});

const TITLES = { rewind: "Take back", undo: "Undo", redo: "Redo" } as const;
const BUSY = { rewind: "Taking back…", undo: "Undoing…", redo: "Redoing…" } as const;

function says(what: Wanted["what"], done: Rewound): string {
  const files = done.files.filter((file) => file.before !== file.after).length;
  const where = done.branch ? ` on the branch ${done.branch}` : "";
  if (done.skipped) return `${done.skipped} The rewind of ${done.lane} counts as undone.`;
  if (what === "rewind") return `Taken back what ${done.lane} did, in ${counted(files, "file")}${where}.`;
  return what === "undo" ? `What ${done.lane} did is back, in ${counted(files, "file")}${where}.` : `Taken back again what ${done.lane} did, in ${counted(files, "file")}${where}.`;
}

function Dialog({ of: act }: { of: Wanted }) {
  const rewind = act.what === "rewind" ? act.of : null;
  const [into, setInto] = useState<string | null>(null);
  const [lane, setLane] = useState(rewind?.name ?? "");
  const [partial, setPartial] = useState(false);
  const [planned, setPlanned] = useState<{ of: string; plan: Rewound } | null>(null);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const lanes = rewind ? lanesOf(rewind.name) : [];
  // A plan of something else than what is chosen now is none.
  const chosen = `${lane} ${into} ${partial}`;
  const plan = planned?.of === chosen ? planned.plan : null;
  const request = (dry_run: boolean): Promise<Rewound> =>
    rewind ? api.rewind({ lane, to: momentBefore(rewind.from), into, dry_run, partial }) : api.undoRewind(act.what as "undo" | "redo", { dry_run, partial });
  const failed = (error: unknown): void => setProblem(problemOf(error));
  useEffect(() => {
    let gone = false;
    setPlanned(null);
    setProblem("");
    request(true).then((found) => { if (!gone) setPlanned({ of: chosen, plan: found }); }, (error: unknown) => { if (!gone) failed(error); });
    return () => { gone = true; };
  }, [chosen]);
  const close = (): void => void (wanted.value = null);
  const go = async (): Promise<void> => {
    setBusy(true);
    const before = words.value.event;
    try {
      const done = await request(false);
      if (done.rewind === null) return setPlanned({ of: chosen, plan: done }); // a conflict came up meanwhile, and nothing was written
      close();
      endOffer();
      const back = act.what === "undo" ? "redo" : "undo";
      const end = toast(says(act.what, done), { long: true, action: { label: back === "redo" ? "Redo" : "Undo", run: () => startUndo(back) } });
      await readNow();
      const event = back === "undo" ? done.rewind : done.event;
      if (event) offer = { event, what: back, end };
      checkOffer();
      const found = done.event ? await api.timelineEvent(done.event).catch(() => null) : null;
      // Who has opened another event meanwhile stays there.
      if (found && words.value.event === before) set({ event: String(found.number) });
    } catch (error) {
      failed(error);
    } finally {
      setBusy(false);
    }
  };
  const blocked = Boolean(plan && plan.conflicts.length && !partial);
  const changes = plan?.files.some((file) => file.before !== file.after) ?? false;
  const title = TITLES[act.what];
  return (
    <Layer label={title} class="merge-dialog tl-dialog" onClose={close} testid="tl-dialog">
      <h2>{rewind ? <>Take back what <Name name={rewind.name} /> did from here</> : act.what === "undo" ? `Undo what was taken back${plan ? ` of ${plan.lane}` : ""}` : `Take back again what was undone${plan ? ` of ${plan.lane}` : ""}`}</h2>
      {rewind && <p class="muted">From: {rewind.words}. What others did stays.</p>}
      {rewind && lanes.length > 1 && (
        <label class="tl-field"><span>Of</span>
          <select value={lane} onChange={(e) => setLane(e.currentTarget.value)} data-testid="tl-lane">
            <option value={rewind.name}>all that {rewind.name} did</option>
            {lanes.map((key) => <option key={key} value={key}>{`only ${key}`}</option>)}
          </select>
        </label>
      )}
      {rewind && (
        <div class="tl-where" role="radiogroup" aria-label="Where">
          {PLACES.map((place) => (
            <label key={place.name} data-tip={place.note}><input type="radio" name="tl-into" checked={into === place.into} onChange={() => setInto(place.into)} data-testid={`tl-into-${place.into ?? "auto"}`} /> {place.name}</label>
          ))}
        </div>
      )}
      {rewind && <p class="muted">{PLACES.find((place) => place.into === into)!.note}</p>}
      {problem && <p class="problem" role="alert" data-testid="tl-refused"><Words text={problem} /></p>}
      {!plan && !problem && <p class="muted" role="status">Looking at what that would do…</p>}
      {plan && <div class="tl-preview" data-testid="tl-preview">
        {plan.branch && <p>On the branch <code>{plan.branch}</code>.</p>}
        {plan.skipped && <p>{plan.skipped} It counts as undone, and the one before it is next.</p>}
        <Affected plan={plan} />
      </div>}
      {plan && plan.conflicts.length > 0 && <label class="tl-field"><input type="checkbox" checked={partial} onChange={(e) => setPartial(e.currentTarget.checked)} data-testid="tl-partial" /> Do the rest, and leave {plan.conflicts.length === 1 ? "this file" : "these files"}</label>}
      <div class="dialog-act">
        <button type="button" class="button" onClick={close}>Not now</button>
        <button type="button" class="button primary" disabled={busy || !plan || blocked || !(changes || act.what === "undo")} onClick={() => void go()} data-testid="tl-go">{busy ? BUSY[act.what] : title}</button>
      </div>
    </Layer>
  );
}

export function RewindDialog() {
  return wanted.value ? <Dialog of={wanted.value} /> : null;
}
