"""How the outside talks to us; no rule of the domain lives here."""
