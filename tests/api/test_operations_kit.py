"""What operators get: the runbook, dashboards and rules, which name only what there is."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp
import pytest

from outrider.api.metrics import CountedFigures, Metrics
from outrider.domain.call_results import Progress
from outrider.domain.states import IntentStatus, ItemStatus
from outrider.domain.submission import Verdict
from outrider.kernel.delivery.call_meter import CallMeter
from outrider.kernel.transactions.alerts import RUNBOOK, SEVERITY, AlertCode, runbook
from outrider.kernel.transactions.bus import SinkRecord
from outrider.kernel.transactions.figures import TargetFigures
from outrider.limits.kernel import Limits
from outrider.testing.clock import FakeClock
from outrider.testing.launches import target
from tests.support.broken_server import closed_port
from tests.support.deployment import deployed

ROOT = Path(__file__).parents[2]
RUNBOOK_TEXT = ROOT / "docs/howto/runbook.md"
RUNBOOK_PAGE = ROOT / "src/outrider/console/runbook.html"
RULES = ROOT / "deploy/prometheus/rules.yml"
BOARDS = sorted((ROOT / "deploy/grafana").glob("*.json"))
METRIC = re.compile(r"\boutrider_[a-z_]+\b")
PATIENCE_SECONDS = 60.0
FIRST_WORD_SECONDS = 10.0
NOTICED_SECONDS = 1.0
"""What is left for looking and for writing the alert."""


def test_every_alert_has_its_section_and_severity_in_the_runbook() -> None:
    sections = re.split(r"^## ", RUNBOOK_TEXT.read_text(), flags=re.MULTILINE)
    found = {text.partition("\n")[0]: text for text in sections[1:]}
    assert {code.value for code in AlertCode} <= set(found)
    for code in AlertCode:
        assert f"**{SEVERITY[code]}.**" in found[code.value], code
        assert f'id="{code.value.lower()}"' in RUNBOOK_PAGE.read_text()
        assert runbook(code) == f"/console/runbook.html#{code.value.lower()}"


def test_links_of_rules_lead_to_sections_of_the_runbook() -> None:
    anchors = {
        line.removeprefix("## ").lower()
        for line in RUNBOOK_TEXT.read_text().splitlines()
        if line.startswith("## ")
    }
    links = re.findall(r'runbook_url: "(.+)#(.+)"', RULES.read_text())
    assert links
    assert {page for page, _ in links} == {"{{ $externalLabels.outrider_url }}" + RUNBOOK}
    assert {anchor for _, anchor in links} - anchors == {"{{ $labels.code | toLower }}"}


async def test_the_runbook_link_of_an_alert_leads_to_a_page_of_the_server(tmp_path: Path) -> None:
    """It was a path in the project's repository."""
    down = target("sms.all", "sms", f"http://127.0.0.1:{closed_port()}")
    async with deployed(
        tmp_path, f"sqlite:///{tmp_path}/outrider.db", [down],
        settings={"sms.all": {"breaker_failures": 1}},
    ) as deployment:  # fmt: skip
        await deployment.launch("sms.all", 1)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                found = (await deployment.server.get("/alerts?standing=true"))["items"]
                if found:
                    break
                await asyncio.sleep(0.1)
        link = urljoin(deployment.server.url, found[0]["runbook"])
        assert urlsplit(link).fragment == "target_down"
        async with aiohttp.ClientSession() as session, session.get(link) as page:
            assert page.status == 200
            assert 'id="target_down"' in await page.text()


def test_the_runbook_link_is_a_url_where_the_servers_address_is_known() -> None:
    known = runbook("TARGET_DOWN", "https://outrider.example.com")
    assert known == "https://outrider.example.com/console/runbook.html#target_down"


