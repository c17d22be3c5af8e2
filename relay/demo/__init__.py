"""`relay demo`: three agents in one codebase, with the airspace and without it."""
