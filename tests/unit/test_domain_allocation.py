"""An allocation's places, and what becomes known of its owner."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from domain.allocation import Owner
from domain.identity import PodUid
from domain.pool import DirectoryRules, SecretDelivery
from tests.unit import domain_values as values
from tests.unit.domain_values import a_pool, an_allocation, an_owner


class TestPlaces:
    """Places are those of the grant, whatever the configuration says later."""

    def test_paths_follow_from_the_id(self) -> None:
        allocation = an_allocation("bcdfghjklmnpqrstvwxz")

        assert allocation.host_socket == "/var/run/contiv/memif/bcdfghjklmnpqrstvwxz/memif.sock"
        assert allocation.container_socket == "/run/vpp/memif.sock"
        assert allocation.directory.path == "/var/run/contiv/memif/bcdfghjklmnpqrstvwxz"

    def test_the_directory_has_the_rules_and_files_of_the_grant(self) -> None:
        rules = DirectoryRules(mode=0o750, group="vpp", selinux_label="none")
        allocation = an_allocation(pool=a_pool(directory=rules, secret_delivery=SecretDelivery.FILE))

        assert allocation.directory.rules == rules
        assert allocation.directory.files == allocation.files
        assert [file.name for file in allocation.files] == ["secret"]
        assert allocation.directory.host_dir == allocation.host_dir
        assert allocation.directory.id == allocation.id


class TestOwner:
    """What is known once never changes."""

    def test_an_owner_is_complete_when_uid_container_namespace_and_name_are_known(self) -> None:
        assert an_owner().complete

    @pytest.mark.parametrize("unknown", ["uid", "container", "namespace", "name"])
    def test_an_owner_with_a_gap_is_not(self, unknown: str) -> None:
        assert not an_owner(**{unknown: None}).complete

    def test_an_allocation_is_granted_without_an_owner(self) -> None:
        assert an_allocation().owner == Owner(uid=None, container=None, namespace=None, name=None)

    def test_gaps_are_filled(self) -> None:
        known = Owner(uid=PodUid("u"), container="app")
        completed = known.completed_by(Owner(namespace="telco", name="cnf"))

        assert completed == Owner(uid=PodUid("u"), container="app", namespace="telco", name="cnf")

    @pytest.mark.parametrize("known", ["uid", "container", "namespace", "name"])
    def test_what_is_known_stays(self, known: str) -> None:
        other = Owner(uid=PodUid("other"), container="other", namespace="other", name="other")
        mine: dict[str, Any] = {known: "mine"}
        completed = Owner(**mine).completed_by(other)

        assert completed == replace(other, **mine)

    @pytest.mark.parametrize("known", ["uid", "container", "namespace", "name"])
    def test_an_empty_text_is_known(self, known: str) -> None:
        """Only what nobody has said is a gap."""
        empty: dict[str, Any] = {known: ""}

        assert Owner(**empty).completed_by(an_owner()) == an_owner(**empty)

    @given(first=values.owners, second=values.owners)
    def test_completing_twice_changes_nothing_more(self, first: Owner, second: Owner) -> None:
        once = first.completed_by(second)

        assert once.completed_by(second) == once
        assert first.completed_by(Owner()) == first
        assert Owner().completed_by(first) == first

    @given(owner=values.owners)
    def test_owning_leaves_everything_else_as_it_is(self, owner: Owner) -> None:
        allocation = an_allocation()
        owned = allocation.owned_by(owner)

        assert owned.owner == owner
        assert replace(owned, owner=Owner()) == allocation
        assert allocation.owner == Owner()

    def test_an_allocation_s_owner_is_filled_not_replaced(self) -> None:
        allocation = an_allocation(owner=Owner(uid=PodUid("u")))

        assert allocation.owned_by(an_owner()).owner == an_owner(uid=PodUid("u"))