def shown_metrics() -> set[str]:
    meter = CallMeter()
    sent = Verdict(ItemStatus.SENT, IntentStatus.ACCEPTED, Progress.ANSWERED)
    meter.note("sms", "sms.main", sent, 0.1)
    metrics = Metrics(meter)
    metrics.answered("GET", "/", 200, 0.1)
    metrics.receipts.labels("sms.main", "delivered").inc()
    targets = TargetFigures({"sms.main": "down"}, {}, 1, {})
    fields: list[Any] = ["audit", *[0] * (len(SinkRecord._fields) - 2), FakeClock().now()]
    sink = SinkRecord(*fields)
    figures = CountedFigures(
        jobs={"queued": 1}, sinks=[sink], targets=targets, read_at=FakeClock().now()
    )
    page = metrics.page(figures).decode()
    return {line.split("{")[0].split(" ")[0] for line in page.splitlines() if line[:1] != "#"}


@pytest.mark.parametrize("file", [RULES, *BOARDS], ids=lambda file: file.name)
def test_rules_and_dashboards_ask_for_metrics_that_exist(file: Path) -> None:
    text = file.read_text()
    if file.suffix == ".json":
        board = json.loads(text)
        asked = [each["expr"] for panel in board["panels"] for each in panel["targets"]]
    else:
        asked = re.findall(r"expr: (.*)", text)
    names = {name for expression in asked for name in METRIC.findall(expression)}
    assert names
    assert names <= shown_metrics()


def test_the_dashboards_are_of_campaigns_targets_workers_and_the_database() -> None:
    assert [board.stem for board in BOARDS] == ["campaigns", "database", "targets", "workers"]


def test_the_first_word_about_a_failure_comes_within_ten_seconds() -> None:
    """The waits that lie between a failure and its alert, added up."""
    limits = Limits()
    throttled = limits.door_alert_seconds + limits.watcher_seconds
    silent = limits.worker_silent_seconds + limits.watcher_seconds
    sink = limits.sink_failing_seconds + limits.watcher_seconds
    nobody = limits.no_worker_seconds + limits.watcher_seconds
    assert max(throttled, silent, sink, nobody) <= FIRST_WORD_SECONDS - NOTICED_SECONDS


@dataclass(frozen=True, slots=True)
class Fires:
    """A rule of ours, what it sees, until when it is silent, and when it has fired."""

    alert: str
    series: dict[str, str]
    silent_at: int
    fires_at: int


def held(state: str) -> dict[str, str]:
    return {f'outrider_target_state{{target="sms", state="{state}"}}': "1x400"}


FIRES = [
    # The figures are there for a while, and then no longer.
    Fires("OutriderNoFigures", {"outrider_workers": "1x4 stale"}, 25, 35),
    Fires(
        "OutriderNoWorker",
        {"outrider_workers": "0x60", 'outrider_oldest_due_seconds{target="sms"}': "0+5x60"},
        20, 30,
    ),
    Fires("OutriderTargetHeld", held("held"), 5, 10),
    Fires("OutriderTargetDown", held("down"), 5, 10),
    Fires("OutriderTargetThrottled", held("throttled"), 25, 30),
    Fires(
        "OutriderWorkWaits",
        {'outrider_oldest_due_seconds{target="sms"}': "0+5x60",
         'outrider_target_state{target="sms", state="open"}': "1x60",
         'outrider_target_state{target="sms", state="down"}': "0x60",
         'outrider_oldest_due_seconds{target="mail"}': "0+5x60",
         'outrider_target_state{target="mail", state="down"}': "1x60"},
        90, 95,
    ),
    Fires("OutriderDoubtsForPeople", {'outrider_doubts{settles="person"}': "3x400"}, 895, 900),
    Fires("OutriderHistoryBehind", {'outrider_bus_lag_seconds{sink="history"}': "301x40"}, 55, 60),
    Fires("OutriderAlertOpen", {'outrider_alerts{code="JOB_DEAD"}': "1x40"}, 5, 10),
    Fires(
        "OutriderCallsFail",
        {'outrider_messages_total{target="sms", outcome="sent"}': "0+3x400",
         'outrider_messages_total{target="sms", outcome="failed"}': "0+1x400",
         'outrider_messages_total{target="mail", outcome="sent"}': "0+9x400",
         'outrider_messages_total{target="mail", outcome="failed"}': "0+1x400"},
        295, 310,
    ),
    Fires("OutriderBusWaits", {'outrider_bus_waiting{sink="audit"}': "1001x400"}, 295, 300),
]  # fmt: skip
PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
needs_prometheus = pytest.mark.skipif(
    PROMETHEUS is None or PROMTOOL is None,
    reason="NOT TESTED: prometheus is not installed; run `apt-get install prometheus`",
)


