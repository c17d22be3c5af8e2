/** One entry of the transcript, and what is not an entry yet: the outgoing and the streaming. */

import { Component } from "preact";
import { aboutTasks } from "../state/board";
import { askedIn } from "../state/handoffs";
import { discard, sendAgain, type Outgoing } from "../state/outbox";
import { requestOf } from "../state/permissions";
import { copyText, personName } from "../state/prefs";
import { entryNow, entryOf, type Stream } from "../state/room";
import { inOneLine } from "../text/markdown";
import { callComposer, replyTo, showEntry } from "../state/view";
import { amount, clock, full } from "../text/format";
import { ref } from "../text/reference";
import { EntryActions, EntryText, Replies } from "../rooms/row";
import type { Entry, Usage } from "../types";
import { Avatar, hued, Icon, IconButton, toast } from "./bits";
import { Lazy } from "./lazy";
import { Markdown } from "./markdown";
import { Changed } from "./proximity";
import { Receipts } from "./receipts";
import { VERIFIED } from "../text/verified";

const advisoryEntry = () => import("./advisory").then((all) => ({ default: all.AdvisoryEntry }));
const noticeOf = () => import("./verified").then((all) => ({ default: all.NoticeOf }));
const conflictAsked = () => import("./conflict_asked").then((all) => ({ default: all.ConflictAsked }));
const requestOver = () => import("./permissions").then((all) => ({ default: all.RequestOver }));
const steer = () => import("./steer").then((all) => ({ default: all.Steer }));
const heardList = () => import("./steer").then((all) => ({ default: all.HeardList }));
const handoffAnswers = () => import("./handoff_answers").then((all) => ({ default: all.HandoffAnswers }));
const wasGiven = () => import("../memory/given").then((all) => ({ default: all.WasGiven }));

const ROLE: Record<string, string> = { agent: "agent", dispatcher: "dispatcher", system: "room", advisory: "advisory", human: "" };

/** Entries of one speaker within five minutes stand together. */
export function continues(previous: Entry | undefined, entry: Entry): boolean {
  return (
    previous !== undefined &&
    previous.speaker === entry.speaker &&
    previous.kind === entry.kind &&
    !entry.in_reply_to === !previous.in_reply_to &&
    !previous.meta.unverified === !entry.meta.unverified &&
    Math.abs(Date.parse(entry.ts) - Date.parse(previous.ts)) < 300_000
  );
}

function Quote({ id }: { id: string }) {
  const quoted = entryNow(id);
  return (
    <button type="button" class="quote" onClick={() => void showEntry(id)} data-testid="quote" style={quoted ? hued(quoted.speaker) : undefined}>
      <Icon name="reply" size={12} />
      {quoted ? (
        <>
          <b>{quoted.speaker}</b>
          <span>{inOneLine(quoted, 110) || "(empty)"}</span>
        </>
      ) : (
        <span>an earlier message</span>
      )}
    </button>
  );
}

/** Below the newest message of the room that asks about a handoff. */
function HandoffAsked({ entry }: { entry: string }) {
  const number = askedIn.value.get(entry);
  return number === undefined ? null : <Lazy load={handoffAnswers} given={{ number }} over />;
}

/** An agent's answer that directly follows the question needs no quote to be understood. */
function needsQuote(entry: Entry, previous: Entry | undefined): boolean {
  return entry.in_reply_to !== null && !(previous && previous.id === entry.in_reply_to);
}

/** What counts for a budget of tokens. */
function counted(usage: Usage): number {
  return (usage.input_tokens ?? 0) + (usage.cache_write_tokens ?? 0) + (usage.output_tokens ?? 0);
}

/** The kinds of tokens of an answer, where they are known apart. */
function kinds(usage: Usage): string | undefined {
  if (usage.cache_read_tokens === undefined) return undefined;
  return `New input ${amount(usage.input_tokens ?? 0)}, cache writes ${amount(usage.cache_write_tokens ?? 0)}, output ${amount(usage.output_tokens ?? 0)}. Not counted: cache reads ${amount(usage.cache_read_tokens)}.`;
}

