/** Whether a memory helped, as its readers say: the last word of each counts. */

import { useState } from "preact/hooks";
import { attempt, Icon } from "../ui/bits";
import { judge } from "./state";
import type { Feedback } from "./types";

export function Judge(props: { id: string; name: string; feedback: Feedback | null; onSaid?: (feedback: Feedback) => void }) {
  const [busy, setBusy] = useState(false);
  if (!props.feedback) return null;
  const { useful, useless, mine } = props.feedback;
  const say = async (yes: boolean): Promise<void> => {
    setBusy(true);
    await attempt(judge(props.id, yes).then(props.onSaid));
    setBusy(false);
  };
  return (
    <span class="mem-judge" role="group" aria-label={`Was ${props.name} of use?`}>
      <button type="button" class="button small" aria-pressed={mine === true} disabled={busy} onClick={() => void say(true)} data-testid="useful"><Icon name="useful" size={14} /> Useful{useful > 0 && <em>{useful}</em>}</button>
      <button type="button" class="button small" aria-pressed={mine === false} disabled={busy} onClick={() => void say(false)} data-testid="useless"><Icon name="useless" size={14} /> Not useful{useless > 0 && <em>{useless}</em>}</button>
    </span>
  );
}
