"""The dependency graph of a repository: imports resolved to files, and the symbols of each file."""
