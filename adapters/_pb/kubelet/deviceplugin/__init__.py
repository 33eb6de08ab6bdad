"""Generated from `proto/kubelet/deviceplugin`."""
