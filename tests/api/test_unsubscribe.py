"""One-click unsubscribing end to end: the mail that arrives, its link, and what is sent afterwards.

One server in this process, one database and one real mail server for all of it.
"""

import base64
import hashlib
import json
import re
from collections.abc import AsyncIterator, Mapping
from email.message import Message as Mail
from typing import NamedTuple

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.recipients import Recipient, recipient
from outrider.domain.states import Channel
from outrider.kernel.reports.launch_rehearser import PREVIEWED_ADDRESS
from outrider.kernel.transactions.suppressions import FIRST
from outrider.limits.access import FAILED_AUTH_BURST
from outrider.limits.api import ApiLimits
from outrider.settings import Settings
from outrider.testing.launches import launch, message, registry, target
from tests.support.api_inside import Inside, serving, until
from tests.support.mail_security import Mailroom, mail_serving
from tests.support.whole_runs import IMPATIENT, items_of, work_until_terminal

pytestmark = pytest.mark.asyncio(loop_scope="module")

PUBLIC_URL = "https://example.test/mail"
ONE_CLICK = {"List-Unsubscribe": "One-Click"}
PLAIN = message(Channel.EMAIL, "mail", body="Hello")
LINKED = message(Channel.EMAIL, "mail", body="Hi {{ firstName }}, leave: {{ unsubscribeUrl }}")


class Scene(NamedTuple):
    outrider: Outrider
    server: Inside
    mailroom: Mailroom

    async def ask(
        self, method: str, url: str, data: Mapping[str, str] | bytes | None = None
    ) -> tuple[int, Mapping[str, str], str]:
        """Ask for a link as a proxy in front of this server would."""
        host, port = self.server.address
        here = url.replace(PUBLIC_URL, f"http://{host}:{port}")
        async with self.server.session.request(method, here, data=data) as answer:
            return answer.status, answer.headers, await answer.text()

    async def link(self, address: str) -> str:
        url = await self.outrider.unsubscriber.url_of(DEFAULT_SCOPE, Channel.EMAIL, address)
        assert url is not None
        return url

    async def suppressed(self) -> dict[str, str]:
        found = await self.outrider.suppression_keeper.page(DEFAULT_SCOPE, FIRST, 1_000)
        return {each.address: each.reason for each in found}

    async def opt_outs_on_record(self) -> int:
        host, port = self.server.address
        url = f"http://{host}:{port}/api/v2/audit"
        async with self.server.session.get(url, headers=self.server.headers) as answer:
            items = (await answer.json())["items"]
        assert not [each for each in items if "@" in json.dumps(each)]
        return [(each["event"], each["actor"]) for each in items].count(
            ("suppression.added", "recipient")
        )

    async def mailed(self, told: Recipient) -> Mail | str:
        """The mail that this recipient of a campaign got, or why they got none."""
        before = len(self.mailroom.messages)
        run_id = await launch(self.outrider, [LINKED], [told])
        await work_until_terminal(self.outrider, run_id)
        if len(self.mailroom.messages) > before:
            return self.mailroom.messages[-1]
        return (await items_of(self.outrider, run_id))[told.id].reason or ""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    folder, mailroom = tmp_path_factory.mktemp("unsubscribe"), Mailroom()
    async with mail_serving(mailroom) as port:
        (folder / "registry.json").write_bytes(
            registry(target("mail", "smtp", f"smtp://127.0.0.1:{port}"))
        )
        settings = Settings(
            database_url=f"sqlite:///{folder}/outrider.db",
            registry=folder / "registry.json",
            artifacts=folder / "artifacts",
            spool=folder / "spool",
            public_url=f"{PUBLIC_URL}/",
        )
        async with open_outrider(settings, limits=IMPATIENT) as outrider:
            await outrider.store.migrate()
            async with serving(outrider, ApiLimits()) as server:
                yield Scene(outrider, server, mailroom)


async def test_a_mail_carries_the_link_that_ends_the_mails(scene: Scene) -> None:
    ada = recipient("ada", email="Ada@Example.test", attributes='{"firstName": "Ada"}')
    mail = await scene.mailed(ada)
    assert isinstance(mail, Mail)
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    url = mail["List-Unsubscribe"].removeprefix("<").removesuffix(">")
    assert url.startswith(f"{PUBLIC_URL}/unsubscribe/")
    assert str(mail.get_payload()).strip() == f"Hi Ada, leave: {url}"
    status, _, page = await scene.ask("POST", url, ONE_CLICK)
    assert status == 200
    assert "You are unsubscribed" in page
    assert (await scene.suppressed())["ada@example.test"] == "unsubscribed"
    assert await scene.mailed(ada) == "suppressed"
    another = recipient("bob", email="bob@example.test", attributes='{"firstName": "Bob"}')
    assert isinstance(await scene.mailed(another), Mail)


