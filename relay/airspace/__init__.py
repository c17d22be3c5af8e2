"""How close the agents are in code-space, and what they are told before they collide (000)."""
