/** Forgetting a memory: asked once, for everybody, and the room says who did. */

import { useState } from "preact/hooks";
import { ApiError } from "../api";
import { ref } from "../text/reference";
import { Icon, Layer, toast, Words } from "../ui/bits";
import { forget } from "./state";

export function ForgetDialog({ number, text, onClose }: { number: number; text: string; onClose: (done: boolean) => void }) {
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const name = ref("r", number);
  const now = async (): Promise<void> => {
    setBusy(true);
    try {
      await forget(number);
      toast(`${name} is forgotten.`);
      onClose(true);
    } catch (caught) {
      if (!(caught instanceof ApiError)) throw caught;
      setProblem([caught.message, caught.fix].filter(Boolean).join(" "));
      setBusy(false);
    }
  };
  return (
    <Layer label={`Forget ${name}`} class="forget-dialog" onClose={() => onClose(false)} testid="forget-dialog">
      <form onSubmit={(event) => { event.preventDefault(); if (!busy) void now(); }}>
        <h2>Forget {name}?</h2>
        <blockquote class="forget-text">{text.length > 300 ? `${text.slice(0, 300).trimEnd()}…` : text}</blockquote>
        <p>Nobody is told it any more: no search, no <code>recall</code> and no agent's turn shows it. This cannot be taken back.</p>
        <p class="muted">The message or work that it comes from stays where it is, and the room says that you forgot it.</p>
        {problem && <p class="problem" role="alert"><Words text={problem} /></p>}
        <div class="dialog-act">
          <button type="button" class="button" onClick={() => onClose(false)} autofocus>Keep it</button>
          <button type="submit" class="button danger" disabled={busy} data-testid="forget-now"><Icon name="forget" size={14} /> {busy ? "Forgetting…" : "Forget it"}</button>
        </div>
      </form>
    </Layer>
  );
}
