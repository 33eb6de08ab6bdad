"""Generated from `proto/kubelet/podresources/v1`."""
