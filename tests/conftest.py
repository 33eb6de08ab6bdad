"""Fixtures for every kind of test."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.rig import dockerd
from tests.rig.containerd import PrivateContainerd, missing, private_containerd

# A deadline would be a timed assertion. Continuous integration tries the same examples at every run, so that it judges
# the change and not its luck; everybody else draws new ones.
settings.register_profile("mine", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "mine")

pytest.register_assert_rewrite("tests.contract")


@pytest.fixture(scope="session")
def containerd_rig() -> Iterator[PrivateContainerd]:
    """A private containerd with its CRI, shared by the tests of a run; each leaves it up and without pods.

    Where it cannot run a test is skipped with the reason; in continuous integration that is a failure.
    """
    reason = missing()
    if reason is not None and os.environ.get("CI") == "true":
        pytest.fail(reason)
    if reason is not None:
        pytest.skip(reason)
    with private_containerd() as rig:
        yield rig


@pytest.fixture(scope="session")
def docker_rig() -> Iterator[dockerd.PrivateDockerd]:
    """A private dockerd, shared by the tests of a run; each leaves it up and without containers."""
    reason = dockerd.missing()
    if reason is not None and os.environ.get("CI") == "true":
        pytest.fail(reason)
    if reason is not None:
        pytest.skip(reason)
    with dockerd.private_dockerd() as rig:
        yield rig
