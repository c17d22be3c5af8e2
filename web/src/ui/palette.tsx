/** Ctrl K: one field that finds entries (full text, by the room), tasks, agents, views and actions. */

import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api_views";
import { nextTheme, askName } from "../state/prefs";
import { agents, readBoard, tasks } from "../state/room";
import { visitors } from "../state/visitors";
import { agentPanel, callComposer, follow, nothing, overlay, show, showEntry, taskFocus } from "../state/view";
import { clock, dayName } from "../text/format";
import { plainLine } from "../text/markdown";
import { readRef, ref } from "../text/reference";
import type { Hit } from "../types";
import { signOut } from "./signin";
import { Words } from "./term";
import { hued, Icon, Layer, toast, type IconName } from "./bits";
import "../style/palette.css";

interface Item {
  key: string;
  icon: IconName;
  title: string;
  note?: string;
  hit?: Hit;
  run: () => void;
}

const ACTIONS: readonly { title: string; note: string; icon: IconName; run: () => void }[] = [
  { title: "Room", note: "g r", icon: "room", run: () => show("room") },
  { title: "Board", note: "g b", icon: "board", run: () => show("board") },
  { title: "Agents", note: "g a", icon: "agents", run: () => show("agents") },
  { title: "Queue", note: "g q", icon: "queue", run: () => show("queue") },
  { title: "Airspace", note: "g s", icon: "airspace", run: () => show("airspace") },
  { title: "Locks", note: "g l", icon: "lock", run: () => show("locks") },
  { title: "Worktrees", note: "g w", icon: "branch", run: () => show("worktrees") },
  { title: "Review a branch", note: "", icon: "branch", run: () => show("review") },
  { title: "Timeline", note: "g t", icon: "timeline", run: () => show("timeline") },
  { title: "Memory", note: "g m", icon: "memory", run: () => show("memory") },
  { title: "Landing", note: "g d", icon: "landing", run: () => show("landing") },
  { title: "Approvals", note: "g p", icon: "approve", run: () => show("approvals") },
  { title: "Explore", note: "g x", icon: "route", run: () => show("explore") },
  { title: "Metrics", note: "g f", icon: "metrics", run: () => show("metrics") },
  { title: "Write a message", note: "c", icon: "send", run: callComposer },
  { title: "Switch theme", note: "t", icon: "theme_dark", run: nextTheme },
  { title: "Change your name", note: "", icon: "person", run: () => (askName.value = true) },
  { title: "Sign out", note: "", icon: "close", run: () => void signOut() },
  { title: "Keys", note: "?", icon: "help", run: () => (overlay.value = "help") },
];

/** The hit stands between U+0001 and U+0002; everything here is text. */
export function Snippet({ text }: { text: string }) {
  const parts = text.replace(/```[\w-]*|`|\*\*|\|[|:\s-]*/g, " ").replace(/ +/g, " ").split(/(\u0001[^\u0002]*\u0002?)/);
  return <>{parts.map((p, i) => (p.startsWith("\u0001") ? <mark key={i}>{p.replace(/[\u0001\u0002]/g, "")}</mark> : p))}</>;
}

export function Palette() {
  const [query, setQuery] = useState("");
  const [hits, setHits] = useState<Hit[]>([]);
  const [state, setState] = useState<"idle" | "searching" | "done" | "failed">("idle");
  const [picked, setPicked] = useState(0);
  const input = useRef<HTMLInputElement>(null);

  const close = (): void => {
    overlay.value = "none";
  };

  useEffect(() => {
    input.current?.focus();
    readBoard().catch(() => undefined);
  }, []);
  useEffect(() => {
    const wanted = query.trim();
    setPicked(0);
    if (wanted.length < 2) {
      setHits([]);
      setState("idle");
      return;
    }
    let gone = false;
    setState("searching");
    const timer = setTimeout(() => {
      api.search(wanted, 30).then(
        (found) => { if (!gone) { setHits(found); setState("done"); } },
        () => { if (!gone) { setHits([]); setState("failed"); } },
      );
    }, 140);
    return () => { gone = true; clearTimeout(timer); };
  }, [query]);

  const wanted = query.trim().toLowerCase();
  const matches = (text: string): boolean => text.toLowerCase().includes(wanted);
  const items: Item[] = [];
  const named = readRef(wanted);
  const go = async (target: string): Promise<void> => {
    if (!(await (readRef(target) ? (close(), follow(target)) : showEntry(target)))) toast(nothing(target), { tone: "problem" });
  };
  if (named) items.push({ key: "n", icon: "right", title: `Go to ${ref(named.thing, named.number)}`, run: () => void go(ref(named.thing, named.number)) });
  for (const a of ACTIONS) if (!wanted || matches(a.title)) items.push({ key: `a${a.title}`, ...a, run: () => { close(); a.run(); } });
  if (wanted) {
    for (const a of agents.value) if (matches(a.name)) items.push({ key: `g${a.name}`, icon: "agents", title: a.name, note: "agent", run: () => { close(); agentPanel.value = a.name; } });
    for (const v of visitors.value) if (matches(v.name)) items.push({ key: `v${v.name}`, icon: "agents", title: v.name, note: "connected on its own", run: () => { close(); agentPanel.value = v.name; } });
    for (const t of tasks.value.filter((t) => matches(t.title) || ref("t", t.number) === wanted).slice(0, 5))
      items.push({ key: `t${t.number}`, icon: "board", title: t.title, note: `task ${ref("t", t.number)}`, run: () => { close(); taskFocus.value = t.number; show("board"); } });
  }
  for (const hit of hits) items.push({ key: hit.id, icon: "room", title: "", hit, run: () => void go(hit.id) });
  const index = Math.min(picked, items.length - 1);

  return (
    <Layer label="Search" class="palette" onClose={close} testid="palette">
      <div class="palette-field">
        <Icon name="search" />
        <input
          ref={input}
          value={query}
          onInput={(event) => setQuery(event.currentTarget.value)}
          placeholder="Search the room, or jump to a view, an agent, a #number"
          aria-label="Search"
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={items[index] ? `palette-${index}` : undefined}
          data-testid="search"
          onKeyDown={(event) => {
            if (event.key === "ArrowDown" || event.key === "ArrowUp") {
              event.preventDefault();
              const step = event.key === "ArrowDown" ? 1 : -1;
              setPicked((index + step + items.length) % Math.max(1, items.length));
            } else if (event.key === "Enter") {
              event.preventDefault();
              items[index]?.run();
            }
          }}
        />
        <kbd>Esc</kbd>
      </div>
      <ul class="palette-list" id="palette-list" role="listbox" aria-label="Results">
        {items.map((item, i) => (
          <li
            key={item.key}
            id={`palette-${i}`}
            role="option"
            aria-selected={i === index}
            class={item.hit ? "hit" : "command"}
            data-testid={item.hit ? "hit" : undefined}
            onMouseMove={() => i !== index && setPicked(i)}
            onClick={item.run}
            ref={(row) => { if (i === index) row?.scrollIntoView?.({ block: "nearest" }); }}
          >
            {item.hit ? (
              <>
                <span class="hit-head"><b class="who" style={hued(item.hit.speaker)}>{item.hit.speaker}</b><span class="muted">{ref("m", item.hit.number)} · {dayName(item.hit.ts, Date.now())}, {clock(item.hit.ts)}</span></span>
                <span class="hit-text"><Snippet text={item.hit.snippet || plainLine(item.hit.body)} /></span>
              </>
            ) : (
              <><Icon name={item.icon} /><span class="item-title">{item.title}</span><span class="muted">{item.note}</span></>
            )}
          </li>
        ))}
      </ul>
      {wanted.length >= 2 && hits.length === 0 && (
        <p class="palette-note" role="status">
          {state === "searching" ? "searching…" : state === "failed" ? "The room cannot be searched now." : `Nothing in the room contains “${query.trim()}”.`}
        </p>
      )}
    </Layer>
  );
}

