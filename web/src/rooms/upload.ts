/** Files that are pasted, dropped or chosen: sent to the room, and named in the text. Comes as a file of its own. */

import { ApiError, call } from "../api";
import { toast } from "../ui/bits";

export interface Sent {
  id: string;
  reference: string;
}

/** Files of one go. */
const MOST = 10;

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
  return taken.join("\n");
}
