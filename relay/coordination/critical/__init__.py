"""The critical operations, each as one statement, on an engine that has them."""
