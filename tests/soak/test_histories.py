"""Ten thousand random histories; other ones at each run, unless ``SOAK_SEED`` says which."""

import os
import random
from collections.abc import Iterator
from typing import Final

import pytest

from tests.integration.crash import Power, powered
from tests.integration.life import examined

HISTORIES, AT_ONCE = 10_000, 500

_FIRST: Final = int(os.environ.get("SOAK_SEED") or random.randrange(500, 10**9))


@pytest.fixture(scope="module")
def power() -> Iterator[Power]:
    with powered() as made:
        yield made


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("begin", range(0, HISTORIES, AT_ONCE))
async def test_nothing_is_lost_and_nothing_is_left(begin: int, power: Power) -> None:
    seeds = range(_FIRST + begin, _FIRST + begin + AT_ONCE)
    print(f"\nhistories of the seeds {seeds.start} to {seeds.stop - 1} (SOAK_SEED={_FIRST})")  # noqa: T201
    await examined(seeds, power)
