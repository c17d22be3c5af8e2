/** The frame around the views: side bar (tabs at phone width), the line to the room, the layers over it. */

import { useEffect } from "preact/hooks";
import { cutOff, line, outdated, reconnectNow } from "../state/live";
import { askName, nextTheme, personName, theme } from "../state/prefs";
import { agents, away, entryOf, fleet, goToEnd, loaded, now, people, peopleAt, ready, room, shell, tail, workers } from "../state/room";
import { agentPanel, callComposer, landingOf, overlay, phone, replyTo, show, taskOpen, verificationShown, view, type View } from "../state/view";
import { permissions } from "../state/permissions";
import { said } from "../state/said";
import { returned } from "../state/unread";
import { AgentList, DispatcherRow } from "./agents";
import { Icon, IconButton, Toasts, Tooltip, hued } from "./bits";
import { Composer } from "./composer";
import { Glance } from "./glance";
import { Lazy } from "./lazy";
import { Mark } from "./mark";
import { Beside, Pins } from "../rooms/row";
import { threadOpen } from "../rooms/threads";
import { TABS, Tabs } from "./tabs";
import { Transcript } from "./transcript";
import { visitorOf, visitors } from "../state/visitors";
import { shared, waiting } from "../text/fleet";
import { moment } from "../text/format";

/** What a key opens; where it cannot be loaded, the next key is not for it. */
const opened = <Part,>(part: Promise<Part>): Promise<Part> => part.catch((problem) => { overlay.value = "none"; throw problem; });
const search = () => opened(import("./palette").then((all) => ({ default: all.Palette })));
const help = () => opened(import("./palette").then((all) => ({ default: all.Help })));
const nameDialog = () => import("./signin").then((all) => ({ default: all.NameDialog }));
const visitorList = () => import("./visitor_list").then((all) => ({ default: all.VisitorList }));
const fleetList = () => import("./fleet").then((all) => ({ default: all.FleetList }));
const notices = () => import("./notices").then((all) => ({ default: all.Notices }));
const sinceBox = () => import("./since").then((all) => ({ default: all.SinceBox }));
const bottomTabs = () => import("./bottom_tabs").then((all) => ({ default: all.BottomTabs }));
const permissionBar = () => import("./permission_stack").then((all) => ({ default: all.PermissionBar }));
const agentChips = () => import("./chips");
const needsView = () => import("../needs/view");
const boardView = () => import("./board");
const agentsView = () => import("./agents_view");
const landDialog = () => import("../landing/land_dialog").then((all) => ({ default: all.LandDialog }));
const agentPanelOver = () => import("./agents_view").then((all) => ({ default: all.AgentPanel }));
const queueView = () => import("./queue");
const airspaceView = () => import("../airspace/view");
const locksView = () => import("./locks");
const taskPanel = () => import("./task");
/** Views with a search of their own, which `/` goes to. */
const SEARCHED: Readonly<Partial<Record<string, string>>> = { memory: ".mem-search input", board: ".board-search input" };
const worktreesView = () => import("./worktrees");
const reviewView = () => import("../review/view");
const memoryView = () => import("../memory/view");
const exploreView = () => import("../explore/view");
const conflictsView = () => import("../conflicts/view");
const metricsView = () => import("../metrics/view");
const landingView = () => import("../landing/view");
const approvalsView = () => import("../landing/approvals");
const resultsPanel = () => import("../landing/results");
const timelineView = () => import("../timeline/view");

function Connection() {
  const now_ = now.value;
  const state = line.value;
  const words =
    state.state === "live" ? "live" : state.state === "connecting" ? (cutOff.value ? "cut off, trying again…" : "connecting…") : `${cutOff.value ? "cut off" : "offline"}, trying again in ${Math.max(0, Math.ceil((state.retryAt - now_) / 1000))} s`;
  return (
    <div class={`connection connection-${state.state}`} data-testid="connection" data-state={state.state}>
      <i class="dot" aria-hidden="true" />
      <span>{words}</span>
      {state.state === "offline" && <button type="button" class="link" onClick={reconnectNow}>now</button>}
    </div>
  );
}

