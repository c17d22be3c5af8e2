/** What waits for leave, in a bar of its own: it takes room below the view, and covers nothing of it. */

import { permissions } from "../state/permissions";
import { agentPanel, view } from "../state/view";
import { Lazy } from "./lazy";

const card = () => import("./permissions").then((all) => ({ default: all.PermissionCard }));

/** In every view but the inbox, and but for the agent whose panel is open: there a request stands already. */
export function PermissionBar() {
  if (view.value === "needs") return null;
  const list = permissions.value.filter((request) => request.agent !== agentPanel.value);
  if (!list.length) return null;
  return (
    <div class="asks-bar" role="region" aria-label="Permission requests" data-testid="permissions">
      {list.map((request) => <Lazy key={request.id} load={card} given={{ request }} over />)}
    </div>
  );
}
