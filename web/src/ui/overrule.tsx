/** The form in which a person says who answers a message. */

import { useState } from "preact/hooks";
import { api } from "../api_views";
import { workers } from "../state/room";
import { attempt, hued } from "./bits";
import "../style/overrule.css";

export function Overrule({ id, chosen: first, close }: { id: string; chosen: string[]; close: () => void }) {
  const [chosen, setChosen] = useState(first);
  return (
    <form
      class="overrule"
      aria-label="Choose who answers"
      onKeyDown={(event) => event.key === "Escape" && close()}
      onSubmit={(event) => {
        event.preventDefault();
        void attempt(api.route(id, chosen)).then((ok) => ok && close());
      }}
    >
      <span>Who should answer?</span>
      {workers.value.map((a) => (
        <label key={a.name} class="pick" style={hued(a.name)}>
          <input
            type="checkbox"
            checked={chosen.includes(a.name)}
            disabled={!a.installed}
            onChange={(event) => setChosen(event.currentTarget.checked ? [...chosen, a.name] : chosen.filter((n) => n !== a.name))}
          />
          {a.name}
        </label>
      ))}
      <button type="submit" class="button small primary" disabled={!chosen.length}>Route</button>
    </form>
  );
}
