/**
 * What needs a person, in the room's order, each with its buttons.
 *
 * Invariants: a button does what its command does. What is done leaves the list, as the room says, and not before. While the
 * pointer moves over the list or the focus is in it, no card moves by what others do: what is new waits behind a button (what
 * expires stands below the list, and covers nothing of it), and what is settled keeps its place. Under a pointer that holds for one's own decisions too: a
 * second click at the same place decides nothing else. After a decision the focus is on a card, never on a button.
 */

import "../style/views.css";
import "../style/needs.css";
import "../style/worktrees.css";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { loadConflicts } from "../state/conflicts";
import { loadNeeds, needAt, needs, needsProblem } from "../state/needs";
import { roomNow } from "../state/locks";
import { agents, fleet } from "../state/room";
import { agentPanel, follow, overlay, show, showAirspace, taskOpen } from "../state/view";
import { readRef } from "../text/reference";
import { ago, counted, full, instant, lasting } from "../text/format";
import type { Need, NeedAction } from "../types";
import { api } from "../api_views";
import { printed } from "../state/worktrees";
import { attempt, Icon, tell, toast, Words } from "../ui/bits";
import { Who } from "../ui/proximity";
import { actOn, takeBack } from "./acting";
import { standing, wanted } from "./notify";
import { NotifyDialog } from "./notify_dialog";
import { expires, kindOf, merged, opens, type Placed } from "./words";

async function open(need: Need): Promise<void> {
  const at = need.ref!;
  if (need.kind === "collision") return showAirspace({ advisory: at });
  if (need.kind === "not_landed") return show("landing");
  if (need.kind === "exploration") return show("explore");
  if (agents.value.some((agent) => agent.name === at)) {
    agentPanel.value = at;
    return;
  }
  const task = readRef(at);
  if (await follow(at) && task?.thing === "t") taskOpen.value = task.number;
}

/** What was printed in an agent's worktree, where its row is. */
async function showOutput(agent: string): Promise<void> {
  show("worktrees");
  await attempt(api.worktreeRuns(agent).then((told) => { printed.value = told; }));
}

/** "AVA and BEN", each in its colour. */
function About({ names }: { names: string }) {
  return <>{names.split(" and ").map((name, i) => <span key={name}>{i > 0 && <span class="muted"> and </span>}<Who name={name} /></span>)}</>;
}

/** Gives what keeps the focus in the list, once its button is gone: on the same card, the next one, or the heading. Never on a button, which a second press of the key would decide. */
function keepFocus(card: HTMLElement): () => void {
  const view = card.closest("section")!;
  const at = [...view.querySelectorAll(".needs > li")].indexOf(card);
  const had = card.contains(document.activeElement);
  // Under a pointer nothing moves, so nothing is scrolled to either.
  const preventScroll = card.matches(":hover");
  return () => {
    const now = document.activeElement;
    if (!had || (now !== document.body && !card.contains(now))) return;
    const cards = [...view.querySelectorAll<HTMLElement>(".needs > li > article")];
    const next = [...cards.slice(at), ...cards.slice(0, at).reverse()].find((one) => !one.classList.contains("need-gone"));
    (next ?? view.querySelector("h2"))?.focus({ preventScroll });
  };
}

