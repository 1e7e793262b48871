"""DMARC: a domain's policy, and which domains belong together (RFC 7489).

The organisational domain is the highest one above a name that has a policy of its own. That needs
no list of public suffixes, and is how the successor of that RFC does it.
"""

from typing import NamedTuple

from outrider.phases.dns_records import DnsRecords

WALK_LABELS_MAX = 8


class DmarcPolicy(NamedTuple):
    domain: str
    """Where the record was found."""
    tags: dict[str, str]

    @property
    def policy(self) -> str:
        return self.tags.get("p", "").lower()

    def is_strict(self, tag: str) -> bool:
        """`adkim` or `aspf`."""
        return self.tags.get(tag, "r").lower() == "s"


class TwoPolicies(Exception):
    pass


async def policies_above(records: DnsRecords, domain: str) -> list[DmarcPolicy]:
    """The domain's own policy, if it has one, and those of the domains above it, nearest first."""
    labels, found = domain.lower().rstrip(".").split("."), []
    starts = [0, *range(max(1, len(labels) - WALK_LABELS_MAX), len(labels))]
    for start in dict.fromkeys(starts):
        name = ".".join(labels[start:])
        texts = [
            each
            for each in await records.txt(f"_dmarc.{name}")
            if each.replace(" ", "").lower().startswith("v=dmarc1;")
            or each.strip().lower() == "v=dmarc1"
        ]
        if len(texts) > 1:
            raise TwoPolicies(f"_dmarc.{name} has {len(texts)} DMARC records instead of one")
        found += [DmarcPolicy(name, tags_of(text)) for text in texts]
    return found


async def organisational_domain(records: DnsRecords, domain: str) -> str:
    own = [each for each in await policies_above(records, domain) if each.tags.get("psd") != "y"]
    return own[-1].domain if own else domain.lower()


def tags_of(record: str) -> dict[str, str]:
    """`v=DMARC1; p=none` and `v=DKIM1; p=…` alike."""
    tags = {}
    for piece in record.split(";"):
        name, equals, value = piece.partition("=")
        if equals:
            tags[name.strip().lower()] = value.strip()
    return tags
