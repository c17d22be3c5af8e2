/** Who is behind the lines of a file (docs/merge.md): a mark and a name beside each, as the room tells it. */

import { useEffect, useState } from "preact/hooks";
import { api } from "../api_views";
import type { BlamedLines } from "../worktree_types";
import { byLine, meaning } from "../text/behind";
import { hued } from "./bits";

/** A shape each, so that no kind is told by its colour alone. */
const MARK = { agent: "●", person: "○", merged: "◐", ai_resolved: "✓" } as const;

/** By line, who is behind it; empty while nobody knows, and where nobody can say. `at` empty: nothing is asked. */
export function useBehind(path: string, at: string): ReadonlyMap<number, BlamedLines> {
  const [behind, setBehind] = useState<ReadonlyMap<number, BlamedLines>>(new Map());
  useEffect(() => {
    let gone = false;
    setBehind(new Map());
    if (at) {
      void api.blame(path, at).then(
        ({ lines }) => { if (!gone) setBehind(byLine(lines)); },
        // The lines themselves are there all the same: what is no commit of the main branch has nobody to name.
        () => undefined,
      );
    }
    return () => { gone = true; };
  }, [path, at]);
  return behind;
}

/** The mark of one line; its name where another's begins. `before`: who is behind the line above. */
export function Behind({ of, before }: { of: BlamedLines | undefined; before: BlamedLines | undefined }) {
  if (!of) return <span class="behind" role="cell" />;
  const same = before?.who === of.who && before.kind === of.kind;
  return (
    <span class={`behind behind-${of.kind}`} role="cell" style={hued(of.who)} data-tip={meaning(of)} data-testid="behind" data-kind={of.kind}>
      <i aria-hidden="true">{MARK[of.kind]}</i> <span class={same ? "offscreen" : "behind-who"}>{of.kind === "merged" ? `both, ${of.who}` : of.who}</span>
    </span>
  );
}
