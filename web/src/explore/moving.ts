import type { Exploration } from "./types";

/** Does something still happen by itself? */
export const moving = (one: Exploration): boolean => one.state !== "waiting" && one.state !== "done" && one.state !== "ended";
