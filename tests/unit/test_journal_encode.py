"""Rows of the journal say all that the values say, and nothing is believed that we would not have written."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import MISSING, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.journal import encode, schema
from adapters.journal.faults import Flawed
from domain.allocation import Allocation, Owner
from domain.ledger import Standing
from domain.pool import DirectoryRules, Pool
from tests.contract.journal_values import FULL, FULL_POOL, allocations, numbered, pools


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        schema.initialise(connection)
        yield connection


def fetched(database: sqlite3.Connection, adding: str, row: encode.Row, reading: str) -> tuple[object, ...]:
    """Return a row as the tables give it back."""
    database.execute("DELETE FROM allocation")
    database.execute("DELETE FROM pool")
    database.execute(adding, row)
    return tuple(database.execute(reading).fetchone())


def row_with(column: str, value: object) -> list[object]:
    row: list[object] = list(encode.allocation_row(FULL, Standing.LIVE))
    row[schema.ALLOCATION_COLUMNS.index(column)] = value
    return row


@given(allocation=allocations, standing=st.sampled_from(Standing))
def test_every_allocation_comes_back_as_it_was(
    database: sqlite3.Connection, allocation: Allocation, standing: Standing
) -> None:
    row = fetched(database, schema.ADD, encode.allocation_row(allocation, standing), schema.READ_ALLOCATIONS)

    assert encode.allocation_of(row) == (allocation, standing)


@given(pool=pools)
def test_every_pool_comes_back_as_it_was(database: sqlite3.Connection, pool: Pool) -> None:
    assert encode.pool_of(fetched(database, schema.USE, encode.pool_row(pool), schema.read_pools(database))) == pool


@pytest.mark.parametrize("value", [FULL, FULL.rules, FULL.owner, FULL_POOL, FULL_POOL.directory])
def test_the_examples_have_no_field_at_its_default(value: Any) -> None:
    """So a field that is new in the domain and forgotten here fails the two tests below."""
    for each in fields(value):
        default = each.default_factory() if each.default_factory is not MISSING else each.default

        assert not each.init or getattr(value, each.name) != default


def test_no_field_of_an_allocation_is_forgotten(database: sqlite3.Connection) -> None:
    row = fetched(database, schema.ADD, encode.allocation_row(FULL, Standing.LIVE), schema.READ_ALLOCATIONS)

    assert encode.allocation_of(row) == (FULL, Standing.LIVE)


def test_no_field_of_a_pool_is_forgotten(database: sqlite3.Connection) -> None:
    assert (
        encode.pool_of(fetched(database, schema.USE, encode.pool_row(FULL_POOL), schema.read_pools(database)))
        == FULL_POOL
    )


@pytest.mark.parametrize("group", [None, "vpp", "107", 107, 0, ""], ids=repr)
def test_a_group_s_number_is_not_mistaken_for_its_name(database: sqlite3.Connection, group: str | int | None) -> None:
    allocation = replace(numbered(1), rules=DirectoryRules(group=group))
    row = fetched(database, schema.ADD, encode.allocation_row(allocation, Standing.LIVE), schema.READ_ALLOCATIONS)
    found = encode.allocation_of(row)[0].rules.group

    assert (type(found), found) == (type(group), group)


@pytest.mark.parametrize(
    "column, value",
    [
        ("id", "../../etc"),
        ("id", None),
        ("resource", 1),
        ("devices", "not json"),
        ("devices", "null"),
        ("devices", "[1]"),
        ("directory_mode", "0750"),
        ("directory_group", b"vpp"),
        ("secret", None),
        ("secret", b"\xff"),
        ("secret_delivery", "by pigeon"),
        ("granted", "yesterday"),
        ("files", '{"name": "secret"}'),
        ("files", '[{"name": "secret", "content": "FullFullFullFullFull"}]'),
        ("files", '[{"name": "secret", "content": "FullFullFullFullFull", "mode": "0"}]'),
        ("files", '["FullFullFullFullFull'),
        ("standing", "gone"),
        ("uid", 7),
        ("name", b"cnf"),
    ],
)
def test_a_value_that_we_would_not_have_written_is_damage_and_not_quoted(column: str, value: object) -> None:
    with pytest.raises(Flawed, match="it is damaged") as caught:
        encode.allocation_of(row_with(column, value))

    assert "Full" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("column", schema.POOL_COLUMNS)
def test_a_pool_with_a_value_of_the_wrong_type_is_damage(column: str) -> None:
    row: list[object] = list(encode.pool_row(FULL_POOL))
    row[schema.POOL_COLUMNS.index(column)] = b"\0"

    with pytest.raises(Flawed, match="a pool cannot be read back"):
        encode.pool_of(row)


def test_an_owner_who_is_not_known_stays_unknown(database: sqlite3.Connection) -> None:
    row = fetched(database, schema.ADD, encode.allocation_row(numbered(1), Standing.LIVE), schema.READ_ALLOCATIONS)

    assert encode.allocation_of(row)[0].owner == Owner()
