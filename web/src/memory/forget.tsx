/** Forgetting a memory: asked once, for everybody, and the room says who did. */

import { useState } from "preact/hooks";
import { ApiError } from "../api";
import { Icon, Layer, toast, Words } from "../ui/bits";
import { forget } from "./state";

/** `name`: `r14`, or the id of an entry of the knowledge. */
export function ForgetDialog({ name, text, onClose }: { name: string; text: string; onClose: (done: boolean) => void }) {
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const isKnowledge = name.startsWith("k");
  const called = isKnowledge ? "this knowledge" : name;
  const now = async (): Promise<void> => {
    setBusy(true);
    try {
      await forget(name);
      toast(`${isKnowledge ? "It" : name} is forgotten.`);
      onClose(true);
    } catch (caught) {
      if (!(caught instanceof ApiError)) throw caught;
      setProblem([caught.message, caught.fix].filter(Boolean).join(" "));
      setBusy(false);
    }
  };
  return (
    <Layer label={`Forget ${called}`} class="forget-dialog" onClose={() => onClose(false)} testid="forget-dialog">
      <form onSubmit={(event) => { event.preventDefault(); if (!busy) void now(); }}>
        <h2>Forget {called}?</h2>
        <blockquote class="forget-text">{text.length > 300 ? `${text.slice(0, 300).trimEnd()}…` : text}</blockquote>
        <p>Nobody is told it any more: no search, no <code>recall</code> and no agent's turn shows it. {isKnowledge && " Where the same message is a memory too, that goes with it, and all else that is known of it."} This cannot be taken back.</p>
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
