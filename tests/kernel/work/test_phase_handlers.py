"""The built-in phases with a context in memory: real name and web servers, real plug-ins."""

import asyncio
import csv
import io
import json
import re
import socket
import time
import tomllib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.domain.campaigns import CampaignDefinition, Message
from outrider.domain.errors import Conflict, InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId, Scope
from outrider.domain.recipients import AddressKind, Recipient, recipient
from outrider.domain.states import Channel
from outrider.limits.phases import (
    DNS_CACHE_SECONDS,
    DNS_DOMAINS_SHOWN_MAX,
    IMPORT_PROBLEMS_SHOWN_MAX,
    LINK_MAX_CHARACTERS,
    LINKS_MAX,
    LINKS_PER_JOB,
)
from outrider.phases import results_csv
from outrider.phases.audience_import import AudienceImport
from outrider.phases.dns_validation import DnsValidation
from outrider.phases.http_validation import HttpValidation
from outrider.phases.link_checker import without_credentials
from outrider.phases.links import Links, links_of
from outrider.phases.mail_domains import MailDomains, Reception, nameserver
from outrider.phases.registry import GROUP, load_handlers
from outrider.phases.report import ReportPhase
from outrider.ports.phases import (
    AudienceChunk,
    AudienceMember,
    PhaseHandler,
    PhaseJob,
    PhaseResult,
    ResultLine,
)
from outrider.testing.clock import FakeClock
from tests.support.broken_server import Reader, Writer, serving
from tests.support.distributions import Install, installing
from tests.support.dns_server import NameServer, Trouble, Zone, name_server

SHORT_SECONDS = 1.0
SLOW_SECONDS = 60
LONG_SECONDS = 30
IN_TIME = "its name servers did not answer in time"
PAGE = (Path(__file__).parents[3] / "docs/explanation/phases.md").read_text()


def message(body: str = "Hi", subject: str | None = None) -> Message:
    return Message("offer", Channel.EMAIL, "mail.offers", body, subject)


async def no_sender(_scope: Scope, _target: str) -> None:
    """A target whose provider sends in its own name."""


class MemoryDesk:
    """A context without a store."""

    def __init__(
        self,
        audience: Sequence[Recipient] = (),
        *,
        messages: Sequence[Message] = (),
        batch_size: int = 500,
        name: str = "Spring",
    ) -> None:
        self.campaign_id = CampaignId("campaign")
        self.run_id = RunId("run")
        self.scope = DEFAULT_SCOPE
        self.definition = CampaignDefinition(
            name, ("launch",), tuple(messages or [message()]), batch_size
        )
        self.audience = dict(enumerate(audience))
        self.marked: dict[int, AddressKind] = {}
        self.chunks: list[list[object]] = []
        self.summary: Mapping[str, object] | None = None
        self.pages: list[list[ResultLine]] = []
        self.kept: dict[str, tuple[str, bytes]] = {}
        self.chunks_kept: dict[str, int] = {}

    async def positions(self) -> int:
        return max(self.audience, default=-1) + 1

    async def members(self, first: int, last: int) -> Sequence[AudienceMember]:
        assert last - first < self.definition.batch_size
        return [
            AudienceMember(
                position,
                one.id,
                one.email,
                one.phone,
                one.push_token,
                (one.invalid | self.marked.get(position, AddressKind.NONE)).value,
            )
            for position, one in sorted(self.audience.items())
            if first <= position <= last
        ]

    async def mark_invalid(self, kind: AddressKind, positions: Sequence[int]) -> None:
        for position in positions:
            self.marked[position] = self.marked.get(position, AddressKind.NONE) | kind

    def _first(self, chunk: int) -> int:
        return sum(map(len, self.chunks[:chunk]))

    async def uploads(self) -> Sequence[AudienceChunk]:
        return [
            AudienceChunk(chunk, self._first(chunk), len(records))
            for chunk, records in enumerate(self.chunks)
        ]

    async def repeated_uploads(self) -> Sequence[int]:
        ids = [
            each.get("id") if isinstance(each, dict) else None
            for records in self.chunks
            for each in records
        ]
        return [place for place, each in enumerate(ids) if each is not None and each in ids[:place]]

    async def upload(self, chunk: int) -> Sequence[object]:
        return self.chunks[chunk]

    async def add_members(self, first: int, recipients: Sequence[Recipient | None]) -> int:
        there = 0
        for position, one in enumerate(recipients, start=first):
            if one is None:
                continue
            if one.id not in {other.id for other in self.audience.values()}:
                self.audience[position] = one
            there += position in self.audience and self.audience[position].id == one.id
        return there

    async def launch_summary(self) -> Mapping[str, object] | None:
        return self.summary

    async def launch_lines(self) -> AsyncIterator[Sequence[ResultLine]]:
        for page in self.pages:
            yield page

    async def keep(self, name: str, media_type: str, content: AsyncIterator[bytes]) -> None:
        chunks = [chunk async for chunk in content]
        self.chunks_kept[name] = len(chunks)
        self.kept[name] = (media_type, b"".join(chunks))


