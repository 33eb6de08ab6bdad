"""Which status the kubelet gets for which refusal."""

import importlib
import pkgutil
from collections.abc import Iterator

import pytest
from grpc import StatusCode

import domain
from adapters.kubelet.refusals import CODES, UNFORESEEN, status
from domain.errors import MemifError
from domain.grant import DeviceAskedTwice, NothingAsked, RequestRefused, UnknownDevice
from domain.identity import DeviceId
from domain.lookup import NoPod
from domain.ports.journal import JournalUnusable
from domain.ports.sockets import DirectoryUnusable, NoRoom
from domain.ports.worker import OverBudget
from domain.start import NothingKnown, NotServing

OUT_OF_REACH = {
    "domain.lookup": "answers of the look-up, which the kubelet does not ask",
    "domain.dismissal": "answers to a release, which somebody asks for on the control socket",
    "domain.events": "answers to watchers on the control socket",
    "domain.resource": "flaws of the configuration, found before anything is served",
    "domain.carry_over": "flaws of the configuration, found before anything is served",
    "domain.ports.kubelet": "neither Allocate nor PreStartContainer may ask the kubelet anything",
    "domain.ports.runtime": "neither Allocate nor PreStartContainer may ask the runtime anything",
}
"""Modules whose errors neither Allocate nor PreStartContainer can end in, and why."""

WITHOUT_CODE = {RequestRefused: "a root: each of its kinds has a code of its own"}

EXAMPLES = [
    (UnknownDevice("x/9", "x", 4), StatusCode.NOT_FOUND),
    (NothingKnown(["x/1"]), StatusCode.NOT_FOUND),
    (NothingAsked("x"), StatusCode.INVALID_ARGUMENT),
    (DeviceAskedTwice(DeviceId("x/1")), StatusCode.INVALID_ARGUMENT),
    (NoRoom("4 % of the inodes of /var/run are left"), StatusCode.RESOURCE_EXHAUSTED),
    (DirectoryUnusable("/var/run/contiv/memif is a symlink"), StatusCode.FAILED_PRECONDITION),
    (JournalUnusable("the disk of state.db is full"), StatusCode.FAILED_PRECONDITION),
    (OverBudget("storing an allocation", 2.0), StatusCode.DEADLINE_EXCEEDED),
    (NotServing(), StatusCode.UNAVAILABLE),
]


def _kinds(root: type[MemifError]) -> Iterator[type[MemifError]]:
    for kind in root.__subclasses__():
        if kind.__module__.partition(".")[0] == "domain":
            yield kind
        yield from _kinds(kind)


def _all_kinds() -> frozenset[type[MemifError]]:
    for module in pkgutil.walk_packages(domain.__path__, "domain."):
        importlib.import_module(module.name)
    return frozenset(_kinds(MemifError))


def test_every_error_of_the_core_has_a_code_or_a_reason_for_none() -> None:
    """Whoever adds an error decides here what the kubelet is told."""
    undecided = {
        kind
        for kind in _all_kinds()
        if kind.__module__ not in OUT_OF_REACH and kind not in CODES and kind not in WITHOUT_CODE
    }

    assert not undecided


def test_no_error_has_a_code_and_a_reason_for_none() -> None:
    assert not [kind for kind in CODES if kind in WITHOUT_CODE or kind.__module__ in OUT_OF_REACH]


@pytest.mark.parametrize("error, code", EXAMPLES, ids=lambda each: getattr(each, "name", type(each).__name__))
def test_a_refusal_has_the_code_of_its_kind_and_the_text_of_the_core(error: MemifError, code: StatusCode) -> None:
    assert status(error) == (code, str(error))


def test_there_is_an_example_of_each_code() -> None:
    assert {type(error) for error, _ in EXAMPLES} == CODES.keys()


def test_a_more_special_kind_has_the_code_of_its_root() -> None:
    class DiskGone(DirectoryUnusable):
        pass

    assert status(DiskGone("it is gone")) == (StatusCode.FAILED_PRECONDITION, "it is gone")


@pytest.mark.parametrize(
    "error", [KeyError("Geheim"), OSError(5, "Geheim"), MemifError("Geheim"), NoPod("ns", "Geheim"), ValueError()]
)
def test_what_nobody_foresaw_is_an_internal_error_whose_text_stays_here(error: Exception) -> None:
    """The kubelet writes the text of a failed Allocate into the pod's status, where every tenant reads it."""
    code, text = status(error)

    assert code is StatusCode.INTERNAL
    assert text == UNFORESEEN
    assert "Geheim" not in text