function SideBar() {
  const here = people.value;
  return (
    <aside class="side">
      <header class="side-head">
        <Mark />
        <div>
          <h1 data-testid="room-name">{room.value?.name ?? "relay"}</h1>
          <Connection />
        </div>
      </header>
      <button type="button" class="search-button" onClick={() => (overlay.value = "search")} data-testid="open-search">
        <Icon name="search" size={15} /> <span>Search</span> <kbd>Ctrl K</kbd>
      </button>
      <Tabs />
      <div class={`side-scroll ${cutOff.value ? "stale" : ""}`}>
        <div class="side-row"><h2>Agents{cutOff.value && `, as of ${moment(new Date(cutOff.value.since).toISOString(), now.value)}`}</h2><DispatcherRow /></div>
        <AgentList />
        {visitors.value.length > 0 && <Lazy load={visitorList} over />}
        {shared(fleet.value).length > 0 && <Lazy load={fleetList} over />}
      </div>
      <div class={`side-row ${cutOff.value ? "stale" : ""}`}><h2>People here</h2><ul class="people">
        {here.map((p) => <li key={p}><i class="dot dot-ready" aria-hidden="true" /><span style={hued(p)} class="agent-name">{p}</span>{p === personName.value && <span class="muted">you</span>}{peopleAt.value[p] && <span class="muted">at {peopleAt.value[p]}</span>}</li>)}
        {!here.length && <li class="muted">nobody yet</li>}
      </ul></div>
      <footer class="side-foot">
        <button type="button" class="me" onClick={() => (askName.value = true)} data-tip="Change your name"><Icon name="person" size={15} /><span>{personName.value || "no name yet"}</span></button>
        <IconButton icon={`theme_${theme.value}`} label={`Theme: ${theme.value}`} keys="T" onClick={nextTheme} testid="theme" />
        <IconButton icon="help" label="Keys" keys="?" onClick={() => (overlay.value = "help")} />
      </footer>
    </aside>
  );
}

/** Views of a phone that have the agents over them; the others have a picture, or the agents themselves. */
const CHIPPED: ReadonlySet<View> = new Set(["room", "needs", "board"]);

function TopBar() {
  return (
    <header class="top">
      <Mark />
      <h1>{room.value?.name ?? "relay"}</h1>
      <Connection />
      <IconButton icon="search" label="Search" onClick={() => (overlay.value = "search")} testid="open-search" />
      <IconButton icon={`theme_${theme.value}`} label={`Theme: ${theme.value}`} onClick={nextTheme} testid="theme" />
    </header>
  );
}

function Notices() {
  return (
    <>
      {(cutOff.value || tail.value?.catching_up) && <Lazy load={notices} over />}
      {!cutOff.value && line.value.state !== "live" && line.value.attempt > 1 && (
        <div class="notice notice-warn" role="alert">
          The room cannot be reached. What you write is kept and sent when it is back. If it stays away: <code>{shell("start")}</code>
        </div>
      )}
      {outdated.value && (
        <div class="notice">The room runs a newer version. <button type="button" class="link" onClick={() => location.reload()}>Load it</button></div>
      )}
      {loaded.value && ready.value.length === 0 && away.value.length > 0 && (
        <div class="notice notice-warn" data-testid="all-away">
          No agent can answer now: {waiting(away.value, now.value)}
        </div>
      )}
      {loaded.value && workers.value.length > 0 && ready.value.length === 0 && !away.value.length && (
        <div class="notice notice-warn" data-testid="no-agent">
          No agent can answer yet. <button type="button" class="link" onClick={() => show("agents")}>See what to install</button>
        </div>
      )}
    </>
  );
}

function RoomView() {
  return (
    <section class={`view room-view ${threadOpen.value ? "with-thread" : ""}`} aria-label="Room">
      <Notices />
      <Glance />
      <Pins />
      {returned.value && <Lazy load={sinceBox} given={returned.value} over />}
      <Transcript />
      {permissions.value.length > 0 && <Lazy load={permissionBar} over />}
      <Composer />
      <Beside />
    </section>
  );
}

