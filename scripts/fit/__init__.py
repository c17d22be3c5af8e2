"""Scripts that fit the constants of the code to recorded data."""
