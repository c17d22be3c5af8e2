/** The tabs of a phone, below the view. Comes as a file of its own. */

import "../style/bottom_tabs.css";
import { useState } from "preact/hooks";
import { view } from "../state/view";
import { Icon, Layer } from "./bits";
import { alarms, count, TabLink, tabsNow } from "./tabs";

/** Views in the bar of a phone, before the one that is open. */
const IN_BAR = 4;

export function BottomTabs() {
  const [open, setOpen] = useState(false);
  const all = tabsNow();
  const first = all.slice(0, IN_BAR);
  const here = all.find((tab) => tab.view === view.value);
  const bar = here && !first.includes(here) ? [...first.slice(0, -1), here] : first;
  const rest = all.filter((tab) => !bar.includes(tab));
  const urgent = rest.filter((tab) => alarms(tab.view)).reduce((sum, tab) => sum + count(tab.view), 0);
  return (
    <div class="bottom-tabs">
      <nav class="tabs" aria-label="Views">
        {bar.map((tab) => <TabLink key={tab.view} tab={tab} />)}
        <button type="button" aria-haspopup="dialog" aria-expanded={open} onClick={() => setOpen(true)} data-testid="tabs-more">
          <Icon name="more" size={18} />
          <span>More</span>
          {urgent > 0 && <em class="alarm">{urgent}</em>}
        </button>
      </nav>
      {open && (
        <Layer label="More views" class="tab-sheet" onClose={() => setOpen(false)} testid="tab-sheet">
          <nav class="tabs" aria-label="More views">
            {rest.map((tab) => <TabLink key={tab.view} tab={tab} onGo={() => setOpen(false)} />)}
            <button type="button" onClick={() => setOpen(false)}>Close</button>
          </nav>
        </Layer>
      )}
    </div>
  );
}
