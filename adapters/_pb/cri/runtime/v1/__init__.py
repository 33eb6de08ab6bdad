"""Generated from `proto/cri/runtime/v1`."""
