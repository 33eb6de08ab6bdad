"""Generated from `proto/memif/v1`."""
