/** What waits for leave, as cards that stand over whatever view is open. */

import { permissions } from "../state/permissions";
import { agentPanel, view } from "../state/view";
import { Lazy } from "./lazy";

const card = () => import("./permissions").then((all) => ({ default: all.PermissionCard }));

/** Over every view, at the corner. */
export function PermissionStack() {
  // In the inbox, and in its agent's panel, a request stands already.
  if (view.value === "needs") return null;
  const list = permissions.value.filter((request) => request.agent !== agentPanel.value);
  return (
    <div class="asks-stack" role="region" aria-label="Permission requests">
      {list.slice(0, 3).map((request) => <Lazy key={request.id} load={card} given={{ request }} over />)}
      {list.length > 3 && <p class="asks-more">{list.length - 3} more wait</p>}
    </div>
  );
}
