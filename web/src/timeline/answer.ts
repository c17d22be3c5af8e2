/** An answer of the room's for a part of the page: the newest one that was asked for, or why there is none. */

import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api";

export const problemOf = (error: unknown): string => {
  if (!(error instanceof ApiError)) throw error;
  return [error.message, error.fix].filter(Boolean).join(" ");
};

/** `ask` gives null where nothing is to be asked. It is asked anew when one of `of` changes. */
export function useAnswer<T>(ask: () => Promise<T> | null, of: readonly unknown[]): { found: T | null; problem: string } {
  const [answer, setAnswer] = useState<{ found: T | null; problem: string }>({ found: null, problem: "" });
  useEffect(() => {
    let gone = false;
    setAnswer({ found: null, problem: "" });
    ask()?.then(
      (found) => { if (!gone) setAnswer({ found, problem: "" }); },
      (error: unknown) => { if (!gone) setAnswer({ found: null, problem: problemOf(error) }); },
    );
    return () => { gone = true; };
  }, of);
  return answer;
}
