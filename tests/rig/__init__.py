"""Real container runtimes for tests, private to a test run."""
