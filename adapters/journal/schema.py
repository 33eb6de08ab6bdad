"""The journal's tables, and whether a file has them.

``application_id`` says that a file is ours, ``user_version`` which form it has: 100 times the major number plus the
minor.  A minor version only adds columns that may be left out, so a file of any minor of our major is opened: columns
that we do not know are neither read nor written, and those that it lacks are added.
"""

import sqlite3
from typing import Final

from adapters.journal.faults import Flawed

APPLICATION_ID: Final = 0x6D656D66
"""``memf`` in ASCII."""

MAJOR: Final = 1
MINOR: Final = 1

_ADDED: Final = (("pool", "device_info_dir", "TEXT"),)
"""Columns that came with a minor version: table, name and type."""

ALLOCATION_COLUMNS: Final = (
    "id",
    "resource",
    "devices",
    "host_dir",
    "container_dir",
    "socket_name",
    "directory_mode",
    "directory_group",
    "selinux_label",
    "secret",
    "secret_delivery",
    "granted",
    "files",
    "standing",
    "uid",
    "container",
    "namespace",
    "name",
)
POOL_COLUMNS: Final = (
    "resource",
    "capacity",
    "device_id",
    "host_dir",
    "container_dir",
    "socket_name",
    "env_suffix",
    "annotation_prefix",
    "directory_mode",
    "directory_group",
    "selinux_label",
    "secret_length",
    "secret_delivery",
    "pod_file",
    "pod_env_extra",
    "device_info_dir",
    "read_only_mount",
    "numa_node",
    "list_interval",
    "retired",
    "drained",
)

# A group is a name or a number.  A column without a type keeps either as it is, where TEXT would turn 107 into '107'.
_TABLES: Final = (
    """
    CREATE TABLE allocation (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        resource TEXT NOT NULL,
        devices TEXT NOT NULL,
        host_dir TEXT NOT NULL,
        container_dir TEXT NOT NULL,
        socket_name TEXT NOT NULL,
        directory_mode INTEGER NOT NULL,
        directory_group,
        selinux_label TEXT NOT NULL,
        secret TEXT NOT NULL,
        secret_delivery TEXT NOT NULL,
        granted TEXT NOT NULL,
        files TEXT NOT NULL,
        standing TEXT NOT NULL,
        uid TEXT,
        container TEXT,
        namespace TEXT,
        name TEXT
    )
    """,
    """
    CREATE TABLE pool (
        resource TEXT NOT NULL PRIMARY KEY,
        capacity INTEGER NOT NULL,
        device_id TEXT NOT NULL,
        host_dir TEXT NOT NULL,
        container_dir TEXT NOT NULL,
        socket_name TEXT NOT NULL,
        env_suffix TEXT NOT NULL,
        annotation_prefix TEXT NOT NULL,
        directory_mode INTEGER NOT NULL,
        directory_group,
        selinux_label TEXT NOT NULL,
        secret_length INTEGER NOT NULL,
        secret_delivery TEXT NOT NULL,
        pod_file INTEGER NOT NULL,
        pod_env_extra INTEGER NOT NULL,
        device_info_dir TEXT,
        read_only_mount INTEGER NOT NULL,
        numa_node INTEGER,
        list_interval REAL NOT NULL,
        retired TEXT NOT NULL,
        drained INTEGER NOT NULL
    )
    """,
)


def _listed(columns: tuple[str, ...]) -> str:
    return ", ".join(columns)


def _marks(columns: tuple[str, ...]) -> str:
    return ", ".join("?" * len(columns))


# Built from the constants above and nothing else.
READ_ALLOCATIONS: Final = f"SELECT {_listed(ALLOCATION_COLUMNS)} FROM allocation ORDER BY seq"  # noqa: S608
ADD: Final = f"INSERT OR REPLACE INTO allocation ({_listed(ALLOCATION_COLUMNS)}) VALUES ({_marks(ALLOCATION_COLUMNS)})"  # noqa: S608
OWN: Final = """
    UPDATE allocation
    SET uid = COALESCE(uid, ?), container = COALESCE(container, ?),
        namespace = COALESCE(namespace, ?), name = COALESCE(name, ?)
    WHERE id = ?
"""
STAND: Final = "UPDATE allocation SET standing = ? WHERE id = ?"
DROP: Final = "DELETE FROM allocation WHERE id = ?"
_CHANGED: Final = ", ".join(f"{column} = excluded.{column}" for column in POOL_COLUMNS[1:])
USE: Final = (
    f"INSERT INTO pool ({_listed(POOL_COLUMNS)}) VALUES ({_marks(POOL_COLUMNS)}) "  # noqa: S608
    f"ON CONFLICT (resource) DO UPDATE SET {_CHANGED}"
)


def initialise(connection: sqlite3.Connection) -> None:
    """Turn a new, empty database into a journal."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    for table in _TABLES:
        connection.execute(table)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {100 * MAJOR + MINOR}")
    connection.execute("COMMIT")


def inspect(connection: sqlite3.Connection) -> None:
    """Make sure that a database is a journal that we understand.

    Raises:
        Flawed: it is another program's, of another major version, or damaged.
        sqlite3.Error: it cannot be read, or is no database at all.
    """
    application = _number(connection, "PRAGMA application_id")
    if application != APPLICATION_ID:
        raise Flawed(f"it is another program's database (application id {application:#x})")
    version = _number(connection, "PRAGMA user_version")
    major, minor = divmod(version, 100)
    if major != MAJOR:
        age = "newer" if major > MAJOR else "older"
        raise Flawed(f"it has the {age} format {major}.{minor}, and this program reads {MAJOR}.x")
    (finding,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if finding != "ok":
        raise Flawed("it is damaged: SQLite's quick_check found an inconsistency")


def upgrade(connection: sqlite3.Connection) -> None:
    """Add the columns that an older minor version lacks, in the transaction that first writes them.

    Raises:
        sqlite3.Error: that cannot be done now; the journal can be read all the same.
    """
    lacking = [each for each in _ADDED if each[1] not in _columns(connection, each[0])]
    for table, column, kind in lacking:
        connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
    if lacking:
        connection.execute(f"PRAGMA user_version = {100 * MAJOR + MINOR}")


def read_pools(connection: sqlite3.Connection) -> str:
    """Return the statement that reads the pools; a column that the file lacks is read as if nothing stood in it."""
    there = _columns(connection, "pool")
    listed = ", ".join(each if each in there else f"NULL AS {each}" for each in POOL_COLUMNS)
    return f"SELECT {listed} FROM pool ORDER BY resource"  # noqa: S608 - as above


def probe(connection: sqlite3.Connection) -> None:
    """Write a page of a journal anew as it is, down to the disk.

    Raises:
        sqlite3.Error: that cannot be done.
    """
    version = _number(connection, "PRAGMA user_version")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.execute("PRAGMA synchronous = NORMAL")


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    (value,) = connection.execute(pragma).fetchone()
    return int(value)
