"""Who works on what: the board of tasks, from events."""
