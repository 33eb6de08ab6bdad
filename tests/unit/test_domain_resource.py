"""Names of extended resources are refused here for the reasons for which the kubelet would refuse them there."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import MemifError
from domain.resource import InvalidResourceName, resource_name


@pytest.mark.parametrize(
    "text",
    [
        "contivpp.io/memif",
        "example.com/memif",
        "a/b",
        "localhost/memif",
        "1.2/3",
        "x-y.example.com/Memif_fast.2-x",
        f"{'d' * 244}/memif",
        f"example.com/{'n' * 63}",
        "requests-example.com/memif",
        "example.com/kubernetes.io",
    ],
    ids=lambda text: text[:32],
)
def test_names_that_the_kubelet_accepts_are_accepted(text: str) -> None:
    assert resource_name(text) == text


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "must have a domain"),
        ("memif", "must have a domain"),
        ("kubernetes.io/memif", "reserved for Kubernetes"),
        ("node.kubernetes.io/memif", "reserved for Kubernetes"),
        ("notkubernetes.io/memif", "reserved for Kubernetes"),  # the kubelet looks for the text, not for the domain
        ("requests.example.com/memif", "reserved for quotas"),
        (f"{'d' * 245}/memif", "its domain has 245 characters, at most 244 may be"),
        ("/memif", "the domain '' must be lower-case"),
        ("Example.com/memif", "must be lower-case"),
        ("-example.com/memif", "must be lower-case"),
        ("example-.com/memif", "must be lower-case"),
        ("example..com/memif", "must be lower-case"),
        ("example.com./memif", "must be lower-case"),
        ("exam_ple.com/memif", "must be lower-case"),
        ("exämple.com/memif", "must be lower-case"),
        ("example.com\n/memif", "must be lower-case"),
        (f"example.com/{'n' * 64}", "after the slash are 64 characters, at most 63 may be"),
        ("example.com/", "with alphanumeric ends"),
        ("example.com/-memif", "with alphanumeric ends"),
        ("example.com/memif.", "with alphanumeric ends"),
        ("example.com/me mif", "with alphanumeric ends"),
        ("example.com/memif\n", "with alphanumeric ends"),
        ("example.com/memif/fast", "with alphanumeric ends"),
        ("example.com/memíf", "with alphanumeric ends"),
    ],
    ids=lambda text: repr(text[:32]),
)
def test_names_that_the_kubelet_refuses_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidResourceName, match=re.escape(reason)) as refusal:
        resource_name(text)

    assert refusal.value.name == text
    assert reason in refusal.value.reason
    assert repr(text) in str(refusal.value)
    assert isinstance(refusal.value, MemifError)


@given(domain=st.text(alphabet="aZ9-.", max_size=5), name=st.text(alphabet="aZ9-._/", max_size=5))
def test_an_accepted_name_is_one_domain_and_one_name_with_alphanumeric_ends(domain: str, name: str) -> None:
    try:
        accepted = resource_name(f"{domain}/{name}")
    except InvalidResourceName:
        return

    assert accepted.count("/") == 1
    assert domain == domain.lower()
    assert all(label[0].isalnum() for label in domain.split("."))
    assert all(label[-1].isalnum() for label in domain.split("."))
    assert name[0].isalnum()
    assert name[-1].isalnum()
