import { describe, expect, it } from "vitest";
import { summary } from "../src/state/said";
import type { Kind } from "../src/types";

const came = (speaker: string, body: string, kind: Kind = "agent") => ({ speaker, body, kind });

describe("what a reader of the screen is told of what came", () => {
  it.each([
    [[], ""],
    [[came("AVA", "It is **done**.")], "AVA: It is done."],
    [[came("RELAY", "CLEO was skipped.", "system")], "RELAY: CLEO was skipped."],
    [[came("RELAY", "noted", "system"), came("AVA", "Done.")], "AVA: Done. And 1 other message."],
    [[came("AVA", "a"), came("BEN", "b"), came("AVA", "c"), came("RELAY", "d", "system")], "4 new messages: AVA 2, BEN 1, RELAY 1"],
  ])("%#", (entries, said) => {
    expect(summary(entries)).toBe(said);
  });
});
