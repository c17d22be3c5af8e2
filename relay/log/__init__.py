"""The append-only event log: events, lanes, followers, and the stores that hold them."""
