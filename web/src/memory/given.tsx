/** Under an answer: how much its agent was given of the room's memory with that turn, and the way to it. */

import { useRef, useState } from "preact/hooks";
import { api } from "../api";
import { stay } from "../state/room";
import type { Entry } from "../types";
import { attempt, Icon } from "../ui/bits";
import { Lazy } from "../ui/lazy";
import type { GivenMemory } from "./types";

const givenList = () => import("./given_list").then((all) => ({ default: all.GivenList }));

export function WasGiven({ entry }: { entry: Entry }) {
  const given = entry.meta.memories ?? [];
  const [open, setOpen] = useState(false);
  const [list, setList] = useState<readonly GivenMemory[] | null>(null);
  const box = useRef<HTMLDivElement>(null);
  if (!given.length) return null;
  const turn = (): void => {
    if (!open) stay();
    setOpen(!open);
    // What is forgotten meanwhile has no text any more, so each opening asks anew.
    if (!open) void attempt(api.givenMemories(entry.id).then(setList));
  };
  return (
    <div class="given" ref={box} data-testid="was-given">
      <button type="button" class="given-open" aria-expanded={open} onClick={turn} data-testid="given-open">
        <Icon name="memory" size={13} /> was given {given.length === 1 ? "1 memory" : `${given.length} memories`}
      </button>
      {open && list && <Lazy load={givenList} given={{ list, setList, box }} over />}
      {open && !list && <p class="muted">Looking…</p>}
    </div>
  );
}