async def run(
    handler: PhaseHandler, context: MemoryDesk, *, check_repeat: bool = True
) -> list[PhaseResult]:
    """Every job of the phase, each done twice, as after a crash: the results must be the same."""
    results = []
    for number, plan in enumerate(await handler.plan(context)):
        assert plan.items > 0
        # Through JSON, as the ledger keeps it.
        job = PhaseJob(f"job-{number}", plan.items, json.loads(json.dumps(plan.detail)))
        result = await handler.process(context, job)
        assert result.succeeded + result.failed + result.skipped == plan.items
        assert min(result.succeeded, result.failed, result.skipped) >= 0
        json.dumps(result.detail).encode()
        if check_repeat:
            assert await handler.process(context, job) == result
        results.append(result)
    return results


def counts(results: Sequence[PhaseResult]) -> list[tuple[int, int, int]]:
    return [(result.succeeded, result.failed, result.skipped) for result in results]


# Importing an audience.


async def test_good_records_become_members_and_bad_ones_leave_gaps() -> None:
    context = MemoryDesk()
    context.chunks = [
        [{"id": "a", "email": "a@example.test"}, {"id": "b|"}, {"id": "c", "phone": "nope"}],
        ["nonsense", {"id": "d", "message": "offer", "attributes": {"n": 1}}],
    ]
    results = await run(AudienceImport(), context)
    assert counts(results) == [(2, 1, 0), (1, 1, 0)]
    assert {position: one.id for position, one in context.audience.items()} == {
        0: "a",
        2: "c",
        4: "d",
    }
    assert context.audience[2].invalid == AddressKind.PHONE
    assert results[0].detail == {
        "problems": [{"position": 1, "path": "id", "message": "must not contain '|'"}]
    }
    assert results[1].detail == {
        "problems": [{"position": 3, "path": "", "message": "should be an object"}]
    }


async def test_an_id_that_is_there_already_is_skipped_wherever_chunks_end() -> None:
    records: list[object] = [{"id": "a"}, {"id": "b"}, {"id": "a"}, {"id": "b"}, {"id": "c"}]
    for size in (1, 2, 3, 5):
        context = MemoryDesk()
        context.chunks = [records[at : at + size] for at in range(0, len(records), size)]
        results = await run(AudienceImport(), context)
        assert sum(result.skipped for result in results) == 2
        assert sum(result.failed for result in results) == 0
        assert {at: one.id for at, one in context.audience.items()} == {0: "a", 1: "b", 4: "c"}


async def test_problems_are_shown_up_to_a_limit_and_are_always_storable() -> None:
    context = MemoryDesk()
    context.chunks = [[{"\ud800\x00" + "x" * 10_000: 1} for _ in range(100)]]
    [result] = await run(AudienceImport(), context)
    assert (result.failed, len(context.audience)) == (100, 0)
    problems: Any = result.detail["problems"]
    assert len(problems) == IMPORT_PROBLEMS_SHOWN_MAX
    assert len(json.dumps(problems)) < 20_000


async def test_a_message_that_the_campaign_does_not_have_is_a_problem() -> None:
    context = MemoryDesk()
    context.chunks = [[{"id": "a", "message": "other"}]]
    [result] = await run(AudienceImport(), context)
    assert result.detail["problems"] == [
        {
            "position": 0,
            "path": "message",
            "message": "is not the id of a message of this campaign",
        }
    ]


async def test_without_uploads_there_is_nothing_to_do() -> None:
    assert await run(AudienceImport(), MemoryDesk()) == []


# Asking the DNS.

ZONE: Zone = {
    "mx.test": {"MX": ["10 mail.mx.test.", "20 other.mx.test."]},
    "null.test": {"MX": ["0 ."]},
    "both.test": {"MX": ["0 .", "10 mail.both.test."]},
    "a.test": {"A": ["192.0.2.1"]},
    "aaaa.test": {"AAAA": ["2001:db8::1"]},
    "empty.test": {"TXT": ["nothing"]},
    "servfail.test": Trouble.SERVFAIL,
    "once.test": Trouble.SERVFAIL_ONCE,
    "silent.test": Trouble.SILENCE,
    "garbage.test": Trouble.GARBAGE,
    "bücher.test".encode("idna").decode(): {"MX": ["10 mail.mx.test."]},
}


def people(*addresses: str | None) -> list[Recipient]:
    return [recipient(f"lead-{at}", email=address) for at, address in enumerate(addresses)]


def asking(server: NameServer, **options: Any) -> DnsValidation:
    return DnsValidation([server.address], **options)