async def test_opening_the_link_changes_nothing(scene: Scene) -> None:
    url = await scene.link("carol@example.test")
    for method in ("GET", "HEAD", "GET"):
        status, headers, page = await scene.ask(method, url)
        assert status == 200
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert int(headers["Content-Length"]) > 500
    assert "c•••@example.test" in page
    assert "carol" not in page
    assert '<form method="post">' in page
    assert "carol@example.test" not in await scene.suppressed()


async def test_the_page_loads_nothing_and_reports_nothing(scene: Scene) -> None:
    _, headers, page = await scene.ask("GET", await scene.link("carol@example.test"))
    style = re.search(r"<style>(.*)</style>", page, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = headers["Content-Security-Policy"]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'self'")
    assert "frame-ancestors 'none'" in policy
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert "noindex" in headers["X-Robots-Tag"]
    for outward in ("<script", "src=", "href=", "url(", "http", "@import"):
        assert outward not in page, outward


@pytest.mark.parametrize("body", [ONE_CLICK, b"", b"\xff\x00"], ids=["form", "none", "noise"])
async def test_unsubscribing_twice_is_unsubscribing_once(
    scene: Scene, body: Mapping[str, str] | bytes
) -> None:
    url = await scene.link(f"dora{len(body)}@example.test")
    before = await scene.opt_outs_on_record()
    answers = [await scene.ask("POST", url, body) for _ in range(3)]
    assert [status for status, _, _ in answers] == [200, 200, 200]
    assert len({page for _, _, page in answers}) == 1
    assert await scene.opt_outs_on_record() == before + 1


async def test_a_body_that_is_no_form_of_ours_is_not_read(scene: Scene) -> None:
    url = await scene.link("erin@example.test")
    status, _, _ = await scene.ask("POST", url, b"x" * (ApiLimits.form_max_bytes + 1))
    assert status == 413
    assert "erin@example.test" not in await scene.suppressed()


async def test_a_forged_link_does_nothing_and_has_to_wait_while_true_ones_work(
    scene: Scene,
) -> None:
    before = await scene.suppressed()
    url = await scene.link("frank@example.test")
    forged = [url[:-1], url[:-4] + "AAAA", f"{url}/x", f"{PUBLIC_URL}/unsubscribe/"]
    for link in forged:
        for method in ("GET", "POST"):
            status, headers, page = await scene.ask(method, link)
            assert status == 404
            assert "This link does not work" in page
            assert headers["Content-Type"] == "text/html; charset=utf-8"
    for _ in range(FAILED_AUTH_BURST):
        status, headers, page = await scene.ask("GET", forged[0])
    assert status == 429
    assert int(headers["Retry-After"]) >= 1
    assert await scene.suppressed() == before
    assert (await scene.ask("GET", url))[0] == 200
    assert (await scene.ask("POST", url, ONE_CLICK))[0] == 200


async def test_the_log_has_neither_the_token_nor_the_address(scene: Scene) -> None:
    url = await scene.link("grace@example.test")
    token = url.rpartition("/")[2]
    with capture_logs() as lines:
        for method, asked in (("GET", url), ("POST", url), ("PUT", url), ("GET", f"{url}/x%0a")):
            await scene.ask(method, asked)
        await until(lambda: sum(line["event"] == "request" for line in lines) == 4)
    told = json.dumps(lines)
    assert "/unsubscribe/{token}" in told
    for hidden in (token, token[:40], "grace"):
        assert hidden not in told


async def test_a_preview_shows_a_link_that_opts_nobody_out(scene: Scene) -> None:
    created = await scene.server.post(
        "/campaigns",
        {
            "name": "preview",
            "phases": ["launch"],
            "audience": {"recipients": [
                {"id": "h", "email": "heidi@example.test", "attributes": {"firstName": "H"}},
            ]},
            "messages": [{
                "id": "m", "channel": "email", "submissionTarget": "mail", "subject": "s",
                "body": LINKED.body,
            }],
        },
    )  # fmt: skip
    shown = await scene.server.post(f"/campaigns/{created['campaignId']}/preview", {})
    body = shown["body"]
    assert isinstance(body, str)
    token = body.rpartition("/")[2]
    found = await scene.outrider.unsubscriber.read(token)
    assert found is not None
    assert found.address == PREVIEWED_ADDRESS