@needs_prometheus
def test_promtool_accepts_the_rules() -> None:
    assert PROMTOOL is not None
    checked = subprocess.run(
        [PROMTOOL, "check", "rules", RULES], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


@needs_prometheus
@pytest.mark.parametrize("rule", FIRES, ids=lambda rule: rule.alert)
def test_every_rule_fires_after_its_own_wait_and_not_before(rule: Fires, tmp_path: Path) -> None:
    """In promtool's time, with the real `for`: silent a moment before, firing when it is over."""
    assert PROMTOOL is not None
    firing = f'count(ALERTS{{alertname="{rule.alert}",alertstate="firing"}})'
    expected = [
        {"expr": firing, "eval_time": f"{rule.silent_at}s", "exp_samples": []},
        {"expr": firing, "eval_time": f"{rule.fires_at}s",
         "exp_samples": [{"labels": "{}", "value": 1}]},
    ]  # fmt: skip
    series = [{"series": name, "values": values} for name, values in rule.series.items()]
    test = {"interval": "5s", "input_series": series, "promql_expr_test": expected}
    file = tmp_path / "rules_test.json"
    file.write_text(
        json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "5s", "tests": [test]})
    )
    tested = subprocess.run(
        [PROMTOOL, "test", "rules", file], capture_output=True, text=True, check=False
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_every_rule_has_such_a_test() -> None:
    rules = re.findall(r"- alert: (\w+)", RULES.read_text())
    assert rules == [each.alert for each in FIRES]


@asynccontextmanager
async def prometheus(folder: Path, scraped: str) -> AsyncIterator[str]:
    """A Prometheus that looks every second, with our rules as they are."""
    assert PROMETHEUS is not None
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s,"
        " external_labels: {outrider_url: 'https://outrider.example.com'}}\n"
        f"rule_files: [{RULES}]\n"
        "scrape_configs:\n"
        f"  - {{job_name: outrider, static_configs: [{{targets: ['{scraped}']}}]}}\n"
    )
    address = f"127.0.0.1:{closed_port()}"
    process = await asyncio.create_subprocess_exec(
        PROMETHEUS, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={address}", stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield f"http://{address}"
    finally:
        process.kill()
        await process.wait()


async def firing(url: str) -> dict[str, str]:
    """The alerts that fire, with their links; none while Prometheus is starting."""
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{url}/api/v1/alerts") as response,
        ):
            found = (await response.json())["data"]["alerts"]
    except aiohttp.ClientError:
        return {}
    return {
        each["labels"]["alertname"]: each["annotations"]["runbook_url"]
        for each in found
        if each["state"] == "firing"
    }


async def until_fires(url: str, alert: str) -> dict[str, str]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await firing(url)
            if alert in found:
                return found
            await asyncio.sleep(0.2)


@needs_prometheus
async def test_a_real_prometheus_fires_for_a_target_that_is_down_and_for_a_server_that_is_gone(
    tmp_path: Path,
) -> None:
    down = target("sms.all", "sms", f"http://127.0.0.1:{closed_port()}")
    async with deployed(
        tmp_path, f"sqlite:///{tmp_path}/outrider.db", [down],
        settings={"sms.all": {"breaker_failures": 1, "breaker_seconds": 1, "concurrency": 1}},
        environment={"OUTRIDER_METRICS_WITHOUT_KEY": "true"},
    ) as deployment:  # fmt: skip
        await deployment.launch("sms.all", 3)
        folder = tmp_path / "prometheus"
        folder.mkdir()
        async with prometheus(folder, deployment.server.url.removeprefix("http://")) as url:
            found = await until_fires(url, "OutriderTargetDown")
            assert "OutriderNoFigures" not in found
            link = "https://outrider.example.com/console/runbook.html#target_down"
            assert found["OutriderTargetDown"] == link
            assert (await until_fires(url, "OutriderAlertOpen"))["OutriderAlertOpen"] == link
            os.kill(deployment.server.pid, signal.SIGKILL)
            await until_fires(url, "OutriderNoFigures")
