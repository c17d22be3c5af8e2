/** Notices of the room, and commands that it answers, which name verifications and approvals. */
export const VERIFIED: ReadonlySet<string> = new Set(["verification", "approval", "landing", "/verify", "/approve", "/reject", "/land"]);
