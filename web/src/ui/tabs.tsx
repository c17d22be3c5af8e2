/** The ways to the views: all of them in the side bar, at phone width a bar of four with the rest behind "More". */

import { useState } from "preact/hooks";
import { openAdvisories } from "../state/airspace";
import { toSettle } from "../state/conflicts";
import { explorations } from "../state/explorations";
import { landing, landingUsed, waitingApprovals } from "../state/landing";
import { agents, jobs, openTasks } from "../state/room";
import { locks } from "../state/locks";
import { needs } from "../state/needs";
import { unread } from "../state/unread";
import { visitors } from "../state/visitors";
import { looking, worktrees } from "../state/worktrees";
import { show, view, type View } from "../state/view";
import { Icon, type IconName } from "./bits";

interface Tab {
  view: View;
  name: string;
  icon: IconName;
  keys: string;
}

export const TABS: readonly Tab[] = [
  { view: "room", name: "Room", icon: "room", keys: "g r" },
  { view: "needs", name: "Needs you", icon: "inbox", keys: "g n" },
  { view: "board", name: "Board", icon: "board", keys: "g b" },
  { view: "agents", name: "Agents", icon: "agents", keys: "g a" },
  { view: "queue", name: "Queue", icon: "queue", keys: "g q" },
  { view: "airspace", name: "Airspace", icon: "airspace", keys: "g s" },
  { view: "locks", name: "Locks", icon: "lock", keys: "g l" },
  { view: "worktrees", name: "Worktrees", icon: "branch", keys: "g w" },
  { view: "timeline", name: "Timeline", icon: "timeline", keys: "g t" },
  { view: "memory", name: "Memory", icon: "memory", keys: "g m" },
  { view: "conflicts", name: "Conflicts", icon: "merge", keys: "g c" },
  { view: "landing", name: "Landing", icon: "landing", keys: "g d" },
  { view: "approvals", name: "Approvals", icon: "approve", keys: "g p" },
  { view: "explore", name: "Explore", icon: "route", keys: "g x" },
  { view: "metrics", name: "Metrics", icon: "metrics", keys: "g f" },
];
/** What the room has nothing of needs no tab; its keys and its address lead there all the same. */
const NEEDED: Partial<Record<View, () => boolean>> = {
  explore: () => explorations.value.length > 0,
  conflicts: () => toSettle.value > 0,
  landing: () => landingUsed.value,
  approvals: () => waitingApprovals.value.length > 0,
};
const needed = (tab: View): boolean => tab === view.value || (NEEDED[tab]?.() ?? true);
export const tabsNow = () => TABS.filter((tab) => needed(tab.view));

export function count(tab: View): number {
  switch (tab) {
    case "room":
      return view.value === "room" ? 0 : unread.value;
    case "needs":
      return needs.value.length;
    case "board":
      return openTasks.value;
    case "queue":
      return [...jobs.value.values()].filter((j) => j.state === "active" || j.state === "pending").length;
    case "agents":
      return agents.value.filter((a) => a.breaker.state === "open").length;
    case "airspace":
      return openAdvisories.value.length;
    case "locks":
      return locks.value.length;
    case "timeline":
    case "memory":
    case "metrics":
    case "review":
      return 0;
    case "conflicts":
      return toSettle.value;
    case "landing":
      return landing.value?.queue.length ?? 0;
    case "approvals":
      return waitingApprovals.value.length;
    case "explore":
      return explorations.value.filter((one) => one.state === "waiting").length;
    case "worktrees":
      return worktrees.value?.filter((w) => w.merges === "clean" || w.merges === "joins" || w.merges === "conflicts").length ?? 0;
  }
}

export const alarms = (tab: View): boolean => tab === "needs" || tab === "agents" || tab === "conflicts" || tab === "approvals" || (tab === "airspace" && openAdvisories.value[0]?.level === "resolution");

export function TabLink({ tab, onGo }: { tab: Tab; onGo?: () => void }) {
  const n = count(tab.view);
  return (
    <a
      href={`#/${tab.view}`}
      aria-current={view.value === tab.view ? "page" : undefined}
      onClick={(event) => {
        // With a key held it opens beside this one, as links do.
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        onGo?.();
        show(tab.view);
      }}
      data-testid={`tab-${tab.view}`}
    >
      <Icon name={tab.icon} size={18} />
      <span>{tab.name}</span>
      {n > 0 ? <em class={alarms(tab.view) ? "alarm" : ""}>{n}</em> : tab.view === "worktrees" && looking.value && <em>…</em>}
      <kbd>{tab.keys}</kbd>
    </a>
  );
}

/** Views that stay in the side bar when the agents need its height. */
const FIRST: ReadonlySet<View> = new Set(["room", "needs", "board", "agents", "airspace", "worktrees"]);
/** Agents that the side bar has room for beside all views. */
const FEW = 3;

export function Tabs() {
  const [all, setAll] = useState(false);
  const many = agents.value.length + visitors.value.length > FEW;
  const tabs = tabsNow();
  const shown = many && !all ? tabs.filter((tab) => FIRST.has(tab.view) || tab.view === view.value || ((alarms(tab.view) || tab.view === "landing") && count(tab.view) > 0)) : tabs;
  return (
    <nav class="tabs" aria-label="Views">
      {shown.map((tab) => <TabLink key={tab.view} tab={tab} />)}
      {many && (
        <button type="button" class="tabs-more" aria-expanded={all} onClick={() => setAll(!all)} data-testid="tabs-more">
          <Icon name="more" size={18} /> <span>{all ? "Fewer views" : `${tabs.length - shown.length} more views`}</span>
        </button>
      )}
    </nav>
  );
}
