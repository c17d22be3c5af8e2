/** Which needs this browser notifies of. */

import { Icon, Layer } from "../ui/bits";
import { GROUPS, standing, trial, wanted, want, type Standing } from "./notify";

const SAYS: Readonly<Record<Standing, string>> = {
  granted: "",
  default: "The browser asks you once, when you turn the first of them on.",
  denied: `The browser refuses notifications of this page. Allow them for ${location.host} in its settings, beside the address; then they can be turned on here.`,
  insecure: "Browsers show notifications only of pages over HTTPS, or at 127.0.0.1. Open the room there.",
  missing: "This browser has no notifications.",
  broken: "This browser shows no notifications of a page, as on most phones. The room can tell your phone instead: `notify` in config.json.",
};

export function NotifyDialog({ onClose }: { onClose: () => void }) {
  const now = standing.value;
  const may = now === "granted" || now === "default";
  const on = now === "granted" && wanted.value.size > 0;
  return (
    <Layer label="Notifications" class="merge-dialog notify-dialog" onClose={onClose} testid="notify-dialog">
      <h2>Notifications</h2>
      <p class="muted">While this page is not seen, this browser tells you what needs you. It is kept in this browser, for nobody else.</p>
      {SAYS[now] && <p class={may ? "muted" : "problem"} role="status" data-testid="notify-standing">{SAYS[now]}</p>}
      <fieldset class="notify-groups" disabled={!may}>
        <legend class="offscreen">Tell me when</legend>
        {GROUPS.map((group) => (
          <label key={group.name}>
            <input type="checkbox" checked={now === "granted" && wanted.value.has(group.name)} onChange={(event) => { const box = event.currentTarget; void want(group.name, box.checked).then(() => { box.checked = wanted.peek().has(group.name); }); }} data-testid={`notify-${group.name}`} />
            <span><b>{group.label}</b><span class="muted">{group.says}</span></span>
          </label>
        ))}
      </fieldset>
      <div class="dialog-act">
        <button type="button" class="button" disabled={!on} onClick={() => trial()} data-testid="notify-trial"><Icon name="bell" size={14} /> Show one now</button>
        <button type="button" class="button primary" onClick={onClose}>Close</button>
      </div>
    </Layer>
  );
}
