"""Which NUMA nodes the machine has."""

from pathlib import Path

import pytest

from adapters.kubelet import numa
from domain.identity import DeviceId
from domain.pool import Device


@pytest.mark.parametrize(
    "text, nodes",
    [("0\n", {0}), ("0-3\n", {0, 1, 2, 3}), ("0-1,4,6-7\n", {0, 1, 4, 6, 7}), ("", None), ("all", None), ("1-", {1})],
)
def test_the_kernels_list_is_read(
    text: str, nodes: set[int] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "online").write_text(text, encoding="ascii")
    monkeypatch.setattr(numa, "ONLINE", tmp_path / "online")

    assert numa.online() == nodes


def test_a_kernel_without_such_a_list_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numa, "ONLINE", tmp_path / "online")

    assert numa.online() is None


def test_this_machine_has_one() -> None:
    nodes = numa.online()

    assert nodes is None or 0 in nodes


def test_devices_lose_a_node_that_is_missing_and_keep_any_other() -> None:
    devices = [Device(id=DeviceId(name), numa_node=node) for name, node in (("a", 0), ("b", 7), ("c", None))]

    assert numa.missing(devices, {0, 1}) == (7,)
    assert [each.numa_node for each in numa.without((7,), devices)] == [0, None, None]
    assert [each.id for each in numa.without((7,), devices)] == ["a", "b", "c"]
