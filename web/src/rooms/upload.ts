/** Files that are pasted, dropped or chosen: sent to the room, and named in the text. Comes as a file of its own. */

import { ApiError, call } from "../api";
import { memory } from "../state/prefs";
import { toast } from "../ui/bits";
import { ids } from "./attach";

export interface Sent {
  id: string;
  reference: string;
}

/** Files of one go. */
const MOST = 10;

/** A text with the first digits of each file's id instead of all 64, which nobody reads; the browser keeps the rest. */
const shortened = (text: string): string =>
  text.replace(/relay-file:([0-9a-f]{64}\.\w+)/g, (said, id: string) => {
    memory.set("files", [...ids().filter((one) => one !== id).slice(-50), id].join(" "));
    return ids().includes(id) ? `relay-file:${id.slice(0, 8)}` : said;
  });

/** Sends them one after the other; gives what the text says for those that the room has taken. */
export async function upload(files: readonly File[]): Promise<string> {
  if (files.length > MOST) toast(`${files.length} files at once are too many: the first ${MOST} are sent.`, { tone: "problem" });
  const taken: string[] = [];
  for (const file of files.slice(0, MOST)) {
    try {
      const sent = await call<Sent>("POST", `/api/files?name=${encodeURIComponent(file.name || "picture")}`, file);
      taken.push(sent.reference);
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      toast([problem.message, problem.fix].filter(Boolean).join(" "), { tone: "problem" });
    }
  }
  return shortened(taken.join("\n"));
}
