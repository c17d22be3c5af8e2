/** What came while the reader was away, on one line that opens: in the words of those who wrote it, and below in those of a local model, where there is one. */

import "../style/since.css";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api_views";
import { personName } from "../state/prefs";
import { returned } from "../state/unread";
import { follow, showEntry } from "../state/view";
import { span } from "../text/format";
import { ref } from "../text/reference";
import type { Since, Worded } from "../types";
import { hued, IconButton } from "./bits";

const HOUR = 3_600_000;

const To = ({ number }: { number: number }) => <button type="button" class="link" onClick={() => void showEntry(String(number))}>{ref("m", number)}</button>;

/** `away`: milliseconds. */
export function SinceBox({ after, away }: { after: number; away: number }) {
  const [came, setCame] = useState<Since | null>(null);
  const [worded, setWorded] = useState<Worded | null>(null);
  const [opened, setOpened] = useState(false);
  useEffect(() => {
    setCame(null);
    setWorded(null);
    setOpened(false);
    // Without an answer there is nothing to show: the line above what is new stands all the same.
    api.since(ref("m", after), personName.value).then(setCame, () => (returned.value = null));
  }, [after]);
  // A model takes seconds and the machine's work: it is asked for who wants to read.
  useEffect(() => {
    if (!opened || worded) return;
    let here = true;
    api.sinceWorded(ref("m", after), personName.value).then((told) => here && setWorded(told.worded), () => {});
    return () => void (here = false);
  }, [after, opened]);
  if (!came || !came.messages) return null;
  return (
    <section class="since" aria-label="Since you left" data-testid="since">
      <details onToggle={(event) => setOpened(event.currentTarget.open)}>
        <summary><span><b>Since you left,</b> {away < HOUR ? `${Math.round(away / 60_000)} min` : span(away)}: {came.line}</span></summary>
        <ul>
          {came.lines.map((one) => (
            <li key={`${one.number}${one.text}`}>
              <b class="who" style={hued(one.speaker)}>{one.speaker}</b> {one.text}{" "}
              <To number={one.number} />
            </li>
          ))}
        </ul>
        <button type="button" class="button small" onClick={() => void follow(ref("m", after))} data-testid="since-from">Read from there</button>
        {/* Behind the button, which then keeps its place. */}
        {worded && <p>In short, by {worded.model}:</p>}
        {worded && (
          <ul data-testid="since-worded">
            {worded.points.map((one) => <li key={one.text}>{one.text}{one.messages.map((number) => <> <To number={number} /></>)}</li>)}
          </ul>
        )}
      </details>
      <IconButton icon="close" label="Close" onClick={() => (returned.value = null)} testid="since-close" />
    </section>
  );
}