function Footer({ entry }: { entry: Entry }) {
  const { footer, usage, tools, truncated, notice } = entry.meta;
  // A notice says in its text what went wrong.
  const error = notice ? null : entry.meta.error;
  const chips = footer
    ? ([["Decision", footer.decision], ["Owner", footer.owner], ["Blockers", footer.blockers]] as const).filter(([, v]) => v)
    : [];
  const cost = usage
    ? [
        counted(usage) || usage.cache_read_tokens ? `${amount(counted(usage))} tokens` : "",
        usage.cost_usd ? `$${usage.cost_usd.toFixed(usage.cost_usd < 0.1 ? 3 : 2)}` : "",
      ].filter(Boolean)
    : [];
  if (!chips.length && !cost.length && !tools?.length && !truncated && !error) return null;
  return (
    <div class="footer">
      {chips.map(([name, value]) => (
        <span key={name} class={`chip chip-${name.toLowerCase()} ${/^(none|-)$/i.test(value!) ? "chip-none" : ""}`} data-testid="footer-chip">
          <i>{name}</i> {value}
        </span>
      ))}
      {truncated && <span class="chip chip-warn">cut off: output was over the limit</span>}
      {error ? <span class="chip chip-warn">{typeof error === "string" ? error : "not done"}</span> : null}
      {tools && tools.length > 0 && (
        <details class="tools">
          <summary>{tools.length === 1 ? "1 tool use" : `${tools.length} tool uses`}</summary>
          <ol>{tools.map((tool, i) => <li key={i}>{tool}</li>)}</ol>
        </details>
      )}
      {cost.length > 0 && <span class="cost" data-tip={usage && kinds(usage)} tabIndex={usage && kinds(usage) ? 0 : undefined}>{cost.join(" · ")}</span>}
    </div>
  );
}

async function copyLink(entry: Entry): Promise<void> {
  const done = await copyText(`${location.origin}${location.pathname}#${ref("m", entry.number)}`);
  history.replaceState(null, "", `#${ref("m", entry.number)}`);
  toast(done ? `Link to ${ref("m", entry.number)} copied.` : `The link is in the address bar now.`);
}

/** The line `[DECISION: .. | ..]` at the end is shown as chips, so it is not repeated. */
function withoutFooter(entry: Entry): string {
  if (!entry.meta.footer) return entry.body;
  return entry.body.replace(/\n\s*\[\s*DECISION\s*:[^\n]*\]\s*$/i, "") || entry.body;
}

export function answer(entry: Entry): void {
  replyTo.value = entry;
  callComposer();
}

interface EntryProps {
  entry: Entry;
  previous: Entry | undefined;
  lit: boolean;
  /** It is the one that the reader went to. */
  found: boolean;
}

/** An entry is drawn anew only when what it is given changes. */
export class EntryRow extends Component<EntryProps> {
  override shouldComponentUpdate(next: EntryProps): boolean {
    const now = this.props;
    return next.entry !== now.entry || next.previous !== now.previous || next.lit !== now.lit || next.found !== now.found;
  }

  override render() {
    return <Row {...this.props} />;
  }
}

