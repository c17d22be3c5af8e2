/** This machine's clock as a signal. It ticks once a second, for elapsed times. */

import { signal } from "@preact/signals";

export const clockNow = signal(Date.now());
setInterval(() => (clockNow.value = Date.now()), 1000);
