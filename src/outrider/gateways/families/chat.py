"""What the families of chat services share: a post goes to the target's own conversation, unless a
direct intent names another."""

from typing import ClassVar

from outrider.domain.call_results import CallResult, Held, Rejected
from outrider.gateways.content import Content
from outrider.gateways.provider import ProviderGateway
from outrider.ports.gateway import Reservation

CONVERSATION_REFUSED = "conversation_refused"


class ChatGateway(ProviderGateway):
    """`conversation` is the target's own."""

    addressed: ClassVar[bool] = False
    conversation: str

    async def call(self, reservation: Reservation) -> CallResult:
        result = await super().call(reservation)
        own = (reservation.payload or {}).get("to")
        if isinstance(result, Held) and result.reason == CONVERSATION_REFUSED and own:
            # The message chose it itself, so others may well be accepted.
            return Rejected("invalid_recipient", result.detail)
        return result

    def addressee(self, content: Content) -> str:
        return content.to.strip() or self.conversation
