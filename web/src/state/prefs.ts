/** What this browser remembers: name, theme, draft. Storage may be forbidden; then it lasts for the page. */

import { effect, signal } from "@preact/signals";

export const memory = {
  get(key: string): string | null {
    try {
      return localStorage.getItem(`relay.${key}`);
    } catch {
      return null;
    }
  },
  set(key: string, value: string | null): void {
    try {
      if (value === null) localStorage.removeItem(`relay.${key}`);
      else localStorage.setItem(`relay.${key}`, value);
    } catch {
      /* private mode: nothing to keep it in */
    }
  },
  keys(prefix: string): string[] {
    try {
      return Object.keys(localStorage)
        .filter((key) => key.startsWith(`relay.${prefix}`))
        .map((key) => key.slice("relay.".length));
    } catch {
      return [];
    }
  },
};

export type Theme = "system" | "light" | "dark";

export const personName = signal(memory.get("name") ?? "");
export const theme = signal<Theme>((memory.get("theme") as Theme | null) ?? "system");
/** Why the name is asked for again, e.g. that it is reserved. */
export const nameProblem = signal<string | null>(null);
export const askName = signal(false);

/** The name before this one. */
let before = "";

export function setName(name: string): void {
  if (name !== personName.value) before = personName.value;
  personName.value = name;
  nameProblem.value = null;
  askName.value = false;
  memory.set("name", name);
}

/** The room does not take the name: the page goes by the one before, and asks for another. */
export function refuseName(name: string, why: string): void {
  if (personName.value === name) {
    setName(before);
    before = "";
  }
  nameProblem.value = why;
  askName.value = true;
}

export function nextTheme(): void {
  const order: Theme[] = ["system", "light", "dark"];
  theme.value = order[(order.indexOf(theme.value) + 1) % order.length]!;
}

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  memory.set("theme", theme.value === "system" ? null : theme.value);
});

/** 122 random bits as text; `crypto.randomUUID` is missing where the page is not a secure context. */
export function uuid(): string {
  if (crypto.randomUUID) return crypto.randomUUID();
  const b = crypto.getRandomValues(new Uint8Array(16));
  b[6] = (b[6]! & 15) | 64;
  b[8] = (b[8]! & 63) | 128;
  const hex = [...b].map((x) => x.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "offscreen";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
