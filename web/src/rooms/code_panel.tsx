/** Code as it stood when a message was written, over the room. Comes as a file of its own. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api";
import { api } from "../api_views";
import { Icon, IconButton, Layer } from "../ui/bits";
import type { CodeThen } from "../types";
import { codeOpen } from "./code";
import "../style/room_panels.css";

function Line({ number, text, html, lit }: { number: number; text: string; html: string | undefined; lit: boolean }) {
  const row = useRef<HTMLElement>(null);
  useEffect(() => {
    // highlight.js escapes what it writes.
    if (row.current && html !== undefined) row.current.innerHTML = html;
  }, [html]);
  return <tr class={lit ? "lit-line" : ""} data-line={number}><th scope="row">{number}</th><td><code ref={row}>{text}</code></td></tr>;
}

function about(code: CodeThen): string {
  const whose = code.of === "main" ? "on the main branch" : `in the worktree of ${code.of}`;
  const at = code.commit ? ` (${code.commit.slice(0, 8)})` : "";
  return `As it stood ${whose}${at} when ${code.message} was written.`;
}

export function CodePanel() {
  const { place, entry } = codeOpen.value!;
  const [code, setCode] = useState<CodeThen | null>(null);
  const [coloured, setColoured] = useState<string[] | null>(null);
  const [problem, setProblem] = useState("");
  const table = useRef<HTMLTableElement>(null);
  const at = place.lastIndexOf(":");

  useEffect(() => {
    let gone = false;
    setCode(null);
    setColoured(null);
    setProblem("");
    api.code(place.slice(0, at), entry, place.slice(at + 1)).then(
      (found) => {
        if (gone) return;
        setCode(found);
        const language = found.path.split(".").at(-1) ?? "";
        void import("../text/highlight").then(({ colouredLines }) => colouredLines(found.lines.join("\n"), language)).then((lines) => { if (!gone) setColoured(lines); });
      },
      (caught) => {
        if (!(caught instanceof ApiError)) throw caught;
        if (!gone) setProblem([caught.message, caught.fix].filter(Boolean).join(" "));
      },
    );
    return () => { gone = true; };
  }, [place, entry]);
  useEffect(() => {
    const row = table.current?.querySelector<HTMLElement>(".lit-line");
    const box = table.current?.parentElement;
    // Only the lines scroll, not the dialog around them.
    if (row && box) box.scrollTop = row.offsetTop - box.clientHeight / 3;
  }, [code]);

  const close = (): void => { codeOpen.value = null; };
  return (
    <Layer label={`Code: ${place}`} class="code-then" onClose={close} testid="code-panel">
      <header>
        <h2><Icon name="branch" size={15} /> {place}</h2>
        <IconButton icon="close" label="Close" onClick={close} />
      </header>
      {problem && <p role="alert" class="code-about">{problem}</p>}
      {!code && !problem && <p class="code-about muted" aria-busy="true">Looking it up…</p>}
      {code && (
        <>
          <p class="code-about">
            {about(code)} {code.uncommitted && <b class="chip chip-warn" data-testid="uncommitted">not committed then</b>} {code.uncommitted === null && <span class="muted">git does not know any more which commit it was.</span>}
          </p>
          <div class="code-lines" tabIndex={0} role="region" aria-label={`Lines ${code.start} to ${code.start + code.lines.length - 1} of ${code.total}`}>
            <table ref={table}>
              <tbody>
                {code.lines.map((text, i) => {
                  const number = code.start + i;
                  return <Line key={number} number={number} text={text} html={coloured?.[i]} lit={code.first !== null && number >= code.first && number <= code.last!} />;
                })}
              </tbody>
            </table>
          </div>
        </>
      )}
    </Layer>
  );
}
