/** What people can say of a handoff that waits for them, as buttons: the same as `/handoff h12 …`. */

import { useState } from "preact/hooks";
import { api } from "../api_views";
import { handoffs, loadHandoffs } from "../state/handoffs";
import type { HandoffAnswer } from "../timeline_types";
import "../style/proximity.css";
import { tell } from "./bits";

const ANSWERS: Readonly<Record<HandoffAnswer, { name: string; tip: string; ask?: string }>> = {
  retry: { name: "Try again", tip: "One attempt more, or what was in the way once more" },
  skip: { name: "Hand on anyway…", tip: "Hand it on though it did not pass; the reason is recorded", ask: "Why it is handed on all the same" },
  branch: { name: "On a branch…", tip: "One attempt more, on a new branch", ask: "Name of the new branch" },
  escalate: { name: "End it here", tip: "End it, and its pipeline: people go on" },
};

export function HandoffAnswers({ number }: { number: number }) {
  const [asking, setAsking] = useState<HandoffAnswer | null>(null);
  const [busy, setBusy] = useState(false);
  const handoff = handoffs.value.find((one) => one.number === number);
  if (!handoff?.answers.length) return null;
  const say = async (answer: HandoffAnswer, value = ""): Promise<void> => {
    setBusy(true);
    await tell(api.answerHandoff(number, answer, value));
    await loadHandoffs();
    setBusy(false);
    setAsking(null);
  };
  const question = asking && handoff.answers.includes(asking) ? ANSWERS[asking].ask : undefined;
  return (
    <div class="choices" role="group" aria-label={`What becomes of handoff ${handoff.name}`} data-testid="handoff-answers" data-handoff={handoff.name}>
      {handoff.answers.map((answer) => (
        <button key={answer} type="button" class="button small" disabled={busy} aria-expanded={ANSWERS[answer].ask ? asking === answer : undefined} data-tip={ANSWERS[answer].tip}
          onClick={() => (ANSWERS[answer].ask ? setAsking(asking === answer ? null : answer) : void say(answer))} data-testid={`handoff-${answer}`}>{ANSWERS[answer].name}</button>
      ))}
      {asking && question && (
        <form key={asking} class="choices-ask" onSubmit={(event) => { event.preventDefault(); void say(asking, (new FormData(event.currentTarget).get("value") as string).trim()); }}>
          <input name="value" required pattern=".*\S.*" autofocus maxLength={asking === "branch" ? 200 : 500} aria-label={question} placeholder={question} data-testid="handoff-value" />
          <button type="submit" class="button small primary" disabled={busy} data-testid="handoff-send">{asking === "skip" ? "Hand on anyway" : "Try on it"}</button>
        </form>
      )}
    </div>
  );
}
