/** What the shapes of several parts are made of. */

/** Times are ISO 8601 text or Unix seconds; `instant()` in text/format.ts reads both. */
export type Time = string | number | null;

export type Level = "clear" | "advisory" | "resolution";

export type Point = readonly [number, number, number];

/** Line ranges (first, last), both included. */
export type Lines = readonly (readonly [number, number])[];
