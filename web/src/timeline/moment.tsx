/** The files as they stood at a moment, one of them opened, and what differs from another moment. */

import { useEffect, useState } from "preact/hooks";
import { api } from "../api_views";
import { bytes } from "../text/format";
import type { TreeEntry } from "../timeline_types";
import { Behind, useBehind } from "../ui/behind";
import { hued, Icon, IconButton } from "../ui/bits";
import { useAnswer } from "./answer";
import { Between } from "./between";
import { nameClass } from "./name";
import { agentNames, nameIn, set, table, version, words } from "./state";
import { sentence, when } from "./words";

/** Characters of a file that are drawn. */
const MOST = 60_000;

const lastOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

function Writer({ entry }: { entry: Pick<TreeEntry, "by" | "number" | "at"> }) {
  if (!entry.by || entry.number === null) return null;
  const name = nameIn(entry.by);
  return (
    <button type="button" class={`tl-writer ${nameClass(name)}`} style={hued(name)} onClick={() => set({ event: String(entry.number) })} data-tip={`Written last in #${entry.number}${entry.at ? `, ${when(Date.parse(entry.at))}` : ""}`}>{name}</button>
  );
}

function Folder({ at, lane, path, depth, onFile }: { at: string; lane: string; path: string; depth: number; onFile: (path: string) => void }) {
  const { found, problem } = useAnswer(() => api.timelineTree(at, lane, path), [at, lane, path]);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  if (problem) return <li role="none"><p class="problem" role="alert" data-testid="tl-tree-problem">{problem}</p></li>;
  if (!found) return <li role="none" class="muted">Reading…</li>;
  const entries = [...found.entries].sort((a, b) => Number(b.kind === "folder") - Number(a.kind === "folder") || a.path.localeCompare(b.path));
  return (
    <>
      {entries.map((entry) => (
        <li key={entry.path} data-testid="tl-entry" data-path={entry.path}>
          <span class="tl-entry" style={{ paddingLeft: `${depth * 14}px` }}>
            {entry.kind === "folder" ? (
              <button type="button" class="tl-file" aria-expanded={open.has(entry.path)} onClick={() => { const next = new Set(open); if (!next.delete(entry.path)) next.add(entry.path); setOpen(next); }}><Icon name={open.has(entry.path) ? "down_small" : "right"} size={13} />{lastOf(entry.path)}/</button>
            ) : (
              <button type="button" class="tl-file" disabled={entry.kind === "submodule"} onClick={() => onFile(entry.path)}>{lastOf(entry.path)}</button>
            )}
            <Writer entry={entry} />
          </span>
          {open.has(entry.path) && <ul><Folder at={at} lane={lane} path={entry.path} depth={depth + 1} onFile={onFile} /></ul>}
        </li>
      ))}
      {!entries.length && <li class="muted">No file.</li>}
    </>
  );
}

/** The file's lines, each with who is behind it as far as that is known. */
function Text({ text, path, at }: { text: string; path: string; at: string }) {
  const behind = useBehind(path, at);
  if (!behind.size) return <pre tabIndex={0}>{text}</pre>;
  const rows = text.replace(/\n$/, "").split("\n");
  return (
    <div class="diff-lines diff-told tl-told" role="table" aria-label={path} tabIndex={0}>
      {rows.map((row, i) => (
        <div key={i} class="diff-line" role="row">
          <span class="no" role="cell">{i + 1}</span>
          <Behind of={behind.get(i + 1)} before={behind.get(i)} />
          <code role="cell">{row}</code>
        </div>
      ))}
    </div>
  );
}

function OneFile({ at, lane, path, onClose }: { at: string; lane: string; path: string; onClose: () => void }) {
  const { found, problem } = useAnswer(() => api.timelineFile(at, lane, path), [at, lane, path]);
  return (
    <div class="tl-one" data-testid="tl-file">
      <header><code>{path}</code>{found && <span class="muted">{bytes(found.size)}</span>}{found && <Writer entry={found} />}<IconButton icon="close" label="Close the file" onClick={onClose} /></header>
      {problem && <p class="problem" role="alert">{problem}</p>}
      {found?.binary && <p class="muted">A binary file; its bytes are not shown.</p>}
      {found?.text !== null && found !== null && <Text text={found.text.slice(0, MOST)} path={path} at={lane ? "" : at} />}
      {found && (found.cut || (found.text?.length ?? 0) > MOST) && <p class="muted">It goes on; this is its beginning.</p>}
      {found && <button type="button" class="link" onClick={() => set({ file: path })}>Who changed it, and when</button>}
    </div>
  );
}

