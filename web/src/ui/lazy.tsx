/** A view that comes as a file of its own when it is opened. */

import type { ComponentChildren, ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { toast } from "./bits";

type Load<Given> = () => Promise<{ default: ComponentType<Given> }>;

const held = new Map<unknown, unknown>();
/** What a person was told of once that it does not come. */
const told = new Set<unknown>();
/** It is asked for again, since the connection comes back by itself. */
const AGAIN_MS = 5000;

/** `over`: it lies over the view, and takes no room while it comes, or that of `meanwhile`. */
export function Lazy<Given extends object = object>({ load, over, meanwhile, given }: { load: Load<Given>; over?: boolean; meanwhile?: ComponentChildren; given?: Given }) {
  const [, again] = useState(0);
  const [failed, setFailed] = useState(false);
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    if (held.has(load)) return;
    let gone = false;
    let timer = 0;
    load().then(
      (module) => {
        held.set(load, module.default);
        if (!gone) again((n) => n + 1);
      },
      () => {
        if (gone) return;
        if (over && !told.has(load)) toast("This could not be loaded. The connection may be down, or the room may run a newer version: then reload the page.", { tone: "problem" });
        told.add(load);
        setFailed(true);
        timer = window.setTimeout(() => setAttempt((n) => n + 1), AGAIN_MS);
      },
    );
    return () => { gone = true; clearTimeout(timer); };
  }, [load, attempt]);
  const View = held.get(load) as ComponentType<Given> | undefined;
  if (View) return <View {...(given as Given)} />;
  if (over) return <>{meanwhile}</>;
  if (!failed) return <section class="view" aria-busy="true" />;
  return (
    <section class="view">
      <div class="empty" role="alert">
        <h2>This view could not be loaded</h2>
        <p>The connection may be down, or the room may run a newer version.</p>
        <button type="button" class="button" onClick={() => location.reload()}>Reload the page</button>
      </div>
    </section>
  );
}
