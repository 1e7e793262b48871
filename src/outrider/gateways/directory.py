"""All gateway types this code knows, and the one living gateway for each type and URL."""

from typing import Final

from outrider.domain.errors import InvalidInput
from outrider.domain.submission import GatewayType
from outrider.gateways.http import HttpClient
from outrider.gateways.json_family import PUSH, SMS, push_gateway, sms_gateway
from outrider.gateways.noop import NOOP, NoopGateway
from outrider.gateways.smtp import SMTP, SmtpGateway
from outrider.ports.gateway import Gateway
from outrider.settings import MAIL_FROM_DEFAULT

GATEWAY_TYPES: Final[dict[str, GatewayType]] = {
    known.name: known for known in (SMS, PUSH, SMTP, NOOP)
}


class Gateways:
    """The GatewayDirectory of a process: its gateways share one HTTP client and are made once."""

    def __init__(
        self, client: HttpClient | None = None, *, mail_from: str = MAIL_FROM_DEFAULT
    ) -> None:
        self._client = client or HttpClient()
        self._mail_from = mail_from
        self._gateways: dict[tuple[str, str], Gateway] = {}

    def gateway(self, gateway_type: str, gateway_url: str) -> Gateway:
        key = gateway_type, gateway_url
        if key not in self._gateways:
            self._gateways[key] = self._make(gateway_type, gateway_url)
        return self._gateways[key]

    async def close(self) -> None:
        gateways, self._gateways = self._gateways, {}
        for gateway in gateways.values():
            await gateway.close()
        await self._client.close()

    def _make(self, gateway_type: str, gateway_url: str) -> Gateway:
        match gateway_type:
            case SMS.name:
                return sms_gateway(gateway_url, self._client)
            case PUSH.name:
                return push_gateway(gateway_url, self._client)
            case SMTP.name:
                return SmtpGateway(gateway_url, sender=self._mail_from)
            case NOOP.name:
                return NoopGateway()
            case unknown:
                raise InvalidInput(
                    f"'{unknown}' is not a gateway type",
                    hint=f"known gateway types: {', '.join(sorted(GATEWAY_TYPES))}",
                )
