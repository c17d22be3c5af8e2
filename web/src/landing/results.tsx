/** All that came of one verification, over whatever view. Comes as a file of its own. */

import "../style/views.css";
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api";
import { api } from "../api_views";
import { roomNow } from "../state/locks";
import { put, verifications } from "../state/landing";
import { showApproval, verificationShown } from "../state/view";
import "../style/landing.css";
import "../style/task.css";
import "../style/worktrees.css";
import { ago, full, instant, span } from "../text/format";
import { ref } from "../text/reference";
import { Icon, IconButton, Layer, tell, Words } from "../ui/bits";
import { Who } from "../ui/proximity";
import { StateWord } from "../ui/verified";
import { Differs, Paths, Runs } from "./parts";
import type { WholeVerification } from "./types";
import { decisionSaid, isOver, sourceWords, stateSaid } from "./words";

function Facts({ of }: { of: WholeVerification }) {
  const [began, ended] = [instant(of.at), instant(of.ended)];
  const alone = of.source === "landing" && of.about.agents?.length === 0;
  const facts: [string, preact.ComponentChildren][] = [["What", <>{alone ? "the main branch by itself" : sourceWords(of.source)}</>]];
  const agents = of.about.agents?.length ? of.about.agents : [of.agent];
  if (!alone) facts.push([agents.length > 1 ? "Work of" : "Whose", <span class="needs">{agents.map((name) => <Who key={name} name={name} />)}</span>]);
  if (of.asker !== of.agent) facts.push(["Asked by", <Who name={of.asker} />]);
  facts.push(["When", <span data-tip={full(of.at)}>{ago(of.at, roomNow.value)}{began !== null && ended !== null ? `, took ${span(ended - began)}` : ""}</span>]);
  if (of.branch) facts.push([of.about.part === "batch" && !alone ? "Onto" : "Branch", <code>{of.branch}</code>]);
  if (of.commit) facts.push(["Commit", <code data-tip={of.commit}>{of.commit.slice(0, 10)}</code>]);
  if (of.files) facts.push(["Files", <Paths of={of.files} />]);
  return <dl class="facts">{facts.map(([name, what]) => <div key={name}><dt>{name}</dt><dd>{what}</dd></div>)}</dl>;
}

function Approvals({ of }: { of: WholeVerification }) {
  if (!of.approvals.length) return null;
  const look = (number: number): void => {
    verificationShown.value = null;
    showApproval(number);
  };
  return (
    <ul class="asked-list">
      {of.approvals.map((one) => <li key={one.number}><button type="button" class="link" onClick={() => look(one.number)}>{one.reference}</button> {decisionSaid(one)}</li>)}
    </ul>
  );
}

export default function ResultsPanel() {
  const number = verificationShown.value!;
  const [told, setTold] = useState<WholeVerification | null>(null);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const [differs, setDiffers] = useState(false);
  // Whenever a frame has told of it, another one is held.
  const held = verifications.value.get(number);
  useEffect(() => {
    let gone = false;
    api.verification(number).then(
      (found) => {
        if (gone) return;
        setTold(found);
        setProblem("");
        if (!verifications.peek().has(number)) put([found]);
      },
      (error: unknown) => {
        if (!(error instanceof ApiError)) throw error;
        if (!gone) setProblem([error.message, error.fix].filter(Boolean).join(" "));
      },
    );
    return () => { gone = true; };
  }, [number, held]);
  useEffect(() => setDiffers(false), [number]);
  const of = told?.number === number ? told : null;
  const close = (): void => { verificationShown.value = null; };
  const again = async (): Promise<void> => {
    setBusy(true);
    await tell(api.verifyAgain(number));
    setBusy(false);
  };
  return (
    <Layer label={`Verification ${ref("v", number)}`} class="task-dialog results-dialog" onClose={close} testid="results">
      <header>
        <span class="task-number">{ref("v", number)}</span>
        <h2>{of ? <StateWord said={stateSaid(of.state)} testid="results-state" /> : problem ? "Not there" : "Reading it…"}</h2>
        <IconButton icon="close" label="Close" onClick={close} />
      </header>
      <div class="task-body">
        {problem && <p class="problem" role="alert"><Words text={problem} /></p>}
        {of?.summary && <p class="results-summary">{of.summary}</p>}
        {of?.reason && <p class={`results-reason ${of.state === "passed" ? "" : `results-reason-${stateSaid(of.state).tone}`}`} data-testid="results-reason"><Words text={of.reason} /></p>}
        {of && <Facts of={of} />}
        {of && <Approvals of={of} />}
        {of && of.results.length > 0 && <section><h3>What ran</h3><Runs of={of} live whole /></section>}
        {of && !of.results.length && isOver(of) && <p class="muted">Nothing has run.</p>}
        {of && differs && <Differs key={of.tree} read={() => api.verificationDiff(number)} label={`What ${of.reference} is about`} />}
      </div>
      <footer class="dialog-act">
        {of?.tree && of.base && <button type="button" class="button" aria-pressed={differs} onClick={() => setDiffers(!differs)} data-testid="results-diff">{differs ? "Hide the difference" : "Show the difference"}</button>}
        {of && <button type="button" class="button" disabled={busy || !isOver(of)} onClick={() => void again()} data-tip="Every policy runs once more, whatever ran before" data-testid="verify-again"><Icon name="retry" size={14} /> Verify again</button>}
      </footer>
    </Layer>
  );
}
