/** Texts that are copied or broken whole: commands and paths. */

import "../style/copyable.css";

import { Fragment } from "preact";
import { useState } from "preact/hooks";
import { copyText } from "../state/prefs";
import { Icon } from "./bits";

export function Copyable({ text, testid }: { text: string; testid?: string }) {
  const [done, setDone] = useState(false);
  return (
    <span class="copyable" data-testid={testid}>
      <code>{text}</code>
      <button
        type="button"
        aria-label={`Copy: ${text}`}
        onClick={async () => {
          if (!(await copyText(text))) return;
          setDone(true);
          setTimeout(() => setDone(false), 1600);
        }}
      >
        <Icon name={done ? "check" : "copy"} size={14} />
      </button>
    </span>
  );
}

/** A path that breaks between its names before it breaks within one. */
export function Path({ path }: { path: string }) {
  return <code class="path">{path.split(/(?<=\/)/).map((name, i) => <Fragment key={i}>{i > 0 && <wbr />}{name}</Fragment>)}</code>;
}
