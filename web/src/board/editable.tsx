/** A value of a task that is read, and rewritten in place: a pencil opens it, Ctrl Enter keeps it, Escape leaves it. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { IconButton } from "../ui/bits";

interface Props {
  name: string;
  text: string;
  /** What is wanted, in the empty field. */
  hint: string;
  lines?: number;
  children: ComponentChildren;
  /** True when the room took it. */
  save: (text: string) => Promise<boolean>;
  testid: string;
}

export function Editable({ name, text, hint, lines = 1, children, save, testid }: Props) {
  const [draft, setDraft] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const pencil = useRef<HTMLDivElement>(null);
  const open = draft !== null;
  const was = useRef(false);
  // With the layout: after the paint, a key pressed in between would miss the field.
  useLayoutEffect(() => {
    if (open) {
      field.current?.focus();
      field.current?.setSelectionRange(field.current.value.length, field.current.value.length);
    } else if (was.current) {
      pencil.current?.querySelector("button")?.focus();
    }
    was.current = open;
  }, [open]);
  const keep = async (): Promise<void> => {
    if (draft === null) return;
    if (draft.trim() === text.trim()) return setDraft(null);
    setBusy(true);
    const done = await save(draft);
    setBusy(false);
    if (done) setDraft(null);
  };
  if (draft === null)
    return (
      <div class="editable" ref={pencil} data-testid={testid}>
        <div class="editable-value">{children}</div>
        <IconButton icon="edit" label={`Change the ${name}`} onClick={() => setDraft(text)} testid={`${testid}-edit`} />
      </div>
    );
  return (
    <form class="editable-form" onSubmit={(event) => { event.preventDefault(); void keep(); }} data-testid={testid}>
      <textarea
        ref={field}
        rows={lines}
        value={draft}
        placeholder={hint}
        aria-label={name}
        data-testid={`${testid}-field`}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") {
            // Or the dialog would close with it.
            event.preventDefault();
            event.stopPropagation();
            setDraft(null);
          }
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey || lines === 1)) {
            event.preventDefault();
            void keep();
          }
        }}
      />
      <span class="editable-act">
        <button type="submit" class="button small primary" disabled={busy} data-testid={`${testid}-save`}>Save</button>
        <button type="button" class="button small" onClick={() => setDraft(null)}>Cancel</button>
        {lines > 1 && <small class="muted">{hint}</small>}
      </span>
    </form>
  );
}
