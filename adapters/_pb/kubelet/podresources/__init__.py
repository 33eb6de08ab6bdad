"""Generated from `proto/kubelet/podresources`."""