/** The one region of the page that a reader of the screen is told anew by itself. */
function Said() {
  return <p class="offscreen" role="status" data-testid="said">{said.value}</p>;
}

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** The entry in keyboard focus, and its neighbours. */
function step(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>(".entry[id]")];
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = at < 0 ? rows[rows.length - 1]! : rows[Math.max(0, Math.min(rows.length - 1, at + by))]!;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function useKeys(): void {
  useEffect(() => {
    let afterG = 0;
    const onKey = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        overlay.value = overlay.value === "search" ? "none" : "search";
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
      if (document.querySelector("dialog[open]")) return;
      const key = event.key;
      if (Date.now() - afterG < 1200) {
        afterG = 0;
        const tab = TABS.find((t) => t.keys === `g ${key}`);
        if (tab) {
          event.preventDefault();
          show(tab.view);
          return;
        }
      }
      const acts: Record<string, () => void> = {
        // A view with a search of its own has the key for it; `c` writes from everywhere.
        "/": () => (SEARCHED[view.value] ? document.querySelector<HTMLElement>(SEARCHED[view.value]!)?.focus() : callComposer()),
        c: callComposer,
        g: () => (afterG = Date.now()),
        t: nextTheme,
        "?": () => (overlay.value = "help"),
        u: () => [...document.querySelectorAll(".toast")].at(-1)?.querySelector("button")?.focus(),
        j: () => step(1),
        k: () => step(-1),
        r: () => {
          const entry = entryOf(document.activeElement?.closest(".entry[id]")?.id.slice(2) ?? "");
          if (entry) {
            replyTo.value = entry;
            callComposer();
          }
        },
        End: () => view.value === "room" && void goToEnd().then(() => requestAnimationFrame(() => step(Infinity))),
        Escape: () => (agentPanel.value = null),
      };
      const act = acts[key];
      if (act) {
        if (key !== "Escape") event.preventDefault();
        act();
      }
    };
    document.addEventListener("keydown", onKey);
    document.addEventListener("keydown", () => void import("./keep_focus").catch(() => undefined), { once: true });
    return () => document.removeEventListener("keydown", onKey);
  }, []);
}

/** An address may name one who is not here. */
const panelOpen = (): boolean => agents.value.some((a) => a.name === agentPanel.value) || Boolean(agentPanel.value && visitorOf(agentPanel.value));

export function Shell() {
  useKeys();
  return (
    <div class={`shell ${panelOpen() ? "with-panel" : ""}`}>
      {phone.value ? <div><TopBar />{CHIPPED.has(view.value) && <Lazy load={agentChips} over />}</div> : <SideBar />}
      <main class="main" data-view={view.value}>
        {view.value === "room" && <RoomView />}
        {view.value === "needs" && <Lazy load={needsView} />}
        {view.value === "board" && <Lazy load={boardView} />}
        {view.value === "agents" && <Lazy load={agentsView} />}
        {view.value === "queue" && <Lazy load={queueView} />}
        {view.value === "airspace" && <Lazy load={airspaceView} />}
        {view.value === "locks" && <Lazy load={locksView} />}
        {view.value === "worktrees" && <Lazy load={worktreesView} />}
        {view.value === "review" && <Lazy load={reviewView} />}
        {view.value === "timeline" && <Lazy load={timelineView} />}
        {view.value === "memory" && <Lazy load={memoryView} />}
        {view.value === "conflicts" && <Lazy load={conflictsView} />}
        {view.value === "landing" && <Lazy load={landingView} />}
        {view.value === "approvals" && <Lazy load={approvalsView} />}
        {view.value === "explore" && <Lazy load={exploreView} />}
        {view.value === "metrics" && <Lazy load={metricsView} />}
        {view.value !== "room" && permissions.value.length > 0 && <Lazy load={permissionBar} over />}
        <Toasts />
      </main>
      <Said />
      {panelOpen() && <Lazy load={agentPanelOver} over />}
      {taskOpen.value !== null && <Lazy load={taskPanel} over />}
      {verificationShown.value !== null && <Lazy load={resultsPanel} over />}
      {phone.value && <Lazy load={bottomTabs} over />}
      {landingOf.value && <Lazy load={landDialog} over given={{ agents: [landingOf.value], onClose: () => (landingOf.value = null) }} />}
      {overlay.value === "search" && <Lazy load={search} over />}
      {overlay.value === "help" && <Lazy load={help} over />}
      {(askName.value || !personName.value) && <Lazy load={nameDialog} over />}
      <Tooltip />
    </div>
  );
}
