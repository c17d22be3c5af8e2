/** What waits for leave, in a bar of its own: it takes room below the view, and covers nothing of it. */

import { useEffect, useRef, useState } from "preact/hooks";
import { permissions } from "../state/permissions";
import { agentPanel, taskOpen, view } from "../state/view";
import type { PermissionRequest } from "../types";
import { Lazy } from "./lazy";

const card = () => import("./permissions").then((all) => ({ default: all.PermissionCard }));

/** In every view but the inbox, and but for the agent whose panel is open: there a request stands already. `inTask`: in an open task, which covers all of these. */
export function PermissionBar({ inTask = false }: { inTask?: boolean }) {
  const [over, setOver] = useState(false);
  const [, again] = useState(0);
  const bar = useRef<HTMLDivElement>(null);
  const before = useRef<readonly PermissionRequest[]>([]);
  const hidden = inTask ? false : taskOpen.value !== null || view.value === "needs";
  const now = hidden ? [] : permissions.value.filter((request) => inTask || request.agent !== agentPanel.value);
  const waits = new Set(now.map((request) => request.id));
  // Under a hand nothing moves: what is settled keeps its place until the hand is gone.
  const held = over || bar.current?.contains(document.activeElement);
  const stood = held && !hidden && now.length ? before.current : [];
  const known = new Set(stood.map((request) => request.id));
  const list = [...stood, ...now.filter((request) => !known.has(request.id))];
  useEffect(() => {
    before.current = list;
    // A bar that is gone is left by no pointer.
    if (!list.length) setOver(false);
  });
  if (!list.length) return null;
  return (
    <div
      ref={bar} class="asks-bar" role="region" aria-label="Permission requests" data-testid="permissions"
      onPointerMove={() => setOver(true)} onPointerLeave={() => setOver(false)} onFocusOut={() => requestAnimationFrame(() => again((n) => n + 1))}
    >
      {list.map((request, place) => <Lazy key={request.id} load={card} given={{ request, settled: !waits.has(request.id), place }} over />)}
    </div>
  );
}
