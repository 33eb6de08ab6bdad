"""Generated from `proto/cri`."""
