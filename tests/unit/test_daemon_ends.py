"""What the errors that end the daemon mean to an operator, in whatever groups they come."""

from pathlib import Path

import pytest

from adapters.system.lock import LockLost, LockUnusable
from app import daemon
from app.daemon import ConfigurationUnsuitable, EnvironmentUnusable
from domain.carry_over import DeviceIdsChanged
from domain.errors import MemifError
from domain.ports.journal import JournalUnusable
from domain.resource import ResourceName

LOST, FULL = LockLost(Path("/state/lock")), JournalUnusable("the journal's disk is full; make room")
CHANGED = DeviceIdsChanged(ResourceName("contivpp.io/memif"), "{index}", "memif-{index}", 3)


def group(*errors: BaseException) -> BaseExceptionGroup[BaseException]:
    """Put errors into a group, as a task group does."""
    return BaseExceptionGroup("in a task group", errors)


@pytest.mark.parametrize(
    "errors, meaning",
    [
        (group(LockUnusable("the lock is no file; move it away")), EnvironmentUnusable),
        (group(group(FULL)), EnvironmentUnusable),
        (group(CHANGED), ConfigurationUnsuitable),
    ],
)
def test_what_was_foreseen_is_explained(errors: BaseExceptionGroup[BaseException], meaning: type[MemifError]) -> None:
    explained = daemon._explained(errors)

    assert type(explained) is meaning
    (leaf,) = daemon._leaves(errors)  # type: ignore[arg-type]  # all of ours here
    assert str(explained) == str(leaf)


def test_of_several_errors_each_is_told() -> None:
    assert str(daemon._explained(group(LOST, group(FULL)))) == f"{LOST}; {FULL}"


@pytest.mark.parametrize(
    "errors", [group(ZeroDivisionError()), group(FULL, group(ZeroDivisionError())), group(CHANGED, KeyError())]
)
def test_an_error_of_ours_is_not_explained_away(errors: BaseExceptionGroup[BaseException]) -> None:
    assert daemon._explained(errors) is None
