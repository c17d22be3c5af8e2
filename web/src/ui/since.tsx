/** What came while the reader was away, on one line that opens: in the words of those who wrote it. */

import "../style/since.css";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api_views";
import { personName } from "../state/prefs";
import { returned } from "../state/unread";
import { follow, showEntry } from "../state/view";
import { span } from "../text/format";
import { ref } from "../text/reference";
import type { Since } from "../types";
import { hued, IconButton } from "./bits";

const HOUR = 3_600_000;

/** `away`: milliseconds. */
export function SinceBox({ after, away }: { after: number; away: number }) {
  const [came, setCame] = useState<Since | null>(null);
  useEffect(() => {
    setCame(null);
    // Without an answer there is nothing to show: the line above what is new stands all the same.
    api.since(ref("m", after), personName.value).then(setCame, () => (returned.value = null));
  }, [after]);
  if (!came || !came.messages) return null;
  return (
    <section class="since" aria-label="Since you left" data-testid="since">
      <details>
        <summary><b>Since you left,</b> {away < HOUR ? `${Math.round(away / 60_000)} min` : span(away)}: {came.line}</summary>
        <ul>
          {came.lines.map((one) => (
            <li key={`${one.number}${one.text}`}>
              <b class="who" style={hued(one.speaker)}>{one.speaker}</b> {one.text}{" "}
              <button type="button" class="link" onClick={() => void showEntry(String(one.number))}>{ref("m", one.number)}</button>
            </li>
          ))}
        </ul>
        <button type="button" class="button small" onClick={() => void follow(ref("m", after))} data-testid="since-from">Read from there</button>
      </details>
      <IconButton icon="close" label="Close" onClick={() => (returned.value = null)} testid="since-close" />
    </section>
  );
}
