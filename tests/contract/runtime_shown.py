"""What a container runtime must show of what exists."""

import asyncio
from typing import Final

import pytest

from domain.evidence import ObjectKind, ObjectState
from tests.contract.runtime_stage import PATIENCE, PREFIX, SECRET, Stage, claims, cnf, containers_of, directory

HOSTILE: Final = {
    "climbing": "/var/run/contiv/memif/../../../etc/shadow/memif.sock",
    "elsewhere": "/etc/bcdfghjklmnpqrstvwxz/memif.sock",
    "empty": "",
    "control characters": "a\nb\x1b[2Jc",
    "no ascii": "\u202e\U0001f4a3",
    "large": "x" * 200_000,
}
"""What somebody may write who means no good, or knows no better."""


class ShowsWhatExists:
    """A part of :class:`tests.contract.runtime.RuntimeContract`."""

    async def test_a_node_without_pods_is_a_known_and_empty_view(self, stage: Stage) -> None:
        view = await stage.runtime.snapshot()

        assert view.objects == ()

    async def test_a_sandbox_shows_its_pod(self, stage: Stage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})

        view = await stage.runtime.snapshot()

        (thing,) = view.objects
        assert (thing.id, thing.kind) == (sandbox, ObjectKind.SANDBOX)
        assert (thing.uid, thing.namespace, thing.name, thing.container) == ("uid-1", "telco", "cnf", None)

    async def test_a_container_shows_its_pod_and_its_name(self, stage: Stage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        container = await stage.container(sandbox, "dataplane", mounts={}, annotations={})

        thing = (await containers_of(stage))[container]

        assert (thing.uid, thing.namespace, thing.name) == ("uid-1", "telco", "cnf")
        assert thing.container == "dataplane"

    async def test_pods_of_one_name_in_two_namespaces_are_told_apart(self, stage: Stage) -> None:
        for uid, namespace in (("uid-1", "red"), ("uid-2", "blue")):
            sandbox = await stage.sandbox(uid, namespace, "cnf", {})
            await stage.container(sandbox, "a", mounts={}, annotations={})

        found = {(thing.uid, thing.namespace) for thing in (await containers_of(stage)).values()}

        assert found == {("uid-1", "red"), ("uid-2", "blue")}

    async def test_a_pod_made_again_under_its_name_is_another_pod(self, stage: Stage) -> None:
        """The old one's containers exist until the kubelet removes them, beside the new one's."""
        made = {}
        for uid in ("uid-1", "uid-2"):
            sandbox = await stage.sandbox(uid, "telco", "cnf", {})
            made[await stage.container(sandbox, "a", mounts={}, annotations={})] = uid

        found = {thing.id: thing.uid for thing in (await containers_of(stage)).values()}

        assert found == made

    async def test_a_container_names_the_directory_that_it_mounts(self, stage: Stage) -> None:
        container = await cnf(stage)

        thing = (await containers_of(stage))[container]

        assert thing.mounts.get("/run/vpp") == directory(stage)

    async def test_the_pools_annotations_of_a_container_are_claims_and_others_are_not(self, stage: Stage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        others = {"example.com/mine": "x", f"{PREFIX}elsewhere.secret": "another pool's", PREFIX: "not below it"}
        container = await stage.container(
            sandbox, "a", mounts={"/run/vpp": directory(stage)}, annotations={**claims(stage), **others}
        )

        thing = (await containers_of(stage))[container]

        assert thing.claimed == claims(stage)

    async def test_a_sandbox_shows_what_its_pod_claims_and_mounts_nothing_of_it(self, stage: Stage) -> None:
        """A pod's annotations are copied to its sandbox, and any tenant can write them: shown to be counted only."""
        await stage.sandbox("uid-1", "telco", "cnf", {**claims(stage), "example.com/mine": "x"})

        (thing,) = (await stage.runtime.snapshot()).objects

        assert thing.claimed == claims(stage)
        assert directory(stage) not in thing.mounts.values()

    async def test_a_container_that_never_started_exists(self, stage: Stage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        container = await stage.container(sandbox, "a", mounts={}, annotations={})

        things = await containers_of(stage)

        assert things[container].state is ObjectState.CREATED

    async def test_a_container_that_runs_shows_so(self, stage: Stage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        container = await stage.container(sandbox, "a", mounts={}, annotations={})
        await stage.start(container)

        things = await containers_of(stage)

        assert things[container].state is ObjectState.RUNNING

    async def test_a_container_that_has_ended_still_exists_with_all_that_it_names(self, stage: Stage) -> None:
        """The kubelet keeps ended containers for a while, and may start the pod's next one on the same directory."""
        container = await cnf(stage)
        await stage.start(container)
        await stage.end(container)

        thing = (await containers_of(stage))[container]

        assert thing.state is ObjectState.EXITED
        assert thing.mounts.get("/run/vpp") == directory(stage)
        assert thing.claimed == claims(stage)

    async def test_a_removed_container_is_gone(self, stage: Stage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        container = await stage.container(sandbox, "a", mounts={}, annotations={})
        await stage.remove(container)

        view = await stage.runtime.snapshot()

        assert [thing.id for thing in view.objects] == [sandbox]

    async def test_no_claim_shows_in_a_printed_object(self, stage: Stage) -> None:
        """A claim may hold a secret, and objects end up in log lines and assertion messages."""
        await cnf(stage)

        view = await stage.runtime.snapshot()

        assert SECRET not in repr(view)

    async def test_a_container_that_carries_nothing_of_ours_claims_nothing(self, stage: Stage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        container = await stage.container(sandbox, "a", mounts={}, annotations={"example.com/mine": "x"})

        assert (await containers_of(stage))[container].claimed == {}

    @pytest.mark.parametrize("left_out", [".socket.host", ".socket.container", ".secret"])
    async def test_a_claim_of_which_a_part_is_missing_is_given_on_as_it_is(self, stage: Stage, left_out: str) -> None:
        partial = {key: text for key, text in claims(stage).items() if not key.endswith(left_out)}
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        container = await stage.container(sandbox, "a", mounts={}, annotations=partial)

        assert (await containers_of(stage))[container].claimed == partial

    @pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
    async def test_whatever_stands_in_a_claim_is_given_on_and_hides_nobody(self, stage: Stage, text: str) -> None:
        """It is the domain that judges; no mount comes of it."""
        honest = await cnf(stage)
        hostile = dict.fromkeys(claims(stage), text)
        sandbox = await stage.sandbox("uid-2", "telco", "hostile", hostile)
        container = await stage.container(sandbox, "a", mounts={}, annotations=hostile)

        found = await containers_of(stage)

        assert found[honest].claimed == claims(stage)
        assert found[container].claimed == hostile
        assert not {text, directory(stage)} & set(found[container].mounts.values())

    async def test_containers_of_one_pod_are_all_there_whether_they_run_or_have_ended(self, stage: Stage) -> None:
        """An init container that has ended, a sidecar and two others, each with a directory of its own."""
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        expected = {}
        for number, name in enumerate(("setup", "side", "dataplane", "control")):
            path = f"{stage.host_dir}/{number:020d}"
            made = await stage.container(sandbox, name, mounts={"/run/vpp": path}, annotations={})
            await stage.start(made)
            if name == "setup":
                await stage.end(made)
            state = ObjectState.EXITED if name == "setup" else ObjectState.RUNNING
            expected[made] = ("uid-1", name, state)

        found = await containers_of(stage)

        assert {key: (each.uid, each.container, each.state) for key, each in found.items()} == expected

    async def test_what_is_removed_during_a_reading_makes_none_fail_and_none_incomplete(self, stage: Stage) -> None:
        stays = await cnf(stage)
        sandbox = await stage.sandbox("uid-2", "telco", "goes", {})
        going = [
            await stage.container(sandbox, f"c{number}", mounts={}, annotations=claims(stage)) for number in range(3)
        ]

        async def read_until_all_are_gone() -> None:
            while set(going) & (found := await containers_of(stage)).keys():
                assert stays in found

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(read_until_all_are_gone())
            for each in going:
                await stage.remove(each)