function Row({ entry, previous, lit, found }: EntryProps) {
  const together = continues(previous, entry);
  const mine = entry.kind === "human" && entry.speaker === personName.value;
  const marks = [
    entry.meta.unverified ? ["unverified", "Written directly into the transcript file. Anyone with a shell can do that, so the name is not verified."] : null,
    entry.meta.history ? ["history", "It was in the transcript before the room started. Nobody was asked to answer it."] : null,
  ].filter((m) => m !== null);
  return (
    <article
      class={`entry kind-${entry.kind} ${together ? "together" : ""} ${lit ? "lit" : ""} ${found ? "found" : ""} ${mine ? "mine" : ""} ${entry.meta.history ? "is-history" : ""}`}
      id={`e-${entry.id}`}
      data-testid="entry"
      data-number={entry.number}
      aria-current={found || undefined}
      tabIndex={-1}
      aria-label={`${entry.speaker}, ${clock(entry.ts)}`}
      style={hued(entry.speaker)}
    >
      <div class="gutter">
        {together ? <time class="time" dateTime={entry.ts}>{clock(entry.ts)}</time> : <Avatar name={entry.speaker} kind={entry.kind} />}
      </div>
      <div class="content">
        {!together && (
          <header>
            <span class="speaker">{entry.speaker}</span>
            {ROLE[entry.kind] && !VERIFIED.has(entry.meta.notice ?? "") && <span class="role">{ROLE[entry.kind]}</span>}
            {marks.map(([name, why]) => (
              <span key={name} class={`mark mark-${name}`} tabIndex={0} data-tip={why} data-testid={`mark-${name}`}>{name}</span>
            ))}
            <a class="number" href={`#${ref("m", entry.number)}`} data-tip={full(entry.ts)} onClick={(event) => { event.preventDefault(); void copyLink(entry); }}>
              <time dateTime={entry.ts}>{clock(entry.ts)}</time>{" "}
              <span>{ref("m", entry.number)}</span>
            </a>
          </header>
        )}
        {needsQuote(entry, previous) && <Quote id={entry.in_reply_to!} />}
        <EntryText entry={entry}>{entry.kind === "advisory" ? <Lazy load={advisoryEntry} given={{ entry }} over meanwhile={<Markdown text={entry.body} own />} /> : <Markdown text={withoutFooter(entry)} numbers={aboutTasks(entry, entryOf(entry.in_reply_to ?? "")) ? "tasks" : "messages"} own={entry.kind === "system" && (VERIFIED.has(entry.meta.notice ?? String(entry.meta.command)) ? "rva" : "r")} />}</EntryText>
        {entry.meta.notice === "conflict" && entry.meta.conflict !== undefined && <Lazy load={conflictAsked} given={{ number: entry.meta.conflict }} over />}
        {entry.meta.request && <Lazy load={requestOver} given={{ id: entry.meta.permission! }} over />}
        {entry.meta.notice === "handoff" && <HandoffAsked entry={entry.id} />}
        {VERIFIED.has(entry.meta.notice ?? "") && <Lazy load={noticeOf} given={{ entry }} over />}
        <Changed entry={entry} />
        {entry.meta.heard && <Lazy load={heardList} given={{ heard: entry.meta.heard }} over />}
        <Footer entry={entry} />
        {entry.meta.memories?.length ? <Lazy load={wasGiven} given={{ entry }} over /> : null}
        <Receipts entry={entry} />
        <Replies entry={entry} />
      </div>
      <div class="entry-actions" role="group" aria-label="Entry actions">
        <IconButton icon="reply" label="Reply" keys="R" onClick={() => answer(entry)} />
        <EntryActions entry={entry} />
        <IconButton icon="copy" label="Copy text" onClick={() => void copyText(entry.body).then((ok) => ok && toast("Text copied."))} />
        <IconButton icon="link" label={`Copy link to ${ref("m", entry.number)}`} onClick={() => void copyLink(entry)} />
      </div>
    </article>
  );
}

export function StreamRow({ stream }: { stream: Stream }) {
  return (
    <article class="entry kind-agent streaming" data-testid="stream" style={hued(stream.agent)} aria-busy="true" aria-label={`${stream.agent} is answering`}>
      <div class="gutter"><Avatar name={stream.agent} kind="agent" /></div>
      <div class="content">
        <header>
          <span class="speaker">{stream.agent}</span>
          <span class="role">agent</span>
          <span class="live">{requestOf(stream.agent) ? "asks you" : "answering"}</span>
        </header>
        {stream.from > 0 && <div class="tool-note">… the beginning was not seen here; the whole answer follows when it is done</div>}
        {/* Markdown from somewhere in the middle would be read wrongly: an open fence, half a table. */}
        {stream.text && (stream.from > 0 ? <div class="md md-rest">{stream.text}</div> : <Markdown text={stream.text} streaming />)}
        {stream.tool && <div class="tool-note">{stream.tool}</div>}
        {!stream.text && !stream.tool && <div class="tool-note">thinking…</div>}
        <Lazy load={steer} given={{ agent: stream.agent }} over />
      </div>
    </article>
  );
}

export function OutgoingRow({ item }: { item: Outgoing }) {
  const words = { sending: "sending…", waiting: "not sent yet: waiting for the room", sent: "sent", refused: item.problem ?? "refused" }[item.state];
  return (
    <article class={`entry kind-human mine outgoing outgoing-${item.state}`} data-testid="outgoing" data-state={item.state} style={hued(personName.value)}>
      <div class="gutter"><Avatar name={personName.value || "?"} kind="human" /></div>
      <div class="content">
        <header>
          <span class="speaker">{personName.value || "you"}</span>
          <span class="sending">{words}</span>
        </header>
        <Markdown text={item.body} />
        {item.state === "refused" && (
          <div class="outcome">
            <button type="button" class="button small" onClick={() => sendAgain(item.client_id)}>Send again</button>
            <button type="button" class="button small" onClick={() => { void copyText(item.body); discard(item.client_id); }}>Copy and discard</button>
          </div>
        )}
      </div>
    </article>
  );
}
