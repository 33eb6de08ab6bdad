"""A node as the look-up rule sees it, put together line by line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from domain.allocation import Allocation, Owner
from domain.evidence import CheckpointEntry, PodDevices, RuntimeObject, Unknown
from domain.identity import AllocationId, DeviceId, PodUid
from domain.ledger import Ledger
from domain.lookup import PodMemif, Question, Reading, look_up
from domain.pool import Pool
from domain.resource import ResourceName
from tests.unit.domain_values import a_checkpoint, a_pool, a_runtime, a_sandbox, an_entry, device_ids, numbered

NAMESPACE, NAME = "telco", "cnf"
"""The pod that is asked for."""

NEW, OLD, OTHER = PodUid("uid-new"), PodUid("uid-old"), PodUid("uid-other")

MEMIF = a_pool()
FAST = a_pool(
    resource=ResourceName("example.com/fast"),
    host_dir="/var/run/fast",
    container_dir="/run/fast",
    env_suffix="_FAST",
    annotation_prefix="com.example.fast",
)

SILENT = Unknown("connection refused")
"""A view that cannot be had."""

Listing = Mapping[str, Sequence[int]]
"""What the kubelet lists of a pod: indexes of memif devices by container."""


def listing(containers: Listing) -> PodDevices:
    """Return what the kubelet lists of the pod that is asked for."""
    held = {
        name: {MEMIF.resource: frozenset(device_ids(*indexes))} if indexes else {}
        for name, indexes in containers.items()
    }
    return PodDevices(namespace=NAMESPACE, name=NAME, containers=held)


@dataclass
class Scene:
    """What is in the ledger, in the kubelet's record and in the runtime; grants follow each other by seconds."""

    allocations: list[Allocation] = field(default_factory=list)
    entries: list[CheckpointEntry] = field(default_factory=list)
    objects: list[RuntimeObject] = field(default_factory=list)

    def grant(
        self,
        container: str,
        *indexes: int,
        uid: PodUid = NEW,
        pool: Pool = MEMIF,
        stored: bool = True,
        owned: bool = True,
        name: str | None = None,
        at: int | None = None,
    ) -> AllocationId:
        """Grant a container devices.

        ``stored``: the kubelet's record names it.  ``owned``: we know uid and container.  ``name``: we know the
        pod's name.  ``at``: the second of the grant, if it is not the next.
        """
        owner = Owner(uid=uid, container=container, namespace=None if name is None else NAMESPACE, name=name)
        number = len(self.allocations) + 1
        changes = {} if at is None else {"granted": numbered(at).granted}
        allocation = numbered(number, pool=pool, devices=device_ids(*indexes, pool=pool), **changes)
        self.allocations.append(allocation.owned_by(owner) if owned else allocation)
        if stored:
            self.entries.append(an_entry(allocation, uid, container, pool=pool))
        return allocation.id

    def sandbox(self, uid: PodUid = NEW, name: str = NAME, namespace: str = NAMESPACE) -> None:
        """Let a pod have a sandbox, which tells its name."""
        self.objects.append(a_sandbox(Owner(uid=uid, namespace=namespace, name=name), id=f"sandbox-of-{uid}"))

    def ask(
        self,
        kubelet: Listing | PodDevices | Unknown | None,
        uid: PodUid | None = None,
        *,
        checkpoint: Unknown | None = None,
        runtime: Unknown | None = None,
        disturbed: bool = False,
    ) -> PodMemif:
        """Look the pod up; a view that is not replaced by an unknown one is known and complete."""
        reading = Reading(
            kubelet=listing(kubelet) if isinstance(kubelet, Mapping) else kubelet,
            checkpoint=checkpoint or a_checkpoint(*self.entries),
            runtime=runtime or a_runtime(*self.objects),
            disturbed=disturbed,
        )
        ledger = Ledger().with_live(self.allocations, at=0.0)
        return look_up(
            Question(namespace=NAMESPACE, name=NAME, uid=uid), reading, ledger, (MEMIF.resource, FAST.resource)
        )


def held(found: PodMemif) -> list[tuple[str | None, AllocationId]]:
    """Return containers and allocations of an answer."""
    return [(each.name, each.allocation.id) for each in found.containers]


def devices(found: PodMemif) -> list[tuple[DeviceId, ...]]:
    """Return the ids of an answer, container by container."""
    return [each.allocation.devices for each in found.containers]
