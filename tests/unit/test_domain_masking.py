"""No value of the domain shows a secret, however deep it lies, and no exception says one."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from enum import Enum
from string import ascii_uppercase
from types import NoneType, UnionType
from typing import Any, NewType, Union, cast, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

import domain
from domain.adoption import Adoption, adoption
from domain.allocation import Allocation, Directory, File
from domain.answer import Answer, Claim, claim
from domain.claims import Judgement
from domain.errors import MemifError
from domain.evidence import CheckpointEntry, Evidence, PodDevices, RuntimeObject, Unknown
from domain.grant import Draw, Grant, plan
from domain.ledger import Ledger, Record, Standing
from domain.lookup import Question, Reading, look_up
from domain.pool import Pool, SecretDelivery
from domain.ports.journal import Recovered
from domain.resync import Adopt
from domain.secret import LONGEST_SECRET, SHORTEST_SECRET, Secret
from domain.start import Start
from tests.unit import domain_values as values
from tests.unit.domain_values import (
    NOW,
    a_checkpoint,
    a_draw,
    a_pool,
    a_runtime,
    an_entry,
    an_object,
    an_owner,
    device_ids,
)

secrets = st.text(ascii_uppercase, min_size=SHORTEST_SECRET, max_size=LONGEST_SECRET).map(Secret)
"""Secrets that stand nowhere else by chance."""

SOURCES = (Secret, File, Answer, RuntimeObject)
"""Values that may hold a secret themselves."""


def everything(pool: Pool, secret: Secret) -> Iterator[object]:
    """Give values in which the secret lies as the rules put it there."""
    draw = replace(a_draw(1), secret=secret)
    grant = plan(pool, [[pool.device(0)]], Ledger(), [draw], now=NOW)
    allocation = grant.allocations[0].owned_by(an_owner())
    ledger = Ledger().with_live([allocation], at=1.0)
    # Whatever the pool says now: what once was answered and annotated carries the secret.
    open_pool = replace(pool, secret_delivery=SecretDelivery.BOTH)
    entry = an_entry(allocation, pool=open_pool)
    found = adoption(entry, [open_pool], now=NOW)
    assert found is not None
    container = an_object(allocation, claimed=dict(entry.answer.annotations))
    runtime, checkpoint = a_runtime(container), a_checkpoint(entry)
    kubelet = PodDevices(
        namespace="telco", name="cnf", containers={"dataplane": {pool.resource: frozenset(allocation.devices)}}
    )
    reading = Reading(kubelet=kubelet, checkpoint=checkpoint, runtime=runtime, disturbed=False)
    pod = look_up(Question(namespace="telco", name="cnf"), reading, ledger, [pool.resource])
    yield from (secret, draw, grant, allocation, allocation.directory, *found.allocation.files)
    yield from (
        entry.answer,
        entry,
        checkpoint,
        claim(open_pool, entry.answer),
        found,
        Adopt(adoption=found, reason=""),
    )
    yield from (container, runtime, Evidence(runtime=runtime, checkpoint=checkpoint), reading)
    yield from (ledger, *ledger, Start(candidates=tuple(ledger), meant=frozenset()), pod, *pod.containers)
    yield Judgement(adoptions=(found,), rejections=())
    yield Recovered(allocations=((allocation, Standing.LIVE),))


def types_of_the_domain() -> Iterator[type]:
    """Find every dataclass in the domain's modules."""
    for found in pkgutil.walk_packages(domain.__path__, "domain."):
        module = importlib.import_module(found.name)
        yield from (
            each
            for each in vars(module).values()
            if isinstance(each, type) and is_dataclass(each) and each.__module__ == module.__name__
        )


def reaches_a_secret(hint: Any, *, above: tuple[object, ...] = ()) -> bool:
    """Tell whether a value of a type can hold a secret, at any depth."""
    if hint in SOURCES:
        return True
    if hint in above:
        return False
    inner = get_type_hints(hint).values() if is_dataclass(hint) else get_args(hint)
    return any(reaches_a_secret(each, above=(*above, hint)) for each in inner)


