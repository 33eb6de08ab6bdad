"""From values of the domain to the JSON that programs read."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from adapters._pb.memif.v1 import memif_pb2
from adapters.control import shapes, translate
from app.use_cases.reconcile import Reconciled
from domain import resync
from domain.adoption import Adoption
from domain.allocation import Owner
from domain.events import Event, EventType
from domain.evidence import Unknown
from domain.identity import PodUid
from domain.lookup import ContainerMemif, PodMemif
from domain.overview import Configuration, LastReconcile, Listed, Overview, PoolStatus, ViewStatus
from domain.ports.kubelet import Registration
from domain.ports.runtime import RuntimeIdentity
from domain.resync import Effect
from tests.unit.domain_values import RESOURCE, a_pool, a_runtime, an_allocation, an_owner

GRANTED = datetime(2030, 1, 2, 4, 4, 5, 250_000, tzinfo=timezone(timedelta(hours=1)))
SINCE = datetime(2030, 1, 2, 3, 0, tzinfo=UTC)
BOUND = an_allocation(devices=("contivpp.io/memif/63", "contivpp.io/memif/95"), owner=an_owner(), granted=GRANTED)
PENDING = replace(BOUND, owner=Owner())

OVERVIEW = Overview(
    version="1.2.3",
    instance="ab12",
    since=SINCE,
    identity=RuntimeIdentity(kind="containerd", version="1.6.20"),
    runtime=ViewStatus(None, SINCE),
    checkpoint=ViewStatus("it is not JSON", SINCE),
    restarts=2,
    pools=(
        PoolStatus(
            resource=RESOURCE,
            registration=Registration(registered=True, watched=True, endpoint="a.sock", registrations=3),
            listed=100,
            healthy=99,
            allocated=5,
            reason=None,
        ),
    ),
    pending=1,
    bound=4,
    reconcile=LastReconcile(ended=SINCE),
    configuration=Configuration(loaded=SINCE),
)


def sent(message: Any) -> Any:
    """Return what arrives at the other end."""
    return type(message).FromString(message.SerializeToString())


def an_allocation_shape(*, secrets: bool = False) -> dict[str, Any]:
    return shapes.allocation(sent(translate.allocation(BOUND, secrets=secrets)))


class TestAllocations:
    def test_a_bound_one(self) -> None:
        held_by = ("container:c", "grace 12s")
        (shape,) = [
            shapes.allocation(each)
            for each in sent(translate.allocations((Listed(BOUND, held_by, running=True),), secrets=False)).allocations
        ]

        assert shape == {
            "id": BOUND.id,
            "resource": RESOURCE,
            "devices": ["contivpp.io/memif/63", "contivpp.io/memif/95"],
            "state": "bound",
            "pod": {"namespace": "telco", "name": "cnf", "uid": BOUND.owner.uid},
            "container": "dataplane",
            "host_socket": BOUND.host_socket,
            "container_socket": "/run/vpp/memif.sock",
            "secret": "***",
            "granted": "2030-01-02T03:04:05.250Z",
            "held_by": ["container:c", "grace 12s"],
            "running": True,
        }

    def test_of_a_pending_one_nothing_is_made_up(self) -> None:
        shape = shapes.allocation(sent(translate.allocation(PENDING, secrets=False)))

        assert (shape["state"], shape["pod"], shape["container"]) == ("pending", None, None)

    def test_what_is_known_of_an_owner_is_told(self) -> None:
        partly = replace(BOUND, owner=Owner(uid=PodUid("u"), container="app"))
        shape = shapes.allocation(sent(translate.allocation(partly, secrets=False)))

        assert shape["pod"] == {"namespace": None, "name": None, "uid": "u"}
        assert (shape["state"], shape["container"]) == ("pending", "app")

    def test_a_secret_leaves_only_where_it_was_asked_for(self) -> None:
        secret = BOUND.secret.reveal()
        without = translate.allocation(BOUND, secrets=False).SerializeToString()

        assert secret.encode() not in without
        assert an_allocation_shape()["secret"] == "***"
        assert an_allocation_shape(secrets=True)["secret"] == secret

    def test_in_a_journal_nobody_knows_what_holds_it(self) -> None:
        assert shapes.recorded(BOUND, forced=False) == {**an_allocation_shape(), "held_by": None}
        assert shapes.recorded(BOUND, forced=True)["held_by"] == ["forced"]

    def test_a_state_of_a_newer_daemon_is_not_known(self) -> None:
        message = translate.allocation(BOUND, secrets=False)
        message.state = 77  # type: ignore[assignment]  # as a newer daemon might

        assert shapes.allocation(sent(message))["state"] is None


def test_a_pod() -> None:
    found = PodMemif(
        namespace="telco",
        name="cnf",
        uid=PodUid("u"),
        stale=True,
        containers=(ContainerMemif(name="app", allocation=BOUND), ContainerMemif(name=None, allocation=PENDING)),
    )
    shape = shapes.pod(sent(translate.pod(found, secrets=False)))

    assert shape["pod"] == {"namespace": "telco", "name": "cnf", "uid": "u"}
    assert shape["stale"] is True
    assert shape["containers"][0] == {
        "name": "app",
        "resource": RESOURCE,
        "allocation": BOUND.id,
        "devices": list(BOUND.devices),
        "host_socket": BOUND.host_socket,
        "container_socket": "/run/vpp/memif.sock",
        "secret": "***",
        "state": "bound",
    }
    assert (shape["containers"][1]["name"], shape["containers"][1]["state"]) == (None, "pending")
    assert shapes.pod(sent(translate.pod(replace(found, uid=None), secrets=False)))["pod"]["uid"] is None
    secrets = [each["secret"] for each in shapes.pod(sent(translate.pod(found, secrets=True)))["containers"]]
    assert secrets == [BOUND.secret.reveal(), PENDING.secret.reveal()]


@pytest.mark.parametrize("type_", EventType)
def test_an_event(type_: EventType) -> None:
    shape = shapes.event(sent(translate.event(Event(7, type_, BOUND), "one", secrets=False)))

    assert shape == {"instance": "one", "seq": 7, "type": type_.value, "allocation": an_allocation_shape()}


def test_a_bookmark_is_of_no_allocation() -> None:
    assert shapes.event(sent(translate.event(Event(0, EventType.SYNCED, None), "one", secrets=True))) == {
        "instance": "one",
        "seq": 0,
        "type": "SYNCED",
        "allocation": None,
    }


EFFECTS: list[tuple[Effect, dict[str, Any]]] = [
    (resync.Release(id=BOUND.id, reason="gone"), {"effect": "release", "allocation": BOUND.id, "reason": "gone"}),
    (
        resync.Own(id=BOUND.id, owner=an_owner()),
        {"effect": "own", "allocation": BOUND.id, "reason": "its owner became known"},
    ),
    (
        resync.Adopt(adoption=Adoption(allocation=BOUND, pool=a_pool()), reason="named"),
        {"effect": "adopt", "allocation": BOUND.id, "reason": "named"},
    ),
    (resync.Repair(id=BOUND.id, reason="missing"), {"effect": "repair", "allocation": BOUND.id, "reason": "missing"}),
    (
        resync.Sweep(host_dir="/x", id=BOUND.id, reason="nobody"),
        {"effect": "sweep", "allocation": BOUND.id, "reason": "nobody"},
    ),
    (resync.Ask(reason="dead"), {"effect": "ask", "allocation": None, "reason": "dead"}),
    (resync.Wait(id=None, reason="later"), {"effect": "wait", "allocation": None, "reason": "later"}),
    (resync.Wait(id=BOUND.id, reason="later"), {"effect": "wait", "allocation": BOUND.id, "reason": "later"}),
]


def test_what_a_reconcile_decided() -> None:
    done = Reconciled(
        runtime=a_runtime(), checkpoint=Unknown("it is not JSON"), effects=tuple(effect for effect, _ in EFFECTS)
    )
    shape = shapes.reconcile(sent(translate.outcome(done, dry_run=True)))

    assert shape == {
        "dry_run": True,
        "views": {"runtime": "known", "checkpoint": "unknown: it is not JSON"},
        "effects": [told for _, told in EFFECTS],
    }
    assert {type(effect) for effect, _ in EFFECTS} == set(Effect.__args__)


class TestStatus:
    def test_of_a_daemon_that_is_well(self) -> None:
        assert shapes.status(sent(translate.overview(OVERVIEW))) == {
            "version": "1.2.3",
            "instance": "ab12",
            "role": "active",
            "since": "2030-01-02T03:00:00Z",
            "runtime": {
                "kind": "containerd",
                "version": "1.6.20",
                "reachable": True,
                "since": "2030-01-02T03:00:00Z",
            },
            "kubelet": {"reachable": True, "restarts": 2},
            "views": {"runtime": "known", "checkpoint": "unknown: it is not JSON since 2030-01-02T03:00:00Z"},
            "pools": [
                {
                    "resource": RESOURCE,
                    "registered": True,
                    "watched": True,
                    "capacity": 100,
                    "healthy": 99,
                    "allocated": 5,
                    "endpoint": "a.sock",
                    "reason": None,
                }
            ],
            "allocations": {"pending": 1, "bound": 4},
            "reconcile": {"last": "2030-01-02T03:00:00Z", "result": "ok", "reason": None},
            "config": {"loaded": "2030-01-02T03:00:00Z", "error": None},
        }

    def test_of_a_daemon_that_knows_nothing_yet(self) -> None:
        pool = replace(OVERVIEW.pools[0], registration=Registration(), reason="waiting for the kubelet to start")
        overview = replace(
            OVERVIEW, identity=None, runtime=ViewStatus("not read yet", SINCE), pools=(pool,), reconcile=None
        )
        shape = shapes.status(sent(translate.overview(overview)))

        assert shape["runtime"] == {"kind": None, "version": None, "reachable": False, "since": "2030-01-02T03:00:00Z"}
        assert shape["kubelet"]["reachable"] is False
        assert shape["pools"][0]["endpoint"] is None
        assert shape["pools"][0]["reason"] == "waiting for the kubelet to start"
        assert shape["reconcile"] == {"last": None, "result": None, "reason": None}

    def test_of_a_daemon_that_is_not_well(self) -> None:
        overview = replace(
            OVERVIEW,
            reconcile=LastReconcile(ended=SINCE, error="OSError: broken"),
            configuration=Configuration(loaded=SINCE, error="pools.0: no"),
        )
        shape = shapes.status(sent(translate.overview(overview)))

        assert shape["reconcile"] == {"last": "2030-01-02T03:00:00Z", "result": "error", "reason": "OSError: broken"}
        assert shape["config"]["error"] == "pools.0: no"

    def test_of_a_daemon_that_says_less_than_this_one(self) -> None:
        """An older daemon leaves fields out, which are not known then."""
        shape = shapes.status(memif_pb2.GetStatusResponse())

        assert json.loads(json.dumps(shape)) == shape
        assert (shape["since"], shape["runtime"]["since"], shape["config"]["loaded"]) == (None, None, None)
