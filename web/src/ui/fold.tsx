/** Entries that stand on one line until somebody opens it. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { line, opensByItself } from "../state/folds";
import { personName } from "../state/prefs";
import { clock, full } from "../text/format";
import type { Entry } from "../types";
import { hued, Icon } from "./bits";

/** By the id of its first entry: what somebody opened or folded. */
const turned = signal<ReadonlyMap<string, boolean>>(new Map());

export const isOpen = (group: readonly Entry[]): boolean => turned.value.get(group[0]!.id) ?? opensByItself(group, personName.value);

/** `wanted`: one of them is what the reader went to. */
export function Fold({ group, wanted, children }: { group: readonly Entry[]; wanted: boolean; children: () => ComponentChildren }) {
  const first = group[0]!;
  const open = wanted || isOpen(group);
  const turn = (): void => { turned.value = new Map([...turned.value].slice(-500)).set(first.id, !open); };
  const { who, what, then } = line(group);
  if (open)
    return (
      <div class="folded-out">
        {children()}
        <button type="button" class="fold-close" aria-expanded="true" aria-label={`Fold: ${who}, ${what}`} data-tip="Fold" onClick={turn} data-testid="fold-close"><Icon name="minus" size={14} /></button>
      </div>
    );
  const last = group[group.length - 1]!;
  return (
    <article class={`entry fold kind-${first.kind}`} id={`e-${first.id}`} tabIndex={-1} data-testid="fold" data-number={first.number} data-last={last.number} aria-label={`${who}, ${clock(last.ts)}`}>
      <div class="gutter" aria-hidden="true"><Icon name="right" size={14} /></div>
      <button type="button" class="fold-line" aria-expanded="false" onClick={turn} data-tip={full(last.ts)}>
        <b style={hued(who)} class={first.kind === "human" ? "who" : ""}>{who}</b> <span class="plain"><span class={first.kind === "human" ? "fold-command" : ""}>{what}</span>{then && <span class="fold-then"> · {then}</span>}</span>
      </button>
    </article>
  );
}
