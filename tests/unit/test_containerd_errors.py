"""Whatever asking containerd raises becomes the one exception of the port, with its way out."""

import asyncio

import grpc
import grpc.aio
import pytest

from adapters.containerd.errors import mapped, refused
from domain.ports.runtime import AnswerTooLarge, RuntimeUnavailable

PATH = "/run/some.sock"
FAILURES = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]


@pytest.mark.parametrize("code", FAILURES)
def test_every_status_is_the_ports_with_path_code_and_a_way_out(code: grpc.StatusCode) -> None:
    raised = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details="it said so")

    with pytest.raises(RuntimeUnavailable) as caught, mapped(PATH, 10):
        raise raised

    text = str(caught.value)
    assert caught.value.__cause__ is raised
    assert all(part in text for part in (PATH, code.name, "it said so"))
    assert text.rpartition("; ")[2]


@pytest.mark.parametrize(
    "raised",
    [
        TimeoutError(),
        grpc.aio.UsageError("Channel is closed."),
        grpc.aio.InternalError("odd"),
        asyncio.CancelledError(),
    ],
)
async def test_every_other_failure_is_the_ports_too(raised: BaseException) -> None:
    with pytest.raises(RuntimeUnavailable, match=PATH) as caught, mapped(PATH, 10):
        raise raised

    assert caught.value.__cause__ is raised


async def test_to_be_cancelled_oneself_is_no_failure_of_containerd() -> None:
    async def ask() -> None:
        with mapped(PATH, 10):
            await asyncio.Event().wait()

    task = asyncio.create_task(ask())
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


def test_what_is_our_own_mistake_is_not_taken_for_containerds() -> None:
    with pytest.raises(ZeroDivisionError), mapped(PATH, 10):
        raise ZeroDivisionError


def test_a_deadline_that_passed_is_named() -> None:
    with pytest.raises(RuntimeUnavailable, match=r"within 2\.5 s"), mapped(PATH, 2.5):
        raise TimeoutError


@pytest.mark.parametrize(
    "code, text, cure",
    [
        (grpc.StatusCode.UNIMPLEMENTED, "unknown service containerd.services.tasks.v1.Tasks", "no containerd"),
        (grpc.StatusCode.UNAVAILABLE, "connect: No such file or directory", "runtime.endpoint"),
        (grpc.StatusCode.UNAVAILABLE, "connect: Permission denied", "run as root"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "trying to send message larger than max", "runtime.kind to cri"),
        (grpc.StatusCode.INTERNAL, None, "log"),
    ],
)
def test_the_way_out_fits_the_fault(code: grpc.StatusCode, text: str | None, cure: str) -> None:
    assert cure in str(refused(PATH, code, text)).partition(";")[2]


@pytest.mark.parametrize("code", list(grpc.StatusCode), ids=str)
def test_only_an_answer_that_is_too_large_is_called_so(code: grpc.StatusCode) -> None:
    """Whoever hears it may ask by another API; after anything else that would hide a fault."""
    told = refused(PATH, code, "x")

    assert isinstance(told, AnswerTooLarge) == (code is grpc.StatusCode.RESOURCE_EXHAUSTED)


def test_containerds_text_is_cut_and_cannot_forge_a_line() -> None:
    """Some of it quotes what a tenant wrote."""
    text = str(refused(PATH, grpc.StatusCode.UNKNOWN, "a\nb\u202e" + "x" * 100_000))

    assert text.isprintable()
    assert len(text) < 600
