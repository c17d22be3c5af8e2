/** What a person chooses for a conflict. */

import { ApiError } from "../api";
import { api } from "../api_views";
import { loadConflicts } from "../state/conflicts";

/** One of the five choices, as `/resolve` has them. What the room refuses is given back in its words, "" = it is done. */
export async function choose(number: number, choice: number, text?: string): Promise<{ said: string; refused: string }> {
  try {
    const done = await api.resolve(number, choice, text);
    return { said: done.reason ?? "", refused: "" };
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    return { said: "", refused: [problem.message, problem.fix].filter(Boolean).join(" ") };
  } finally {
    await loadConflicts();
  }
}
