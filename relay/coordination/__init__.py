"""Locks, tasks, sessions and changesets: which agent works on what."""