const KEYS: readonly [string, readonly [string, string][]][] = [
  ["Everywhere", [["/ or c", "write a message"], ["Ctrl K", "search, or go anywhere"], ["g r", "room"], ["g n", "needs you"], ["g b", "board"], ["g a", "agents"], ["g q", "queue"], ["g s", "airspace"], ["g l", "locks"], ["g w", "worktrees"], ["g t", "timeline"], ["g m", "memory"], ["g c", "conflicts"], ["g d", "landing"], ["g p", "approvals"], ["g x", "explore"], ["g f", "metrics"], ["u", "to the newest answer, and its undo"], ["t", "theme: system, light, dark"], ["?", "these keys"], ["Esc", "close, or leave the field"]]],
  ["Room", [["j  k", "next, previous entry"], ["r", "reply to the entry in focus"], ["End", "go to the newest"]]],
  ["Needs you", [["j  k", "the next one, the one before"], ["Enter", "show what it is about"], ["Tab", "to what you can do about it"]]],
  ["Writing", [["Enter", "send"], ["Shift Enter", "new line"], ["@", "name an agent, @all for everyone"], ["/", "a command, at the start"], ["Tab", "take the completion"]]],
  ["Airspace", [["← → ↑ ↓", "turn it, or move the plan"], ["Shift ←", "move it in 3D"], ["+ or -", "nearer, farther"], ["0", "all of it, as at first"], ["Tab", "from agent to agent"]]],
  ["Timeline", [["← →", "the event before, the next one"], ["↑ ↓", "another row"], ["Shift ← →", "move along"], ["+ or -", "nearer, farther"], ["0", "all of it"], ["Home", "the row's first"], ["End", "its newest"]]],
  ["Conflicts", [["j  k", "the next conflict, the one before"], ["1 or 2", "keep a side"], ["3", "let an agent write both"], ["4", "write it yourself"], ["5", "keep the branches apart"], ["Ctrl Enter", "send what you wrote"]]],
  ["Board", [["/", "search"], ["↑ ↓", "the card before, the next one"], ["Shift ← →", "move it"], ["Space", "everything about it"], ["Enter", "rewrite its title"], ["Shift G", "give it to an agent"], ["x", "select it"]]],
  ["Review", [["n  p", "the next file, the one before"], ["j  k", "the next line, the one before"], ["Enter", "comment on it"], ["v", "the file is reviewed"], ["s", "side by side"]]],
  ["Memory", [["/", "search"], ["↓", "from the search to what it found"], ["↑ ↓", "the one before, the next one"]]],
];

export function Help() {
  return (
    <Layer label="Keys" class="help" onClose={() => (overlay.value = "none")} testid="help" scrolls>
      <h2>Keys</h2>
      <div class="help-groups">
        {KEYS.map(([name, keys]) => (
          <section key={name}>
            <h3>{name}</h3>
            <dl>{keys.map(([key, what]) => <div key={key}><dt>{key.split(/ or | {2}/).map((k) => <kbd key={k}>{k}</kbd>)}</dt><dd>{what}</dd></div>)}</dl>
          </section>
        ))}
      </div>
      <Words />
    </Layer>
  );
}
