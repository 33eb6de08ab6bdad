"""The plan as a whole, for whatever there may be in ledger and evidence."""

import re
from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.allocation import Allocation
from domain.answer import Answer, Mount
from domain.evidence import CheckpointView, Evidence, ObjectKind, ObjectState, RuntimeObject, RuntimeView, Unknown
from domain.identity import AllocationId, PodUid
from domain.ledger import Ledger, Record, Standing
from domain.resource import ResourceName
from domain.resync import Adopt, Policy, Release, Repair, Sweep, Wait, plan
from tests.unit.domain_values import NOW, a_base, a_pool, an_entry, an_id, numbered
from tests.unit.domain_values import owners as some_owners
from tests.unit.resync_scene import BASE, GRACE, RESOLVED, State

POOLS = (
    a_pool(capacity=4),
    a_pool(
        capacity=4, resource=ResourceName("example.com/fast"), host_dir="/var/run/fast", annotation_prefix="com.fast"
    ),
    a_pool(capacity=2, host_dir="/var/run/earlier"),
)
IDS = tuple(an_id(number) for number in range(3))
PATHS = (*(f"{pool.host_dir}/{name}" for pool in POOLS for name in IDS), f"{RESOLVED}/{IDS[0]}/x", "/dev", "")

moments = st.sampled_from((0.0, 10.0, GRACE, 40.0, 70.0))
uids = st.sampled_from(("uid-1", "uid-2", "uid-3")).map(PodUid)
unknown = st.just(Unknown("connection refused"))
paths = st.sampled_from(PATHS) | st.text()
texts = st.dictionaries(st.text(max_size=3) | st.just("io.contivpp.memif.socket.host"), paths, max_size=2)


def allocation(number: int, place: int) -> Allocation:
    """Return an allocation of one of the pools."""
    return numbered(number, pool=POOLS[place], devices=(POOLS[place].device(number % 2),))


objects = st.builds(
    RuntimeObject,
    id=st.text(max_size=3),
    kind=st.sampled_from(ObjectKind),
    state=st.sampled_from(ObjectState),
    uid=st.none() | uids,
    namespace=st.none() | st.just("telco"),
    name=st.none() | st.sampled_from(("cnf", "probe")),
    container=st.none() | st.text(max_size=3),
    mounts=texts,
    claimed=texts,
)
broken = st.builds(
    Answer,
    mounts=st.lists(st.builds(Mount, host_path=paths, container_path=paths), max_size=2).map(tuple),
    annotations=texts,
)
answered = st.builds(
    lambda number, place, uid, container: an_entry(allocation(number, place), uid, container, POOLS[place]),
    st.integers(0, 2),
    st.integers(0, 2),
    uids,
    st.sampled_from(("app", "side")),
)
entries = answered | st.builds(
    lambda entry, answer, resource: replace(entry, answer=answer, resource=ResourceName(resource)),
    answered,
    broken,
    st.sampled_from(("contivpp.io/memif", "nvidia.com/gpu")),
)
records = st.builds(
    lambda number, place, owner, standing, touched, inode: Record(
        allocation=replace(allocation(number, place), owner=owner), standing=standing, touched=touched, inode=inode
    ),
    st.integers(0, 2),
    st.integers(0, 2),
    some_owners,
    st.sampled_from(Standing),
    moments,
    st.none() | st.integers(1, 4),
)
ledgers = st.lists(records, max_size=4).map(
    lambda made: Ledger(MappingProxyType({record.allocation.id: record for record in made}))
)
bases = st.sampled_from(POOLS).flatmap(
    lambda pool: st.builds(
        lambda inodes: a_base(
            host_dir=pool.host_dir,
            spellings=frozenset({pool.host_dir, RESOLVED} if pool.host_dir == BASE else {pool.host_dir}),
            inodes=inodes,
        ),
        st.dictionaries(st.sampled_from(IDS), st.integers(1, 4), max_size=3),
    )
)
first_times = st.dictionaries(st.sampled_from(PATHS), moments, min_size=5, max_size=9)
runtimes = st.builds(RuntimeView, began=moments, objects=st.lists(objects, max_size=2).map(tuple))
checkpoints = st.builds(CheckpointView, began=moments, entries=st.lists(entries, max_size=2).map(tuple))
evidences = st.builds(
    Evidence,
    runtime=st.one_of(runtimes, runtimes, runtimes, unknown),
    checkpoint=st.one_of(checkpoints, checkpoints, checkpoints, unknown),
    directories=st.lists(bases, max_size=3, unique_by=lambda view: view.host_dir).map(tuple),
    empty_runtime_doubted=st.sampled_from((False, False, True)),
    first_seen=first_times,
)
policies = st.builds(Policy, grace=st.just(GRACE), may_ask=st.booleans())


