/** Changing and deleting a message of one's own, and what it said before. Comes as a file of its own. */

import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api_views";
import { attempt, toast } from "../ui/bits";
import { Markdown } from "../ui/markdown";
import { clock, full } from "../text/format";
import { ref } from "../text/reference";
import type { Entry } from "../types";
import { deleting, editing } from "./changes";
import "../style/room_panels.css";

/** The row has the focus again, so that a keyboard goes on where it was. */
function back(entry: Entry): void {
  document.getElementById(`e-${entry.id}`)?.focus({ preventScroll: true });
}

export function EditBox({ entry }: { entry: Entry }) {
  const area = useRef<HTMLTextAreaElement>(null);
  const [text, setText] = useState(entry.body);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    area.current?.focus();
    area.current?.setSelectionRange(text.length, text.length);
  }, []);
  const close = (): void => {
    editing.value = null;
    back(entry);
  };
  const save = async (): Promise<void> => {
    if (!text.trim() || busy) return;
    if (text.trim() === entry.body.trim()) return close();
    setBusy(true);
    const done = await attempt(api.editMessage(entry.id, text).then((told) => toast(told.reason ?? "Edited.")));
    setBusy(false);
    if (done) close();
  };
  return (
    <form class="edit-box" aria-label={`Edit ${ref("m", entry.number)}`} onSubmit={(event) => { event.preventDefault(); void save(); }} data-testid="edit-box">
      <textarea
        ref={area}
        rows={Math.min(12, text.split("\n").length + 1)}
        value={text}
        aria-label="The new text"
        maxLength={1_000_000}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.isComposing) return;
          if (event.key === "Escape") { event.preventDefault(); event.stopPropagation(); close(); }
          if (event.key === "Enter" && !event.shiftKey && !event.altKey) { event.preventDefault(); void save(); }
        }}
      />
      <div class="edit-act">
        <button type="submit" class="button small primary" disabled={busy || !text.trim()} data-testid="edit-save">{busy ? "Saving…" : "Save"}</button>
        <button type="button" class="button small" onClick={close}>Cancel</button>
        <span class="muted">The transcript file keeps both texts. It asks the same agents as before.</span>
      </div>
    </form>
  );
}

export function DeleteBox({ entry }: { entry: Entry }) {
  const button = useRef<HTMLButtonElement>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => button.current?.focus(), []);
  const close = (): void => {
    deleting.value = null;
    back(entry);
  };
  const remove = async (): Promise<void> => {
    setBusy(true);
    const done = await attempt(api.deleteMessage(entry.id).then((told) => toast(told.reason ?? "Deleted.")));
    setBusy(false);
    if (done) close();
  };
  return (
    <div class="edit-act delete-box" role="group" aria-label={`Delete ${ref("m", entry.number)}?`} onKeyDown={(event) => { if (event.key === "Escape") { event.stopPropagation(); close(); } }} data-testid="delete-box">
      <span>Delete it for everybody? The transcript file keeps it.</span>
      <button type="button" ref={button} class="button small danger" disabled={busy} onClick={() => void remove()} data-testid="delete-now">Delete</button>
      <button type="button" class="button small" onClick={close}>Keep it</button>
    </div>
  );
}

/** That a message was changed, and on demand what it said before. */
export function Edited({ entry }: { entry: Entry }) {
  const [said, setSaid] = useState<{ ts: string; body: string }[] | null>(null);
  const at = entry.meta.edited!.at;
  useEffect(() => setSaid(null), [at]);
  const look = (): void => {
    if (said) setSaid(null);
    else void attempt(api.versions(entry.id).then(setSaid));
  };
  return (
    <div class="edited">
      <button type="button" class="link small" aria-expanded={said !== null} data-tip={full(at)} onClick={look} data-testid="edited">edited {clock(at)}</button>
      {said && (
        <ol class="versions" data-testid="versions" aria-label="What it said before">
          {said.slice(0, -1).map((each) => <li key={each.ts}><time dateTime={each.ts}>{clock(each.ts)}</time><Markdown text={each.body} /></li>)}
        </ol>
      )}
    </div>
  );
}