@pytest.mark.parametrize(
    ("domain", "reception", "why"),
    [
        ("mx.test", Reception.RECEIVES, "has an MX record"),
        ("both.test", Reception.RECEIVES, "has an MX record"),
        ("a.test", Reception.RECEIVES, "has an address of its own"),
        ("aaaa.test", Reception.RECEIVES, "has an address of its own"),
        ("once.test", Reception.RECEIVES, "has an MX record"),
        ("null.test", Reception.REFUSES, "declares that it accepts no mail (null MX)"),
        ("empty.test", Reception.REFUSES, "has neither an MX record nor an address"),
        ("missing.test", Reception.REFUSES, "does not exist"),
        ("servfail.test", Reception.UNKNOWN, "no name server could answer"),
        # What is not an answer may be forged, so the real one is waited for.
        ("garbage.test", Reception.UNKNOWN, IN_TIME),
        ("silent.test", Reception.UNKNOWN, IN_TIME),
    ],
)
async def test_the_dns_decides_whether_a_domain_receives(
    domain: str, reception: Reception, why: str
) -> None:
    async with name_server(ZONE) as server:
        # Whoever does answer has all the time that a busy machine takes.
        seconds = SHORT_SECONDS / 4 if why == IN_TIME else LONG_SECONDS
        domains = MailDomains([server.address], timeout_seconds=seconds, tries=2)
        assert await domains.verdicts([domain]) == {domain: (reception, why)}


async def test_a_truncated_answer_is_asked_for_again_over_tcp() -> None:
    async with name_server(ZONE, truncates=True) as server:
        [(reception, _)] = (await MailDomains([server.address]).verdicts(["mx.test"])).values()
        assert reception is Reception.RECEIVES
        assert server.asked_by_tcp == 1


async def test_a_server_that_is_silent_is_stood_in_for_by_the_next() -> None:
    async with name_server({"mx.test": Trouble.SILENCE}) as silent, name_server(ZONE) as server:
        domains = MailDomains([silent.address, server.address], timeout_seconds=SHORT_SECONDS)
        [(reception, _)] = (await domains.verdicts(["mx.test"])).values()
        assert reception is Reception.RECEIVES


async def test_members_at_domains_without_mail_are_marked_and_doubts_are_failures() -> None:
    context = MemoryDesk(
        people(
            "a@mx.test", "b@null.test", "c@missing.test", "not an address", None, "d@servfail.test",
            "e@bücher.test", "f@null.test",
        )
    )  # fmt: skip
    async with name_server(ZONE) as server:
        [result] = await run(asking(server, tries=1), context)
        assert not [name for name, _ in server.asked if name.startswith("not")]
    assert counts([result]) == [(2, 1, 3)]
    assert context.marked == dict.fromkeys((1, 2, 7), AddressKind.EMAIL)
    assert result.detail == {
        "domains": [
            {
                "domain": "null.test",
                "why": "declares that it accepts no mail (null MX)",
                "recipients": 2,
            },
            {"domain": "missing.test", "why": "does not exist", "recipients": 1},
            {"domain": "servfail.test", "why": "no name server could answer", "recipients": 1},
        ],
        "domainsNotShown": 0,
    }


async def test_a_marked_member_stays_marked_and_is_skipped_when_the_job_is_repeated() -> None:
    """The answer that marked them may be another one after the crash."""
    context = MemoryDesk(people("a@mx.test", "b@mx.test"))
    await context.mark_invalid(AddressKind.EMAIL, [0])
    async with name_server(ZONE) as server:
        assert counts(await run(asking(server), context)) == [(1, 0, 1)]
    assert context.marked == {0: AddressKind.EMAIL}


async def test_an_address_cut_to_the_maximum_length_still_adds_up() -> None:
    label = "x" * 60
    context = MemoryDesk(people(f"a@{'.'.join([label] * 5)}.test", "b@mx.test"))
    assert context.audience[0].invalid == AddressKind.EMAIL
    async with name_server(ZONE) as server:
        [result] = await run(asking(server), context)
    assert (result.succeeded, result.failed) == (1, 0)


async def test_jobs_are_batches_of_positions_and_none_is_empty() -> None:
    context = MemoryDesk(
        people("a@mx.test", None, None, "nope", "b@mx.test", "c@mx.test", "d@mx.test"),
        batch_size=2,
    )
    jobs = [(job.items, job.detail) for job in await DnsValidation().plan(context)]
    assert jobs == [
        (2, {"first": 4, "last": 5}) if first == 4 else (1, {"first": first, "last": first + 1})
        for first in (0, 4, 6)
    ]