many = settings(max_examples=120)


def unseen(known: Ledger, seen: Evidence) -> Evidence:
    """Return evidence in which nothing counts as first seen that the ledger knows, as it is gathered."""
    times = {path: time for path, time in seen.first_seen.items() if path.rpartition("/")[2] not in known}
    return replace(seen, first_seen=times)


def users(known: Ledger, seen: Evidence) -> set[AllocationId]:
    """Return the ids that evidence names in any base directory that there is."""
    bases = {pool.host_dir for pool in POOLS} | {record.allocation.host_dir for record in known}
    bases = bases.union(*(view.spellings for view in seen.directories))
    found = [re.match(r"([a-z/]*)/([a-z0-9]{20})(/|\Z)", path) for path in _paths(seen)]
    return {AllocationId(match[2]) for match in found if match and match[1] in bases}


def _paths(seen: Evidence) -> Iterable[str]:
    for each in seen.runtime.objects if isinstance(seen.runtime, RuntimeView) else ():
        if each.kind is ObjectKind.CONTAINER:
            yield from (*each.mounts.values(), *each.claimed.values())
    for entry in seen.checkpoint.entries if isinstance(seen.checkpoint, CheckpointView) else ():
        yield from (mount.host_path for mount in entry.answer.mounts)


@many
@given(ledgers, evidences, policies)
def test_everything_is_done_once(known: Ledger, seen: Evidence, policy: Policy) -> None:
    """After the effects, the same evidence at the same time gives nothing but waiting.

    Of the evidence, only what lies in the base directories changes by what is done there: a repaired directory has
    the inode that the record has, a removed one is gone.
    """
    before = State(ledger=known, evidence=unseen(known, seen), policy=policy)
    planned = plan(before.ledger, before.evidence, POOLS, before.policy, now=NOW)

    after = before.after(planned, at=70.0)

    again = plan(after.ledger, after.evidence, POOLS, after.policy, now=NOW)
    assert [effect for effect in again if not isinstance(effect, Wait)] == []


@many
@given(ledgers, evidences, policies)
def test_nothing_goes_that_should_stay(known: Ledger, seen: Evidence, policy: Policy) -> None:
    """Said once more, another way round: nothing is removed that evidence names, knows too little of, or is too young
    for; only a release that was interrupted goes on without asking for more than that nobody is seen to hold it."""
    planned = plan(known, seen, POOLS, policy, now=NOW)

    gone = {effect.id for effect in planned if isinstance(effect, Release)}
    swept = {(effect.host_dir, effect.id) for effect in planned if isinstance(effect, Sweep)}
    decided = {name for name in gone if known.records[name].standing is not Standing.RELEASING}
    began = [view.began for view in (seen.runtime, seen.checkpoint) if not isinstance(view, Unknown)]
    assert not (gone | {name for _, name in swept}) & users(known, seen)
    assert not {name for _, name in swept} & set(known.records)
    if decided or swept:
        assert len(began) == 2
        assert not seen.empty_runtime_doubted
        assert all(known.records[name].touched + GRACE <= min(began) for name in decided)
        assert all(seen.first_seen[f"{host_dir}/{name}"] + GRACE <= min(began) for host_dir, name in swept)


@many
@given(ledgers, evidences, policies)
def test_everybody_waits_or_goes(known: Ledger, seen: Evidence, policy: Policy) -> None:
    """Each record is told once what becomes of it, so that people can be told why something is still there."""
    planned = plan(known, seen, POOLS, policy, now=NOW)

    told = [str(effect.id) for effect in planned if isinstance(effect, Wait | Release) and effect.id in known]
    repaired = {effect.id for effect in planned if isinstance(effect, Repair)}
    assert sorted(told) == sorted(known.records)
    assert repaired <= {record.allocation.id for record in known if record.standing is Standing.LIVE}


@many
@given(ledgers, evidences, policies, st.sampled_from(ObjectState))
def test_the_state_of_what_exists_decides_only_whether_its_claim_counts(
    known: Ledger, seen: Evidence, policy: Policy, state: ObjectState
) -> None:
    """States may be wrong: a container that was created before anybody listened to containerd looks like an ended one.

    It keeps what it mounts all the same, and nothing is released, swept or repaired otherwise.
    """
    shown = seen.runtime
    if isinstance(shown, RuntimeView):
        shown = replace(shown, objects=tuple(replace(each, state=state) for each in shown.objects))
    others = [effect for effect in plan(known, seen, POOLS, policy, now=NOW) if not isinstance(effect, Adopt)]

    again = plan(known, replace(seen, runtime=shown), POOLS, policy, now=NOW)

    assert [effect for effect in again if not isinstance(effect, Adopt)] == others
