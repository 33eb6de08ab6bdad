"""The scenes with the kubelet that ``KUBELET`` names; ``REPORT`` says where the page about it goes."""

import os
from pathlib import Path

import pytest

from tests.e2e.daemon import CHECKOUT
from tests.e2e_kubelet.real import RealKubelet, trouble
from tests.e2e_kubelet.report import Report
from tests.e2e_kubelet.scenes import Play, perform
from tests.integration.filesystem import short_place
from tests.rig.containerd import PrivateContainerd
from tests.rig.pods import pods_of


@pytest.mark.timeout(1800)
async def test_a_node_s_life_with_a_real_kubelet(containerd_rig: PrivateContainerd) -> None:
    program = os.environ["KUBELET"]
    if (reason := trouble(program)) is not None:
        pytest.fail(reason)
    with short_place() as place:
        async with pods_of(containerd_rig.socket, containerd_rig.home) as pods:
            driver = RealKubelet(program, root=place, pods=pods, runtime=containerd_rig.socket)
            report = Report("A node's life with a real kubelet", driver.about)
            try:
                with report.scene("0. The kubelet starts"):
                    await driver.start()
                await perform(Play(driver=driver, pods=pods, root=place, report=report))
            finally:
                report.write(Path(os.environ.get("REPORT", CHECKOUT / "build" / "e2e-kubelet.md")))
                await driver.close()
