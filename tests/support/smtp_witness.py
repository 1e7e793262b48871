"""A mail server that writes down every transaction and misbehaves as it is told.

A transaction begins with MAIL and has ended when its last reply leaves. Mail servers know no
references again, so neither does this one.
"""

from pathlib import Path
from typing import Literal

from tests.support.witness_process import WitnessProcess

Command = Literal["MAIL", "RCPT", "DATA", "END"]

THROTTLES = {
    "421": "421 4.7.0 Too many connections or messages, closing",
    "450": "450 4.7.1 Greylisted or busy, try again later",
    "451": "451 4.7.1 Please try again later",
    "454": "454 4.7.0 Throttling failure: Maximum sending rate exceeded",
    "4.7.x": "452 4.7.28 Unusual rate of mail originating from your address",
}
"""Replies of real servers that mean: come back later."""


class SmtpWitness(WitnessProcess):
    """Its `url` is a registry's gatewayUrl, `smtp://127.0.0.1:PORT`."""

    module = "tests.support.smtp_witness_process"

    def __init__(self, folder: Path, name: str = "mail") -> None:
        super().__init__(folder, name)

    async def script(
        self,
        *,
        seconds: float | None = None,
        connections_most: int | None = None,
        messages_per_connection: int | None = None,
        rate_per_second: float | None = None,
        refuse_at: Command | None = None,
        refuse_with: str = THROTTLES["450"],
        refuse_share: float = 1.0,
        end_of_data_seconds: float = 0.0,
        end_of_data_spread_seconds: float = 0.0,
        end_of_data_of: dict[str, float] | None = None,
        drop: Literal["none", "at_mail", "before_reply"] = "none",
        away: bool = False,
    ) -> float:
        """Behave like this, for `seconds` or for good; what is not named is as if healthy.

        Beyond `connections_most` the greeting is 421, beyond `messages_per_connection` the next
        MAIL is, beyond `rate_per_second` the end of data is 454. `refuse_at` END is the reply to
        the message's final dot. The spread is a random time on top, so that replies do not come
        all together.
        """
        return await self._tell(
            {
                "seconds": seconds,
                "connectionsMost": connections_most,
                "messagesPerConnection": messages_per_connection,
                "ratePerSecond": rate_per_second,
                "refuseAt": refuse_at,
                "refuseWith": refuse_with,
                "refuseShare": refuse_share,
                "endOfDataSeconds": end_of_data_seconds,
                "endOfDataSpreadSeconds": end_of_data_spread_seconds,
                "endOfDataOf": end_of_data_of or {},
                "drop": drop,
                "away": away,
            }
        )

    async def heal(self) -> float:
        return await self.script()
