"""Who may do what in a database of PostgreSQL: roles, and row-level security (docs/postgres.md)."""
