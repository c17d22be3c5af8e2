"""Memory: what agents learned, kept for the next time (004, "Episodic Memory")."""
