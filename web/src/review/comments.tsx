/** A comment on lines: one that was sent, and one that is being written. */

import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api_views";
import { roomNow } from "../state/locks";
import { loadWorktrees } from "../state/worktrees";
import { showEntry } from "../state/view";
import { ago, full } from "../text/format";
import { tell } from "../ui/bits";
import { Who } from "../ui/proximity";
import type { Acts } from "./file";
import { saysSomething } from "./model";
import { dropDraft, putDraft } from "./state";
import type { Draft, Lines, SentComment } from "./types";

const span = (of: Lines, first = of.first): string => {
  const last = first + of.lines.length - 1;
  return `${first === last ? `line ${first}` : `lines ${first} to ${last}`}${of.side === "old" ? " as it was before" : ""}`;
};

function Block({ lines, kind }: { lines: readonly string[]; kind: "was" | "suggested" }) {
  return <pre class={`rv-block rv-block-${kind}`}>{lines.length ? lines.join("\n") : "(no line)"}</pre>;
}

/** What a comment suggests, with the lines that it would replace. */
function Suggestion({ comment, acts }: { comment: SentComment; acts: Acts }) {
  const [busy, setBusy] = useState(false);
  const { review } = acts;
  const order = async (undo: boolean): Promise<void> => {
    setBusy(true);
    await tell(api.applySuggestion(review.agent, comment.id, undo));
    await Promise.all([acts.again(), loadWorktrees()]);
    setBusy(false);
  };
  const why = !review.own ? "This checkout is not one that relay made." : review.working ? `${review.agent} is at work: wait for its turn to end.` : comment.stands === null && !comment.applied ? "Its lines have changed." : "";
  return (
    <div class="rv-suggestion">
      <Block lines={comment.lines} kind="was" />
      <Block lines={comment.suggestion!} kind="suggested" />
      <p class="rv-acts">
        {comment.applied ? (
          <>
            <span class="muted">Applied as <code>{comment.applied.slice(0, 9)}</code></span>
            <button type="button" class="button small" disabled={busy || review.working || !review.own} onClick={() => void order(true)} data-testid="take-back">Take it back</button>
          </>
        ) : (
          <button type="button" class="button small" disabled={busy || why !== ""} data-tip={why || "Commits these lines onto the branch, in your name"} onClick={() => void order(false)} data-testid="apply">Apply</button>
        )}
        {why && !comment.applied && <span class="muted">{why}</span>}
      </p>
    </div>
  );
}

export function SentCard({ comment, acts }: { comment: SentComment; acts: Acts }) {
  const outdated = comment.stands === null && !comment.applied && !comment.open;
  return (
    <article class={`rv-card ${outdated ? "rv-outdated" : ""}`} data-testid="sent-comment" data-id={comment.id} aria-label={`Comment ${comment.id} of ${comment.by}`}>
      <header>
        <Who name={comment.by} />
        <button type="button" class="link" onClick={() => void showEntry(String(comment.message))}>{comment.id}</button>
        <span class="muted">{outdated ? `${span(comment)} then` : span(comment, comment.stands ?? comment.first)}</span>
        <span class="muted" data-tip={full(comment.at)}>{ago(comment.at, roomNow.value)}</span>
        {outdated && <span class="tag tag-bad" data-testid="outdated" data-tip="The lines that it is about have changed since.">outdated</span>}
      </header>
      {outdated && comment.suggestion === null && <Block lines={comment.lines} kind="was" />}
      {comment.text && <p class="rv-text">{comment.text}</p>}
      {comment.suggestion !== null && <Suggestion comment={comment} acts={acts} />}
    </article>
  );
}

/** Each letter is kept. `onGrow`: take one more line in, above or below. */
export function DraftCard({ draft, focus, onGrow }: { draft: Draft; focus: boolean; onGrow?: ((above: boolean) => void) | undefined }) {
  const [open, setOpen] = useState(focus || !saysSomething(draft));
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => { if (open && focus) field.current?.focus(); }, [open, focus]);
  const lines = useRef<HTMLTextAreaElement>(null);
  // Who opens the field goes on in it, and does not press the page's keys.
  const [opened, setOpened] = useState(0);
  useEffect(() => { if (opened) lines.current?.focus(); }, [opened]);
  const suggest = (): void => {
    const none = draft.suggestion === null;
    putDraft({ ...draft, suggestion: none ? draft.lines.join("\n") : null });
    if (none) setOpened(opened + 1);
  };
  const done = (): void => (saysSomething(draft) ? setOpen(false) : dropDraft(draft.id));
  const keys = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" && !(event.key === "Enter" && (event.ctrlKey || event.metaKey))) return;
    event.preventDefault();
    event.stopPropagation();
    // The field goes: the focus stays on its line, from where the keys lead on.
    const file = field.current?.closest(".rv-file");
    done();
    // Without its draft the line is drawn anew.
    requestAnimationFrame(() => file?.querySelector<HTMLElement>(`.rv-plus[data-side="${draft.side}"][data-line="${draft.last}"]`)?.focus());
  };
  const name = `draft-${draft.id}`;
  return (
    <article class="rv-card rv-draft" data-testid="draft" aria-label={`Comment on ${span(draft)}, not sent`}>
      <header><b>Not sent</b> <span class="muted">{span(draft)}</span></header>
      {!open && draft.text && <p class="rv-text">{draft.text}</p>}
      {!open && draft.suggestion !== null && <><Block lines={draft.lines} kind="was" /><Block lines={draft.suggestion === "" ? [] : draft.suggestion.split("\n")} kind="suggested" /></>}
      {open && (
        <>
          <label class="offscreen" for={name}>Comment on {span(draft)}</label>
          <textarea id={name} ref={field} rows={3} value={draft.text} placeholder="What should be different here?" onInput={(event) => putDraft({ ...draft, text: event.currentTarget.value })} onKeyDown={keys} data-testid="draft-text" />
          {draft.side === "new" && <button type="button" class="link" aria-expanded={draft.suggestion !== null} onClick={suggest} data-testid="suggest">{draft.suggestion === null ? "Suggest other lines" : "Suggest nothing"}</button>}
          {draft.suggestion !== null && <textarea class="rv-code" ref={lines} aria-label="The suggested lines" rows={Math.min(16, draft.suggestion.split("\n").length + 1)} value={draft.suggestion} onInput={(event) => putDraft({ ...draft, suggestion: event.currentTarget.value })} onKeyDown={keys} spellcheck={false} data-testid="suggestion" />}
        </>
      )}
      <p class="rv-acts">
        {open ? <button type="button" class="button small primary" onClick={done} data-testid="draft-done">Keep</button> : <button type="button" class="button small" onClick={() => setOpen(true)}>Change</button>}
        <button type="button" class="button small" onClick={() => dropDraft(draft.id)} data-testid="draft-drop">Remove</button>
        {open && onGrow && (
          <>
            <button type="button" class="link" onClick={() => onGrow(true)} data-testid="line-above">With the line above</button>
            <button type="button" class="link" onClick={() => onGrow(false)} data-testid="line-below">With the line below</button>
          </>
        )}
      </p>
    </article>
  );
}
