"""The whole daemon with a real kubelet: what a node's life looks like to it, scene by scene, with a report.

``KUBELET=/path/to/kubelet make e2e-kubelet`` runs it where the directory of device plugins is nobody else's; elsewhere
nothing of it is collected.  The scenes know the kubelet through :mod:`~tests.e2e_kubelet.driver` only, so the kubelet
double can stand in for it, and does in ``tests/e2e/test_kubelet_scenes.py``: what is not tried there is
:mod:`~tests.e2e_kubelet.real`.

Read :mod:`~tests.e2e_kubelet.scenes` first.
"""
