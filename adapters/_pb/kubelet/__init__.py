"""Generated from `proto/kubelet`."""