async def test_a_domain_is_asked_once_by_all_jobs_of_a_process() -> None:
    context = MemoryDesk(people(*(f"{at}@mx.test" for at in range(6))), batch_size=2)
    async with name_server(ZONE) as server:
        assert counts(await run(asking(server), context)) == [(2, 0, 0)] * 3
        assert server.asked == [("mx.test", "MX")]


async def test_a_verdict_is_forgotten_when_it_is_old() -> None:
    clock = FakeClock()
    async with name_server(ZONE) as server:
        domains = MailDomains([server.address], tries=1, now=clock.monotonic)
        for passed in (0, DNS_CACHE_SECONDS - 1, 1):
            clock.advance(passed)
            await domains.verdicts(["mx.test"])
        assert server.asked == [("mx.test", "MX")] * 2


async def test_a_doubt_is_not_remembered() -> None:
    zone: dict[str, Any] = {"late.test": Trouble.SERVFAIL}
    async with name_server(zone) as server:
        domains = MailDomains([server.address], tries=1)
        [before] = (await domains.verdicts(["late.test"])).values()
        zone["late.test"] = {"MX": ["10 mx.test."]}
        [after] = (await domains.verdicts(["late.test"])).values()
    assert (before.reception, after.reception) == (Reception.UNKNOWN, Reception.RECEIVES)


async def test_no_more_questions_are_open_than_the_limit_allows() -> None:
    zone = {f"d{at}.test": {"MX": ["10 mx.test."]} for at in range(40)}
    open_now, most = 0, 0

    class Slow(NameServer):
        def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
            nonlocal open_now, most
            open_now += 1
            most = max(most, open_now)
            asyncio.get_running_loop().call_later(0.005, self.later, data, addr)

        def later(self, data: bytes, addr: tuple[str, int]) -> None:
            nonlocal open_now
            open_now -= 1
            super().datagram_received(data, addr)

    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: Slow(zone), local_addr=("127.0.0.1", 0)
    )
    address = "{}:{}".format(*transport.get_extra_info("sockname"))
    verdicts = await MailDomains([address], concurrency=5).verdicts(zone)
    transport.close()
    assert {verdict.reception for verdict in verdicts.values()} == {Reception.RECEIVES}
    assert 1 < most <= 5


async def test_bad_domains_are_shown_up_to_a_limit() -> None:
    context = MemoryDesk(people(*(f"a@d{at}.test" for at in range(DNS_DOMAINS_SHOWN_MAX + 7))))
    async with name_server({}) as server:
        [result] = await run(asking(server), context)
    domains: Any = result.detail["domains"]
    assert (len(domains), result.detail["domainsNotShown"]) == (DNS_DOMAINS_SHOWN_MAX, 7)


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [
        ("127.0.0.1", "127.0.0.1", 53), ("127.0.0.1:5353", "127.0.0.1", 5353),
        ("::1", "::1", 53), ("[::1]:5353", "::1", 5353), ("[::1]", "::1", 53),
    ],
)  # fmt: skip
def test_a_name_server_is_an_address_with_or_without_a_port(
    text: str, address: str, port: int
) -> None:
    server = nameserver(text)
    assert (server.address, server.port) == (address, port)


@pytest.mark.parametrize("text", ["", "dns.test", "127.0.0.1:x", "127.0.0.1:99999", "[::1", "1.2"])
def test_an_invalid_name_server_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not the address of a name server"):
        DnsValidation([text])


# Finding links.


def known(body: str) -> tuple[str, ...]:
    return links_of([message(body)]).known


@pytest.mark.parametrize(
    ("body", "links"),
    [
        ("See https://a.test/b, or (http://c.test/d).", ("https://a.test/b", "http://c.test/d")),
        ("HTTPS://A.test/x?y=1&z=2#w!", ("HTTPS://A.test/x?y=1&z=2#w",)),
        ("[text](https://a.test/A_(b)) **https://b.test/**", ("https://a.test/A_(b)",
                                                              "https://b.test/")),
        ("http://[::1]:80/x", ("http://[::1]:80/x",)),
        ("mailto:a@b.test ftp://a.test //a.test svn+http://a.test https://", ()),
        ('<a href="https://a.test/?x=1&amp;y=2">https://b.test&gt;</a>', ("https://a.test/?x=1&y=2",
                                                                          "https://b.test")),
        ("https://a.test/?x=1&amp;y=2", ("https://a.test/?x=1&amp;y=2",)),
        ("<a href='https://a.test'><img src=https://b.test/i.png>", ("https://a.test",
                                                                     "https://b.test/i.png")),
        ("{% if a %}https://a.test/{% else %}https://b.test/{%- endif %}", ("https://a.test/",
                                                                            "https://b.test/")),
        ("https://a.test/{# a note #}b", ("https://a.test/b",)),
        ("https://a.test\ue000b", ("https://a.test",)),
    ],
)  # fmt: skip
def test_links_are_found_as_people_write_them(body: str, links: tuple[str, ...]) -> None:
    assert links_of([message(body)]) == Links(links, ())


