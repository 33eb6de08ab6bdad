"""Refusals as statuses, and back."""

import inspect

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2

import domain.dismissal
import domain.lookup
from adapters.control import refusals
from app.cli.base import ExitCode
from app.cli.control import CODES
from domain.dismissal import InUse, SeveralUids, TooYoung
from domain.errors import MemifError
from domain.identity import AllocationId
from domain.lookup import NoMemif, NoPod, UnknownNow

PROMISED = {
    "NO_POD": (grpc.StatusCode.NOT_FOUND, ExitCode.NOT_FOUND),
    "NO_MEMIF": (grpc.StatusCode.NOT_FOUND, ExitCode.NOT_FOUND),
    "UNKNOWN_NOW": (grpc.StatusCode.UNAVAILABLE, ExitCode.UNKNOWN_NOW),
    "IN_USE": (grpc.StatusCode.FAILED_PRECONDITION, ExitCode.REFUSED),
    "TOO_YOUNG": (grpc.StatusCode.FAILED_PRECONDITION, ExitCode.REFUSED),
    "SEVERAL_UIDS": (grpc.StatusCode.FAILED_PRECONDITION, ExitCode.REFUSED),
}
"""Reason, code of the API and exit code of the command line, which other programs rely on."""


def test_every_refusal_of_the_domain_has_a_code() -> None:
    found = {
        each
        for module in (domain.lookup, domain.dismissal)
        for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, MemifError) and hasattr(each, "reason")
    }

    assert found == set(refusals.CODES)
    assert {(each.reason, refusals.CODES[each]) for each in found} == {
        (reason, code) for reason, (code, _) in PROMISED.items()
    }


def test_every_reason_has_an_exit_code() -> None:
    assert {**{reason: code for reason, (_, code) in PROMISED.items()}, "UNREACHABLE": ExitCode.UNREACHABLE} == CODES


@pytest.mark.parametrize(
    "error",
    [
        NoPod("telco", "cnf"),
        NoMemif("telco", "cnf"),
        UnknownNow("telco", "cnf", "why"),
        InUse("telco/cnf", {AllocationId("a"): ("checkpoint",)}),
        TooYoung("telco/cnf", 3.0),
        SeveralUids("telco/cnf", ()),
    ],
)
def test_the_reason_comes_back_from_what_goes_out(error: MemifError) -> None:
    code, text, reason = refusals.refusal(error)

    assert refusals.reason_in(refusals.details(code, text, reason)) == error.reason  # type: ignore[attr-defined]
    assert text == str(error)


def test_details_are_the_richer_error_model_of_grpc() -> None:
    code, text, reason = refusals.refusal(NoPod("telco", "cnf"))
    ((key, value),) = refusals.details(code, text, reason)
    status = status_pb2.Status.FromString(value)
    info = error_details_pb2.ErrorInfo()

    assert key == "grpc-status-details-bin"
    assert (status.code, status.message) == (code_pb2.NOT_FOUND, "no pod telco/cnf on this node")
    assert status.details[0].Unpack(info)
    assert (info.reason, info.domain) == ("NO_POD", "memif.v1")


def test_a_trouble_without_a_reason_is_one_of_the_moment() -> None:
    class Trouble(MemifError):
        pass

    assert refusals.refusal(Trouble("storage hangs")) == (
        grpc.StatusCode.UNAVAILABLE,
        "storage hangs",
        "UNKNOWN_NOW",
    )


def test_a_long_text_is_cut_so_that_it_fits_into_the_metadata_twice() -> None:
    code, text, reason = refusals.refusal(UnknownNow("telco", "cnf", "x" * 100_000))
    ((_, value),) = refusals.details(code, text, reason)

    assert text.endswith("xxx...")
    assert len(text) + len(value) < 8192 // 2


def test_what_is_not_ours_has_no_reason() -> None:
    foreign = any_pb2.Any()
    foreign.Pack(error_details_pb2.ErrorInfo(reason="NO_POD", domain="example.com"))
    other = any_pb2.Any()
    other.Pack(error_details_pb2.DebugInfo(detail="NO_POD"))
    status = status_pb2.Status(details=[other, foreign]).SerializeToString()

    assert refusals.reason_in(None) is None
    assert refusals.reason_in((("x", "y"),)) is None
    assert refusals.reason_in((("grpc-status-details-bin", status),)) is None