/** The keys of the list: j and k to the next card and the one before. */
function onKey(event: KeyboardEvent): void {
  const step = { j: 1, k: -1 }[event.key];
  if (!step || event.ctrlKey || event.metaKey || event.altKey || overlay.value !== "none" || document.querySelector("dialog[open]")) return;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test((event.target as HTMLElement).tagName)) return;
  const cards = [...document.querySelectorAll<HTMLElement>(".needs > li > article")];
  const at = cards.findIndex((card) => card.contains(document.activeElement));
  const next = cards[at < 0 ? (step > 0 ? 0 : cards.length - 1) : at + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

function Card({ need, gone, heir, past, late, own }: Placed & { own: Set<string> }) {
  const [busy, setBusy] = useState(false);
  const [asks, setAsks] = useState<NeedAction | null>(null);
  const [refused, setRefused] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  const place = useRef<HTMLLIElement>(null);
  /** Pixels that it took when it was decided: without its form it is smaller, and what stands below would move up. */
  const [high, setHigh] = useState(0);
  useEffect(() => field.current?.focus(), [asks]);
  const kind = kindOf(need);
  const run = async (action: NeedAction, text = ""): Promise<void> => {
    const backTo = keepFocus(place.current!);
    setBusy(true);
    setRefused("");
    own.add(need.id);
    const { said, done, undo, opens: next } = await actOn(need, action.name, text);
    setBusy(false);
    requestAnimationFrame(backTo);
    if (!done) {
      own.delete(need.id);
      return setRefused(said);
    }
    setHigh(place.current?.offsetHeight ?? 0);
    setAsks(null);
    if (next) await loadConflicts().then(() => follow(next));
    toast(said.replace(/`/g, "").split("\n")[0]!, undo ? { action: { label: "Undo", run: () => { own.delete(need.id); void tell(takeBack(undo)); } }, long: true } : {});
  };
  const ends = instant(need.ends_at);
  const way = opens(need);
  return (
    <li ref={place} class={late ? "need-late" : ""} style={gone && high ? { minHeight: `${high}px` } : undefined}>
      <article class={`need ${gone ? "need-gone" : kind.urgent ? "need-urgent" : ""}`} tabIndex={-1} data-testid={gone ? "need-gone" : "need"} data-need={need.id} data-kind={need.kind} aria-label={`${kind.name}: ${need.about}`} onKeyDown={(event) => { if (event.key === "Enter" && event.target === event.currentTarget && way) void open(need); }}>
        <header>
          <span class="need-kind"><Icon name={kind.icon} size={15} /> {kind.name}</span>
          <h3><About names={need.about} /></h3>
          <span class="muted need-at" data-tip={full(need.at)}>{gone ? (own.has(need.id) ? "done" : heir ? `now: ${kindOf(heir).name}` : "settled") : ago(need.at, roomNow.value)}</span>
        </header>
        <p class="need-text"><Words text={need.text} /></p>
        {refused && <p class="problem" role="alert"><Words text={refused} /></p>}
        {asks ? (
          <form class="need-form" onSubmit={(event) => { event.preventDefault(); const text = field.current!.value; if (text.trim()) void run(asks, text); }}>
            <label for={`need-${need.id}`}>{asks.label}: {asks.asks}</label>
            <textarea
              id={`need-${need.id}`}
              ref={field}
              rows={asks.name === "choice-4" ? 6 : 2}
              required
              data-testid="need-text"
              onKeyDown={(event) => {
                if (event.key === "Escape") { event.stopPropagation(); setAsks(null); }
                if (event.key === "Enter" && !event.shiftKey && asks.name !== "choice-4") { event.preventDefault(); event.currentTarget.form!.requestSubmit(); }
              }}
            />
            <div class="need-acts">
              <button type="submit" class="button small primary" disabled={busy || gone} data-testid="need-send">{asks.label}</button>
              <button type="button" class="button small" onClick={() => setAsks(null)}>Back</button>
            </div>
          </form>
        ) : (
          <div class="need-acts">
            {need.actions.map((action, i) => (
              <button key={action.name} type="button" class={`button small ${i === 0 && !kind.urgent ? "primary" : ""}`} disabled={busy || gone || past?.has(action.name)} data-tip={action.command} data-testid={`act-${action.name}`} onClick={() => (action.asks ? setAsks(action) : action.name === "output" ? void showOutput(need.ref!) : void run(action))}>
                {action.label}{action.asks ? "…" : ""}
              </button>
            ))}
            {way && <button type="button" class="link need-open" onClick={() => void open(need)} data-testid="need-open">{way}</button>}
            {ends !== null && need.kind === "permission" && <span class="muted need-ends">refused in {lasting(ends - roomNow.value)}</span>}
          </div>
        )}
      </article>
    </li>
  );
}

/** Milliseconds in which the pointer comes from the list to the button above it; and after which one that has not moved only rests there. */
const WAY = 400, RESTS = 15_000;

/** The list as it is shown, and what is new and not in it yet, which `bring` takes in. `over`: where the pointer holds the list. */
function useCalm(all: readonly Need[]): { shown: readonly Placed[]; fresh: number; own: Set<string>; over: Record<string, (event: PointerEvent) => void>; list: { current: HTMLDivElement | null }; bring: () => void } {
  const [over, setOver] = useState(false);
  const leaves = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const point = (here: boolean, event: PointerEvent): void => {
    // A finger leaves with each tap, and comes again to the same place.
    if (!here && event.pointerType === "touch") return;
    clearTimeout(leaves.current);
    if (here) setOver(true);
    leaves.current = setTimeout(() => setOver(false), here ? RESTS : WAY);
  };
  const [inside, setInside] = useState(false);
  const [, again] = useState(0);
  const own = useRef(new Set<string>());
  const before = useRef<readonly Placed[]>([]);
  const list = useRef<HTMLDivElement | null>(null);
  const brought = useRef(false);
  const look = (): void => {
    const at = document.activeElement;
    setInside(document.hasFocus() && !!at && (!!list.current?.contains(at) || at.classList.contains("needs-new")));
  };
  // Behind the event: where the focus goes, and whether what had it is still there, is known then.
  const later = (): void => void requestAnimationFrame(look);
  useEffect(() => {
    window.addEventListener("blur", later);
    window.addEventListener("focus", later);
    document.addEventListener("focusin", later);
    document.addEventListener("focusout", later);
    return () => {
      window.removeEventListener("blur", later);
      window.removeEventListener("focus", later);
      document.removeEventListener("focusin", later);
      document.removeEventListener("focusout", later);
    };
  }, []);
  useEffect(later, [all]);
  const { shown, fresh } = merged(before.current, all, over ? "pointer" : inside ? "focus" : "", own.current);
  useLayoutEffect(() => {
    before.current = shown;
    for (const id of own.current) if (!shown.some((one) => one.need.id === id)) own.current.delete(id);
    if (brought.current) list.current?.querySelector<HTMLElement>("article")?.focus();
    brought.current = false;
  });
  // A list that is gone is left by no pointer.
  useEffect(() => { if (!shown.length) setOver(false); }, [!shown.length]);
  const bring = (): void => {
    before.current = [];
    brought.current = true;
    again((count) => count + 1);
  };
  return { shown, fresh, own: own.current, over: { onPointerDown: (event) => point(true, event), onPointerMove: (event) => point(true, event), onPointerLeave: (event) => point(false, event) }, list, bring };
}

export default function NeedsView() {
  useEffect(() => {
    void loadNeeds();
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  const [asksHow, setAsksHow] = useState(false);
  const all = needs.value;
  const away = (fleet.value?.members ?? []).filter((member) => member.state === "away").map((member) => member.name);
  const { shown, fresh, own, over, list, bring } = useCalm(all);
  useEffect(() => {
    const card = needAt.value && document.querySelector<HTMLElement>(`[data-need="${CSS.escape(needAt.value)}"]`);
    if (!card) return;
    needAt.value = "";
    card.focus();
  }, [needAt.value, shown]);
  const told = wanted.value.size > 0 && standing.value === "granted";
  return (
    <section class="view needs-view" aria-label="Needs you" data-testid="needs-view">
      <header class="view-head" {...over}><h2 tabIndex={-1}>Needs you</h2><span class="muted">{all.length ? `${counted(all.length, "thing")}, ${expires(all[0]!) ? "what expires soon first" : "the newest first"}` : ""}</span>
        <span class="offscreen" role="status">{fresh > 0 ? `${fresh} new in the inbox` : ""}</span>
        {fresh > 0 && <button type="button" class="button small primary needs-new" onClick={bring} data-tip="The list stands still while you are in it." data-testid="needs-new">{fresh} new</button>}
        <button type="button" class="button small notify-open" onClick={() => setAsksHow(true)} aria-haspopup="dialog" data-on={told} data-testid="notify-open"><Icon name="bell" size={14} /> {told ? "Notifications are on" : wanted.value.size ? "Notifications are refused" : "Notify me"}</button>
      </header>
      {asksHow && <NotifyDialog onClose={() => setAsksHow(false)} />}
      <div class="needs-all" ref={list}>
        <div class="needs-body">
          {away.length > 0 && <p class="muted needs-away" role="status">{away.join(" and ")} cannot be reached: what agents there ask for, and whether they are silent, is not known.</p>}
          {needsProblem.value && <p class="problem" role="alert"><Words text={needsProblem.value} /></p>}
          {shown.length > 0 ? (
            <ul class="needs" {...over}>{shown.map((one) => !one.late && <Card key={one.need.id} {...one} own={own} />)}</ul>
          ) : !needsProblem.value && (
            <div class="empty" data-testid="needs-empty"><h2>Nothing needs you</h2><p>Collisions, questions, approvals and whatever else waits for a person come here, each with what you can do about it.</p></div>
          )}
        </div>
        {shown.some((one) => one.late) && <ul class="needs needs-late" aria-label="New, and it does not wait long" {...over}>{shown.map((one) => one.late && <Card key={one.need.id} {...one} own={own} />)}</ul>}
      </div>
    </section>
  );
}