@pytest.mark.parametrize(
    "link",
    [
        "https://a.test/{{ id }}",
        "https://{{ host }}/x",
        'https://a.test/?u={{ user["id"] }}&v=1',
        "https://a.test/{% if vip %}vip",
        "https://a.test/{{id",
    ],
)
def test_links_with_a_template_expression_cannot_be_known(link: str) -> None:
    assert links_of([message(f"{{{{ name }}}}, see {link} now.")]) == Links((), (link,))


def test_each_link_is_named_once_whatever_the_message() -> None:
    messages = [
        message("https://a.test https://a.test"),
        message("https://b.test", "https://a.test"),
    ]
    assert links_of(messages).known == ("https://a.test", "https://b.test")


@settings(deadline=None)
@given(st.text(st.sampled_from("https:/.{}%#&;<>()\"' \ue000aé\n") | st.characters(), max_size=80))
def test_whatever_is_written_the_links_around_it_are_found(text: str) -> None:
    plain = re.sub(r"[{}]", "", text)
    links = links_of([message(f"https://first.test {plain} https://last.test/x")])
    assert links.known[0] == "https://first.test"
    assert "https://last.test/x" in links.known
    for link in (*links.known, *links_of([message(text)]).known):
        assert re.match(r"(?i)https?://[^\s<>\"'`]+\Z", link)


