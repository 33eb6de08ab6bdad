"""Packets through what is handed out: DPDK in containers of real runtimes, and as the node's dataplane."""

import os
import sys
from collections.abc import AsyncIterator

import pytest

from tests.e2e.commands import ran
from tests.e2e.daemon import RESOURCE, a_stand, soon
from tests.e2e.dpdk import Client, Node, block, cnf, dataplane, offered, serving, verbose
from tests.e2e.real_runtimes import RealContainerd, RealDocker, RealRuntime
from tests.integration import testpmd
from tests.integration.nodes import app, pod
from tests.rig.pods import pods_of

pytestmark = pytest.mark.timeout(300)
"""Seconds: several programs that never rest share a processor with whatever else the machine does."""

NOBODY = 65534

CLIENT = verbose(block("dpdk-pod")).rstrip() + " -i --auto-start\n"
"""As our users are told to, and so that it can be told more."""

_GIVEN = "socket=$MEMIF_SOCKET,socket-abstract=no,secret="
WRONG_FOR_2 = CLIENT.replace(f"id=2,{_GIVEN}$MEMIF_SECRET", f"id=2,{_GIVEN}Another")

FOR_TWO = block("dpdk-node").replace(
    "  -- ",
    "  --vdev=net_memif2,role=server,id=1,socket=$OTHER_SOCKET,socket-abstract=no,secret=$OTHER_SECRET \\\n  -- ",
)
"""As they are told to, and one interface more, for another container."""


@pytest.fixture(params=["docker", "cri"])
async def runtime(request: pytest.FixtureRequest) -> AsyncIterator[RealRuntime]:
    """A runtime without pods; in continuous integration it must be there, and DPDK too."""
    reason = testpmd.missing()
    if reason is not None and os.environ.get("CI") == "true":
        pytest.fail(reason)
    if reason is not None:
        pytest.skip(reason)
    if request.param == "docker":
        rig = request.getfixturevalue("docker_rig")
        yield RealDocker(rig)
        rig.clear()
        return
    rig = request.getfixturevalue("containerd_rig")
    async with pods_of(rig.socket, rig.home) as pods:
        yield RealContainerd("cri", rig, pods)


@pytest.fixture
async def node(runtime: RealRuntime) -> AsyncIterator[Node]:
    async with a_stand() as stand:
        made = Node(stand, runtime)
        yield made
        sys.stdout.write(made.clients_said())  # shown when a test fails


async def test_packets_flow_on_both_interfaces_whatever_restarts_and_then_nothing_is_left(node: Node) -> None:
    daemon = await node.stand.registered()
    shown, _ = cnf()
    one = await node.stand.node.admit(shown)
    given = (await node.given(one))["dataplane"]
    async with dataplane(given) as first:
        await node.run(one, {"dataplane": Client(commands=CLIENT)})
        await first.flows(0, 1)

        probe = await ran("probe", "telco/cnf", "--json", "--control-socket", node.control_socket)
        assert (probe.code, probe.json["error"]["reason"]) == (7, "IN_USE")
        probe = await ran("probe", "telco/cnf", "--force", "--json", "--control-socket", node.control_socket)
        assert (probe.code, probe.json["refusal"]) == (1, "Already connected")
        await first.flows(0, 1)

        await daemon.kill()
        await first.flows(0, 1)
        daemon = await node.stand.registered()
        await first.flows(0, 1)
        await node.stand.node.restart_kubelet()
        await daemon.registered(times=2)
        await first.flows(0, 1)
        await node.rests("dataplane")

    assert (await node.given(one))["dataplane"] == {**given, "state": "bound"}
    async with dataplane(given) as second:
        node.tell("dataplane", block("dpdk-again"))
        await second.flows(0, 1)
        await node.rests("dataplane", times=2)

    await node.execute("dataplane", "mkdir", "-p", "/run/vpp/log/deep")
    await node.execute("dataplane", "touch", "/run/vpp/cli.sock", "/run/vpp/log/deep/trace")
    await node.delete(one)
    await daemon.says("released", allocation=given["allocation"])
    await soon(lambda: node.stand.directories == set())
    assert await daemon.stop() == 0
    assert node.stand.recorded == set()


async def test_only_the_right_secret_and_the_right_group_pass_packets(node: Node) -> None:
    """The dataplane offers three interfaces; packets on the first show each time that they could come."""
    _, group = cnf()
    node.stand.pool["directory_group"] = group
    await node.stand.registered()
    one = await node.stand.node.admit(pod("cnf", app("member", 2, RESOURCE), app("stranger", 1, RESOURCE)))
    given = await node.given(one)
    clients = {
        "member": Client(commands=WRONG_FOR_2, user=NOBODY, groups=(group,)),
        "stranger": Client(commands=CLIENT, user=NOBODY),
    }
    async with serving(FOR_TWO, offered(given["member"], given["stranger"])) as pmd:
        await node.run(one, clients)
        await node.says("member", "Incorrect secret")
        await node.says("stranger", "Invalid socket directory")  # it is not even let in
        await pmd.flows(0)
        mounts = {each: await node.execute(each, "cat", "/proc/self/mountinfo") for each in given}
        sockets = await node.execute("member", "find", "/run", "-name", "memif.sock")
        await node.delete(one)

    assert (pmd.packets[1], pmd.packets[2]) == (0, 0)
    assert sockets == "/run/vpp/memif.sock\n"
    for each, other in (("member", "stranger"), ("stranger", "member")):
        assert given[each]["allocation"] in mounts[each]
        assert given[other]["allocation"] not in mounts[each]
