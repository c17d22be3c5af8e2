/** What stands in a room in which nothing was said yet. */

import { dispatcher, ready, workers } from "../state/room";
import { callComposer, phone } from "../state/view";
import { Words } from "./bits";
import { Copyable } from "./copyable";
import "../style/welcome.css";

export function Welcome() {
  const missing = workers.value.filter((a) => !a.installed);
  const none = ready.value.length === 0;
  return (
    <div class="welcome" data-testid="welcome">
      <h2>{none ? "The room is open. No agent is here yet." : "The room is open."}</h2>
      {none ? (
        <>
          <p>
            People can already talk, keep tasks and search here. To have coding agents answer, install one; the room
            notices by itself.
          </p>
          <ul class="fixes">
            {missing.map((a) => (
              <li key={a.name}>
                <b>{a.name}</b>
                <span><Words text={a.detail ?? ""} /></span>
                {a.fix && <Copyable text={a.fix} />}
              </li>
            ))}
            {!missing.length && <li><span>Add one under <code>agents</code> in <code>config.json</code>, then look at the Agents view.</span></li>}
          </ul>
        </>
      ) : (
        <p>
          {ready.value.map((a) => a.name).join(", ")} {ready.value.length === 1 ? "is" : "are"} ready. Ask something; {dispatcher.value?.state === "off" ? "every active agent" : "a dispatcher decides who"} answers. Or name somebody: <code>@{ready.value[0]!.name} what does this repository do?</code>
        </p>
      )}
      <ul class="first-steps">
        <li><kbd>@</kbd> names an agent, <code>@all</code> asks everyone</li>
        <li><kbd>/</kbd> at the start of a line is a command: <code>/task</code>, <code>/who</code>, <code>/help</code></li>
        {!phone.value && <li><kbd>Ctrl K</kbd> searches, <kbd>?</kbd> shows every key</li>}
      </ul>
      <button type="button" class="button primary" onClick={callComposer}>Write the first message</button>
    </div>
  );
}