@pytest.mark.parametrize("piece", ["{{", "http://{{", "{% ", "{#", "https://a{{b}}", ")", "&amp;"])
def test_a_hostile_body_is_read_in_linear_time(piece: str) -> None:
    started = time.process_time()
    links_of([message("<" + "https://a.test/" + piece * (262_144 // len(piece)))])
    assert time.process_time() - started < 2


# Asking links.


async def web_pages(hits: list[tuple[str, str]]) -> web.Application:
    async def answer(request: web.Request) -> web.StreamResponse:
        hits.append((request.method, request.path))
        match request.path:
            case "/missing":
                return web.Response(status=404)
            case "/broken":
                return web.Response(status=503)
            case "/loop":
                raise web.HTTPFound("/loop")
            case "/five" | "/six":
                count = int(request.query.get("n", "5" if request.path == "/five" else "6"))
                location = f"{request.path}?n={count - 1}" if count > 1 else "/fine"
                raise web.HTTPMovedPermanently(location)
            case "/to-file":
                return web.Response(status=302, headers={"Location": "file:///etc/passwd"})
            case "/to-credentials":
                return web.Response(status=302, headers={"Location": "http://u:p@127.0.0.1/"})
            case "/to-nonsense":
                return web.Response(status=302, headers={"Location": "http://[::1"})
            case "/nowhere":
                return web.Response(status=302)
            case "/unchanged":
                return web.Response(status=304)
            case "/get-only" if request.method == "HEAD":
                return web.Response(status=405)
            case "/slow":
                await asyncio.sleep(SLOW_SECONDS)
            case "/endless" if request.method == "HEAD":
                return web.Response(status=501)
            case "/endless":
                response = web.StreamResponse()
                await response.prepare(request)
                while True:
                    await response.write(b"x" * 65_536)
        return web.Response(text="fine")

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    return application


@asynccontextmanager
async def web_server(hits: list[tuple[str, str]]) -> AsyncIterator[str]:
    runner = web.AppRunner(await web_pages(hits), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.fixture
def hits() -> list[tuple[str, str]]:
    return []


@pytest.fixture
async def site(hits: list[tuple[str, str]]) -> AsyncIterator[str]:
    async with web_server(hits) as url:
        yield url


async def ask(body: str, *, allow_private: bool = True, seconds: float = 30.0) -> list[PhaseResult]:
    handler = HttpValidation(allow_private=allow_private, seconds=seconds)
    return await run(handler, MemoryDesk(messages=[message(body)]), check_repeat=False)


@pytest.mark.parametrize(
    "path", ["/fine", "/get-only", "/five", "/unchanged", "/nowhere", "/endless", "/fine#part"]
)
async def test_a_link_that_answers_succeeds(site: str, path: str) -> None:
    [result] = await ask(f"{site}{path}")
    assert (counts([result]), result.detail) == ([(1, 0, 0)], {})


@pytest.mark.parametrize(
    ("path", "finding"),
    [
        ("/missing", {"status": 404}),
        ("/broken", {"status": 503}),
        ("/loop", {"reason": "redirects more than 5 times"}),
        ("/six", {"reason": "redirects more than 5 times"}),
        ("/to-file", {"reason": "leads to something other than http and https"}),
        ("/to-credentials", {"reason": "carries credentials"}),
        ("/to-nonsense", {"reason": "is not a URL that can be requested"}),
    ],
)
async def test_a_link_that_does_not_answer_fails_with_its_status_or_reason(
    site: str, path: str, finding: dict[str, object]
) -> None:
    [result] = await ask(f"{site}{path}")
    assert counts([result]) == [(0, 1, 0)]
    assert result.detail == {"failed": [{"link": f"{site}{path}", **finding}]}


async def test_get_is_only_asked_where_head_was_answered_with_an_error(
    site: str, hits: list[tuple[str, str]]
) -> None:
    await ask(f"{site}/fine {site}/get-only")
    assert sorted(hits) == [("GET", "/get-only"), ("HEAD", "/fine"), ("HEAD", "/get-only")]


async def test_a_slow_link_is_given_up_in_time(site: str) -> None:
    started = time.monotonic()
    [result] = await ask(f"{site}/slow {site}/fine", seconds=SHORT_SECONDS)
    assert time.monotonic() - started < SLOW_SECONDS
    assert counts([result]) == [(1, 1, 0)]
    assert result.detail["failed"] == [{"link": f"{site}/slow", "reason": "did not answer in time"}]


async def test_a_server_that_is_missing_or_not_http_fails_with_a_reason() -> None:
    async def nonsense(reader: Reader, writer: Writer) -> None:
        await reader.readline()
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")

    async def hang_up(_reader: Reader, writer: Writer) -> None:
        writer.close()

    async with serving(nonsense) as strange, serving(hang_up) as rude:
        # Taken, so that nobody else gets the port; and nobody listens there.
        nobody = socket.socket()
        nobody.bind(("127.0.0.1", 0))
        links = {
            f"http://127.0.0.1:{strange}": "its response is not HTTP",
            f"http://127.0.0.1:{rude}": "the connection was lost",
            f"http://127.0.0.1:{nobody.getsockname()[1]}": "no connection could be made",
            f"https://127.0.0.1:{strange}": "no TLS connection could be made",
            "http://127.0.0.1:99999": "is not a URL that can be requested",
            "http://nowhere.invalid/": "its host name has no address",
            "http://127.0.0.1/" + "x" * LINK_MAX_CHARACTERS: "is longer than 2048 characters",
        }
        [result] = await ask(" ".join(links))
        nobody.close()
    found: Any = result.detail["failed"]
    assert [each["reason"] for each in found] == list(links.values())


async def test_no_link_and_no_redirect_leads_to_a_private_address_while_the_guard_is_on(
    site: str, hits: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = site.rpartition(":")[2]
    links = [f"{site}/fine", f"http://localhost:{port}/fine", f"http://[::1]:{port}/fine"]
    [result] = await ask(" ".join(links), allow_private=False)
    assert result.detail["failed"] == [
        {"link": link, "reason": "leads to an address that is not public"} for link in links
    ]
    assert hits == []

    # The first server counts as public, the one it redirects to does not.
    async def redirect(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        location = f"http://127.0.0.2:{port}/fine".encode()
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % location)

    monkeypatch.setattr(
        "outrider.gateways.address_guard.is_public", lambda address: address == "127.0.0.1"
    )
    async with serving(redirect) as public:
        link = f"http://127.0.0.1:{public}/"
        [result] = await ask(link, allow_private=False)
    assert result.detail["failed"] == [
        {"link": link, "reason": "leads to an address that is not public"}
    ]
    assert hits == []


async def test_links_that_depend_on_the_recipient_are_skipped(
    site: str, hits: list[tuple[str, str]]
) -> None:
    [result] = await ask(f"{site}/fine {site}/{{{{ id }}}}")
    assert counts([result]) == [(1, 0, 1)]
    skipped = [{"link": f"{site}/{{{{ id }}}}", "reason": "depends on the recipient"}]
    assert result.detail == {"skipped": skipped}
    assert hits == [("HEAD", "/fine")]


async def test_credentials_in_a_link_are_neither_sent_nor_shown(
    site: str, hits: list[tuple[str, str]]
) -> None:
    [result] = await ask(site.replace("http://", "http://user:pa@ss@") + "/fine")
    assert result.detail["failed"] == [{"link": f"{site}/fine", "reason": "carries credentials"}]
    assert hits == []
    assert without_credentials("http://a.test?x=u@b") == "http://a.test?x=u@b"


async def test_a_job_has_a_limited_number_of_links_and_so_has_a_campaign() -> None:
    handler = HttpValidation(allow_private=True)
    body = (
        " ".join(f"http://a.test/{at}" for at in range(LINKS_PER_JOB + 1)) + " http://b.test/{{c}}"
    )
    jobs = await handler.plan(MemoryDesk(messages=[message(body)]))
    assert [job.items for job in jobs] == [LINKS_PER_JOB, 2]
    assert jobs[1].detail == {
        "ask": [f"http://a.test/{LINKS_PER_JOB}"],
        "skip": ["http://b.test/{{c}}"],
    }
    body = " ".join(f"http://a.test/{at}" for at in range(LINKS_MAX + 1))
    with pytest.raises(InvalidInput, match="5,001 links"):
        await handler.plan(MemoryDesk(messages=[message(body)]))
    assert await handler.plan(MemoryDesk()) == []


# Reporting.


def line(number: int, **changes: Any) -> ResultLine:
    plain = ResultLine(
        f"item-{number}", f"lead-{number}", "a@mx.test", "email", "mail.offers", "sent", None, 1,
        f"message-{number}", "2026-12-01T09:00:00Z",
    )  # fmt: skip
    return plain._replace(**changes)


def launched() -> dict[str, object]:
    accounting = {
        "intended": 3, "waiting": 0, "inDoubt": 0, "sent": 1, "failed": 1, "skipped": 1,
    }  # fmt: skip
    certificate = {
        "runId": "run-1",
        "campaignId": "campaign",
        "status": "partial",
        "holds": True,
        "criteria": [{"name": "run_terminal", "holds": True, "detail": "the run is partial"}],
        "accounting": accounting,
        "ledgerDigest": "ab" * 32,
        "issuedAt": "2026-12-01T09:30:00Z",
    }
    return {
        "run": {"runId": "run-1", "status": "partial", "channel": "email"},
        "accounting": accounting,
        "certificate": certificate,
        "reasons": [{"status": "failed", "reason": "invalid_recipient", "items": 1}],
    }


async def test_without_a_launch_there_is_nothing_to_report_on() -> None:
    with pytest.raises(Conflict, match="has not been launched"):
        await ReportPhase().process(MemoryDesk(), PhaseJob("job", 1, {}))


async def test_a_report_keeps_three_artifacts() -> None:
    context = MemoryDesk(name="<b>Spring</b>")
    context.summary = launched()
    context.pages = [
        [line(1), line(2, status="failed", reason="invalid_recipient")],
        [line(3, status="skipped", channel="sms", address="+447700900123")],
    ]
    [result] = await run(ReportPhase(), context)
    assert counts([result]) == [(1, 0, 0)]
    assert result.detail == {"lines": 3, "certificateHolds": True}
    assert {name: kind for name, (kind, _) in context.kept.items()} == {
        "results.csv": "text/csv; charset=utf-8",
        "certificate.json": "application/json",
        "report.html": "text/html; charset=utf-8",
    }
    assert json.loads(context.kept["certificate.json"][1]) == launched()["certificate"]
    page = context.kept["report.html"][1].decode()
    assert "&lt;b&gt;Spring" in page
    assert "1 sent · 1 failed" in page
    assert "Counted from the 3 lines of results.csv" in page


async def test_results_are_written_page_by_page_and_can_be_read_back() -> None:
    context = MemoryDesk()
    context.summary = launched()
    context.pages = [[line(at) for at in range(start, start + 100)] for start in range(0, 500, 100)]
    await run(ReportPhase(), context)
    assert context.chunks_kept["results.csv"] == 6
    rows = list(csv.DictReader(io.StringIO(context.kept["results.csv"][1].decode(), newline="")))
    assert [row["recipientId"] for row in rows] == [f"lead-{at}" for at in range(500)]
    assert rows[0] == {
        "outboxId": "item-0",
        "recipientId": "lead-0",
        "address": "a@mx.test",
        "channel": "email",
        "submissionTarget": "mail.offers",
        "status": "sent",
        "reason": "",
        "attempts": "1",
        "providerMessageId": "message-0",
        "updatedAt": "2026-12-01T09:00:00Z",
        "delivery": "none",
        "deliveryReason": "",
        "variant": "",
    }


async def test_a_report_says_what_receipts_report_of_what_was_sent() -> None:
    context = MemoryDesk()
    context.summary = launched()
    bounce = {"delivery": "bounced", "delivery_reason": "=no such user"}
    context.pages = [[line(1, delivery="delivered"), line(2, **bounce)], [line(3)]]
    await run(ReportPhase(), context)
    page = context.kept["report.html"][1].decode()
    said = "As reported by receipts, for 2 of 3 sent messages: 1 delivered, 1 bounced."
    assert said in page
    rows = list(csv.DictReader(io.StringIO(context.kept["results.csv"][1].decode(), newline="")))
    assert [(row["delivery"], row["deliveryReason"]) for row in rows] == [
        ("delivered", ""), ("bounced", "'=no such user"), ("none", ""),
    ]  # fmt: skip
    context.pages = [[line(1), line(2, status="failed", delivery="failed")]]
    await run(ReportPhase(), context)
    assert "receipts" not in context.kept["report.html"][1].decode()


CELLS = st.text(st.sampled_from("=+-@\t\r\n,;\"'＝a") | st.characters(), max_size=12)


@settings(deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS), max_size=5))
def test_every_cell_is_read_back_whole_and_none_is_a_formula(cells: list[tuple[str, str]]) -> None:
    lines = [line(at, recipient_id=who, reason=why) for at, (who, why) in enumerate(cells)]
    text = (results_csv.header() + results_csv.page(lines)).decode()
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert rows[0] == list(results_csv.COLUMNS)
    assert len(rows) == 1 + len(lines)
    for row, (who, why) in zip(rows[1:], cells, strict=True):
        assert not any(cell.startswith(tuple("=+-@\t\r\n＝＋－＠")) for cell in row)
        for cell, given_text in ((row[1], who), (row[6], why)):
            storable = given_text.encode(errors="backslashreplace").decode()
            assert cell in (storable, f"'{storable}")


# Which phases there are.


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs distributions for a test: their code, and the entry points they register."""
    with installing(GROUP, tmp_path, monkeypatch) as install:
        yield install


HANDLER = """
class Handler:
    name = "{name}"
    async def plan(self, context): return []
    async def process(self, context, job): raise NotImplementedError
"""


def test_the_built_in_phases_are_always_there() -> None:
    handlers = load_handlers([], True, no_sender, has_links=False)
    assert list(handlers) == [
        "audience_import",
        "dns_validation",
        "http_validation",
        "sender_validation",
        "report",
    ]
    assert all(name == handler.name for name, handler in handlers.items())
    for name in handlers:
        assert f"**`{name}`**" in PAGE


def test_a_registered_phase_is_loaded(installed: Install) -> None:
    installed({"quiet_hours": "plugin:Handler"}, HANDLER.format(name="quiet_hours"))
    assert load_handlers([], True, no_sender, has_links=False)["quiet_hours"].name == "quiet_hours"


@pytest.mark.parametrize(
    ("name", "target", "code", "why"),
    [
        ("launch", "Handler", HANDLER, "has a name already used by Outrider itself"),
        ("report", "Handler", HANDLER, "has a name already used by Outrider itself"),
        ("Quiet", "Handler", HANDLER, "should have a name that matches"),
        ("q" * 65, "Handler", HANDLER, "should have a name that matches"),
        ("quiet", "Missing", HANDLER, "cannot be loaded: AttributeError"),
        ("quiet", "Handler", "import nowhere_at_all", "cannot be loaded: ModuleNotFoundError"),
        ("quiet", "Handler", "def Handler(): 1 / 0", "cannot be loaded: ZeroDivisionError"),
        ("quiet", "Handler", "Handler = 5", "cannot be loaded: TypeError"),
        ("quiet", "Handler", "Handler = dict", "cannot be loaded: AttributeError"),
        ("quiet", "Handler", HANDLER.replace("async ", ""), "should have the coroutines plan and"),
        (
            "quiet",
            "Handler",
            HANDLER.replace("{name}", "loud"),
            "gives a handler that calls itself 'loud'",
        ),
    ],
)
def test_a_phase_that_is_wrong_is_refused_and_its_distribution_named(
    installed: Install, name: str, target: str, code: str, why: str
) -> None:
    installed({name: f"plugin:{target}"}, code.replace("{name}", name))
    with pytest.raises(InvalidInput) as caught:
        load_handlers([], True, no_sender, has_links=False)
    assert f"the phase '{name}' of acme-plugin 1.2 {why}" in caught.value.message


def test_two_distributions_cannot_have_the_same_phase(installed: Install) -> None:
    for module in ("first", "second"):
        installed({"quiet": f"{module}:Handler"}, HANDLER.format(name="quiet"), module)
    with pytest.raises(InvalidInput, match=r"acme-second 1\.2 .* already used by acme-first 1\.2"):
        load_handlers([], True, no_sender, has_links=False)


async def test_the_handler_that_the_page_shows_works_unchanged(installed: Install) -> None:
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    [lines] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    installed(tomllib.loads(lines)["project"]["entry-points"][GROUP], code, "home_numbers")
    handler = load_handlers([], True, no_sender, has_links=False)["home_numbers"]
    phones = ["+447700900123", "+33612345678", None, "+447700900124"]
    context = MemoryDesk(
        [recipient(f"lead-{at}", phone=phone) for at, phone in enumerate(phones)], batch_size=3
    )
    assert counts(await run(handler, context)) == [(2, 0, 1), (1, 0, 0)]
    assert context.marked == {1: AddressKind.PHONE}


def test_the_page_names_the_limits_as_they_are() -> None:
    assert f"up to {LINKS_PER_JOB} links" in PAGE
    assert f"the first {IMPORT_PROBLEMS_SHOWN_MAX} problems" in PAGE
