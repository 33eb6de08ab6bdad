"""Generated from `proto/memif`."""