def made(hint: Any, secret: Secret) -> Any:
    """Make a value of a type with the secret wherever there is a place for one."""
    text = secret.reveal()
    ready: dict[object, object] = {
        Secret: secret,
        File: File(name="secret", content=text),
        Answer: Answer(envs={"MEMIF_SECRET": text}, annotations={"io.contivpp.memif.secret": text}),
        RuntimeObject: an_object(claimed={"io.contivpp.memif.secret": text}),
        Pool: a_pool(),
        datetime: NOW,
        NoneType: None,
    }
    if hint in ready:
        return ready[hint]
    if isinstance(hint, NewType):
        return made(hint.__supertype__, secret)
    if is_dataclass(hint):
        hints, maker = get_type_hints(hint), cast("Callable[..., object]", hint)
        return maker(**{each.name: made(hints[each.name], secret) for each in fields(hint) if each.init})
    if get_args(hint):
        return made_of_parts(get_origin(hint), get_args(hint), secret)
    return next(iter(hint)) if issubclass(hint, Enum) else hint()


def made_of_parts(origin: Any, parts: Sequence[Any], secret: Secret) -> Any:
    """Make a union's part that can hold the secret, or a collection with one element."""
    if origin in {Union, UnionType}:
        return made(max(parts, key=reaches_a_secret), secret)
    elements = [made(each, secret) for each in parts if each is not Ellipsis]
    return {elements[0]: elements[1]} if origin is Mapping else origin(elements)


TYPES = {f"{each.__module__}.{each.__qualname__}": each for each in types_of_the_domain() if reaches_a_secret(each)}
"""Every type of the domain in which a secret may lie; a new one is among them."""


@pytest.mark.parametrize("name", TYPES)
def test_no_type_shows_a_secret_wherever_it_may_lie(name: str) -> None:
    value = made(TYPES[name], Secret("HUSHHUSHHUSHHUSHHUSH"))

    assert "HUSH" not in f"{value!r} {value} {[value]}"


def test_the_types_are_found() -> None:
    known = {Secret, File, Answer, Claim, Allocation, Directory, Draw, Grant, Record, Ledger, Adoption, CheckpointEntry}

    assert known <= set(TYPES.values())
    assert Pool not in TYPES.values()
    assert Unknown not in TYPES.values()


@given(pool=values.pools, secret=secrets)
def test_no_value_shows_a_secret(pool: Pool, secret: Secret) -> None:
    for value in everything(pool, secret):
        assert secret.reveal() not in repr(value), type(value)
        assert secret.reveal() not in str(value), type(value)
        assert secret.reveal() not in f"{value}", type(value)
        assert secret.reveal() not in f"{[value]} {(value,)} { ({1: value}) }", type(value)


@pytest.mark.parametrize("delivery", SecretDelivery)
def test_values_with_and_without_the_secret_look_alike(delivery: SecretDelivery) -> None:
    """Not even its length is to be seen."""
    pool = a_pool(secret_delivery=delivery)
    longer, shorter = (list(everything(pool, Secret("x" * length))) for length in (23, 16))

    assert [repr(value) for value in longer] == [repr(value) for value in shorter]


@pytest.mark.parametrize(
    "requests",
    [[], [()], [device_ids(0, 0)], [device_ids(100)], [device_ids(0)] * 2],
    ids=["nothing", "empty", "twice", "unknown", "too many"],
)
@given(secret=secrets)
def test_no_refusal_says_a_secret(requests: list[tuple[str, ...]], secret: Secret) -> None:
    draw = replace(a_draw(1), secret=secret)

    with pytest.raises((MemifError, ValueError)) as refusal:
        plan(a_pool(), requests, Ledger(), [draw], now=NOW)

    assert secret.reveal() not in f"{refusal.value!r} {refusal.value} {vars(refusal.value)}"


@given(secret=secrets)
def test_nor_does_the_ledger_s(secret: Secret) -> None:
    ledger = Ledger().with_live([values.numbered(1, secret=secret)], at=1.0)

    with pytest.raises(ValueError, match="in the ledger already") as refusal:
        ledger.with_live([values.numbered(1, secret=secret)], at=1.0)

    assert secret.reveal() not in f"{refusal.value!r} {refusal.value}"
