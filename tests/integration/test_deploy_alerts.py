"""The alerts: understood by Prometheus, fire for what they are meant for, and speak of metrics that there are."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from adapters.metrics.collector import PREFIX
from tests.unit.test_metrics import EVERY

PROMETHEUS = Path(__file__).parents[2] / "deploy" / "prometheus"
RULES = [
    rule for group in yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]

each_alert = pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Prometheus' own tool."""
    tool = shutil.which("promtool")
    if tool is None and os.environ.get("CI") != "true":
        pytest.skip("needs promtool, of Debian's package prometheus")
    return subprocess.run([tool or "promtool", *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False)


def test_prometheus_finds_no_fault() -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", "alerts.yaml")

    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_for_what_it_is_meant_for_and_only_then() -> None:
    done = promtool("test", "rules", "alerts_test.yaml")

    assert done.returncode == 0, done.stdout + done.stderr


@each_alert
def test_each_alert_has_a_test_of_its_own(rule: dict[str, str]) -> None:
    assert re.search(rf"\b{rule['alert']}\b", (PROMETHEUS / "alerts_test.yaml").read_text())


@each_alert
def test_each_alert_speaks_of_metrics_and_labels_that_there_are(rule: dict[str, str]) -> None:
    for name, selector in re.findall(rf"{PREFIX}(\w+)(?:{{([^}}]*)}})?", rule["expr"]):
        _, labels = EVERY[re.sub("_(bucket|count|sum)$", "", name)]
        for label, value in re.findall(r'(\w+)="([^"]*)"', selector):
            assert value in labels[label]


@each_alert
def test_each_alert_says_how_bad_it_is_where_and_what_to_do(rule: dict[str, dict[str, str]]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert "{{ or $labels.node $labels.instance }}" in rule["annotations"]["summary"]
    assert rule["annotations"]["description"].endswith(".")
