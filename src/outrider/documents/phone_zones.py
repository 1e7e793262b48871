"""The time zones of a phone number, by the longest prefix that the public numbering plans know.

A prefix may belong to several zones (a toll-free number's, for example): all of them count.
"""

from collections.abc import Sequence


def phone_zones(phone: str) -> Sequence[str]:
    """Of a number in E.164; empty if no prefix is known."""
    # Four megabytes that only policies with sending hours need.
    from phonenumbers.tzdata import TIMEZONE_DATA, TIMEZONE_LONGEST_PREFIX

    digits = phone[1:]
    for length in range(min(TIMEZONE_LONGEST_PREFIX, len(digits)), 0, -1):
        zones = TIMEZONE_DATA.get(digits[:length])
        if zones is not None:
            return zones
    return ()