const whenOf = (number: string): string => {
  const place = table.find(Number(number));
  return place ? when(place.block.at[place.i]!) : `#${number}`;
};

/** One of the two compared moments, with its way out. */
function Side({ letter, number, onRemove }: { letter: "A" | "B"; number: string; onRemove: () => void }) {
  const at = whenOf(number);
  return (
    <span class="tl-side-of">
      <i class="tl-letter" aria-hidden="true">{letter}</i>
      <button type="button" class="link plain-link" onClick={() => set({ event: number })} data-tip={`The event after which ${letter} is`}><span class="offscreen">{letter}: </span>{at} <span class="muted">#{number}</span></button>
      <IconButton icon="close" label={`Remove ${letter}, ${at}, from the comparison`} onClick={onRemove} testid={`tl-remove-${letter}`} />
    </span>
  );
}

/** Which moments are compared, above the picture and the list. */
export function Compared() {
  void version.value;
  const { at, with: other } = words.value;
  if (!at || !other) return null;
  const end = (): void => set({ with: "" });
  return (
    <div class="tl-compared" role="group" aria-label="Compared moments" data-testid="tl-compared">
      <span class="muted">Compared:</span>
      {at === other ? <span>choose A</span> : <Side letter="A" number={at} onRemove={() => set({ at: other, with: "" })} />}
      <span class="muted">with</span>
      <Side letter="B" number={other} onRemove={end} />
      <button type="button" class="button small" onClick={end} data-testid="tl-compared-end">End comparison</button>
    </div>
  );
}

/** The files at a moment, or what differs between two. */
export function MomentPanel() {
  void version.value;
  const { at, with: other } = words.value;
  const [lane, setLane] = useState("");
  const [file, setFile] = useState("");
  useEffect(() => setFile(""), [at, lane]);
  if (!at) return null;
  const place = table.find(Number(at));
  const against = other ? table.find(Number(other)) : null;
  // The earlier of the two comes first, whichever was chosen first.
  const [a, b] = Number(at) <= Number(other || at) ? [at, other] : [other, at];
  const agents = agentNames();
  return (
    <section class="tl-panel" aria-label="The files at a moment" data-testid="tl-moment" data-at={at} data-with={other}>
      <header>
        <h2>{other ? "What differs between two moments" : `Files at ${place ? when(place.block.at[place.i]!) : `#${at}`}`}</h2>
        <IconButton icon="close" label="Close" onClick={() => set({ at: "", with: "" })} testid="tl-moment-close" />
      </header>
      {(!other || a !== b) && <p class="muted">{other && <i class="tl-letter">A</i>} {place ? `After: ${sentence(table, place)} · #${at}` : `#${at}`}</p>}
      {other && <p class="muted"><i class="tl-letter">B</i> {against ? `After: ${sentence(table, against)} · #${other}` : `#${other}`}</p>}
      <div class="tl-acts">
        <label class="tl-field"><span>Whose</span>
          <select value={lane} onChange={(e) => setLane(e.currentTarget.value)} data-testid="tl-whose">
            <option value="">{other ? "as they were there" : "those of that event"}</option>
            <option value="main">the main branch</option>
            {agents.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </label>
        {!other && <button type="button" class="button small" onClick={() => set({ with: at })} data-testid="tl-compare">Compare…</button>}
        {other && <button type="button" class="button small" onClick={() => set({ with: "" })} data-testid="tl-compare-end">End comparison</button>}
      </div>
      {other && a === b && <p class="notice" data-testid="tl-compare-hint">Now choose the other moment: move the slider, click into the picture, or pick an event and “Files at this moment”.</p>}
      {other && a !== b && <Between a={`#${a}`} b={`#${b}`} lane={lane} name="" at={lane ? "" : `#${b}`} open />}
      {!other && (file ? <OneFile at={`#${at}`} lane={lane} path={file} onClose={() => setFile("")} /> : <ul class="tl-tree" aria-label="Files"><Folder key={`${at} ${lane}`} at={`#${at}`} lane={lane} path="" depth={0} onFile={setFile} /></ul>)}
    </section>
  );
}
