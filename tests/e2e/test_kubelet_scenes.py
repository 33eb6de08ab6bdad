"""The play for a real kubelet, with the kubelet double in its place, on a real containerd."""

from pathlib import Path

import pytest

from tests.e2e_kubelet.real import manifest, trouble
from tests.e2e_kubelet.report import Report
from tests.e2e_kubelet.scenes import CNF, SCENES, Play, perform
from tests.e2e_kubelet.stand_in import StandIn
from tests.integration.filesystem import short_place
from tests.rig.containerd import PrivateContainerd
from tests.rig.pods import pods_of


async def test_a_node_s_life_is_played_to_its_end_and_written_down(
    containerd_rig: PrivateContainerd, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    with short_place() as place:
        async with pods_of(containerd_rig.socket, containerd_rig.home) as pods:
            driver = StandIn(root=place, pods=pods, runtime=containerd_rig.socket)
            report = Report("A node's life", driver.about)
            try:
                await driver.start()
                await perform(Play(driver=driver, pods=pods, root=place, report=report))
            finally:
                await driver.stop()
                report.write(page)

    text = page.read_text(encoding="utf-8")
    assert text.count("\n## ") == len(SCENES)
    assert "Every scene was played to its end." in text
    assert "**" not in text


def test_what_does_not_hold_ends_the_play_and_is_written_down(tmp_path: Path) -> None:
    report = Report("A node's life", "nothing at all")
    with pytest.raises(AssertionError, match="water is dry"), report.scene("1. A lie"):
        report.check(holds=False, text="water is dry")
    report.write(tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")

    assert "* **NO**: water is dry" in text
    assert "Not every scene was played." in text


def test_a_real_kubelet_is_given_what_the_double_is() -> None:
    """Beside the kubelet's program itself, this is what is not tried with the double."""
    written = manifest(CNF)
    setup, side = written["spec"]["initContainers"]
    dataplane, monitor = written["spec"]["containers"]

    assert (setup["name"], setup.get("restartPolicy")) == ("setup", None)
    assert (side["name"], side["restartPolicy"]) == ("side", "Always")
    assert dataplane["resources"] == {"limits": {"contivpp.io/memif": "2"}}
    assert monitor["resources"] == {"limits": {"contivpp.io/memif": "1"}}
    assert written["metadata"] == {"name": "cnf", "namespace": "telco", "annotations": {"nonce": ""}}
    assert "KUBELET=/nonexistent" in str(trouble("/nonexistent"))
