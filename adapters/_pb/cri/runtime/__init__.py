"""Generated from `proto/cri/runtime`."""
