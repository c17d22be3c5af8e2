"""The dependency graph of a repository and its symbols, from source text."""
