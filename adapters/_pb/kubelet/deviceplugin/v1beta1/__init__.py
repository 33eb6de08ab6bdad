"""Generated from `proto/kubelet/deviceplugin/v1beta1`."""
