/** Named moments: the checkpoints, a new one, and the way to any moment in words. */

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { api } from "../api_views";
import { Layer, toast, Words } from "../ui/bits";
import { problemOf, useAnswer } from "./answer";
import { Name } from "./name";
import { agentNames, nameIn, readNow, set } from "./state";
import { when } from "./words";

const open = signal(false);
export const openMoments = (): void => void (open.value = true);
const close = (): void => void (open.value = false);

function Find() {
  const [problem, setProblem] = useState("");
  const go = async (text: string): Promise<void> => {
    setProblem("");
    try {
      const found = await api.timelineEvent(text);
      set({ event: String(found.number), ...(found.snapshot ? { at: String(found.number) } : {}) });
      close();
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  return (
    <form class="tl-form" onSubmit={(event) => { event.preventDefault(); void go(new FormData(event.currentTarget).get("moment") as string); }}>
      <input name="moment" required aria-label="Moment" placeholder="14:00, -1h, #812, an event's id, a checkpoint" data-testid="tl-moment-text" />
      <button type="submit" class="button" data-testid="tl-moment-go">Go there</button>
      {problem && <p class="problem" role="alert"><Words text={problem} /></p>}
    </form>
  );
}

function Make({ onMade }: { onMade: () => void }) {
  const [problem, setProblem] = useState("");
  const agents = agentNames();
  const make = async (form: FormData): Promise<void> => {
    setProblem("");
    try {
      const name = (form.get("checkpoint") as string).trim();
      await api.makeCheckpoint(name, (form.get("lane") as string) || null);
      toast(`The checkpoint “${name}” is made. It is kept for ever.`);
      onMade();
      await readNow();
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  return (
    <form class="tl-form" onSubmit={(event) => { event.preventDefault(); void make(new FormData(event.currentTarget)); }}>
      <input name="checkpoint" required maxLength={80} aria-label="Name of the checkpoint" placeholder="Name, as before the move" data-testid="tl-checkpoint-name" />
      <select name="lane" aria-label="Whose files" data-testid="tl-checkpoint-lane">
        <option value="">the main branch</option>
        {agents.map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
      <button type="submit" class="button" data-testid="tl-checkpoint-make">Make a checkpoint</button>
      {problem && <p class="problem" role="alert"><Words text={problem} /></p>}
    </form>
  );
}

function Dialog() {
  const [round, setRound] = useState(0);
  const { found, problem } = useAnswer(() => api.checkpoints(), [round]);
  return (
    <Layer label="Moments" class="merge-dialog tl-dialog" onClose={close} testid="tl-moments">
      <h2>Moments</h2>
      <h3>Go to a moment</h3>
      <Find />
      <h3>Checkpoints</h3>
      {problem && <p class="problem" role="alert">{problem}</p>}
      {found?.length === 0 && <p class="muted">None yet. A checkpoint is a name for the files as they stand; rewinds and comparisons take it as a moment.</p>}
      <ul class="tl-preview tl-lines" data-testid="tl-checkpoints">
        {found?.map((one) => (
          <li key={one.event}>
            <button type="button" class="tl-line" onClick={() => { set({ at: String(one.number), event: String(one.number) }); close(); }}>
              <b>{one.name}</b> <span class="muted">{when(Date.parse(one.at))}, <Name name={nameIn(one.lane)} /></span>
            </button>
          </li>
        ))}
      </ul>
      <h3>Name the files as they stand now</h3>
      <Make onMade={() => setRound(round + 1)} />
      <div class="dialog-act"><button type="button" class="button" onClick={close}>Close</button></div>
    </Layer>
  );
}

export function Moments() {
  return open.value ? <Dialog /> : null;
}
