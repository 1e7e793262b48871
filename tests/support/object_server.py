"""An S3 server on a loopback socket, to be reached by its real protocol: moto, with one bucket."""

import http.client
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

BUCKET = "outrider-test"
SIGNED = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, Signature=0"


@dataclass(frozen=True, slots=True)
class ObjectServer:
    host: str
    port: int

    @property
    def environment(self) -> dict[str, str]:
        """As a cloud's own environment would say it."""
        return {
            "AWS_ENDPOINT_URL": f"http://{self.host}:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "planted-access",
            "AWS_SECRET_ACCESS_KEY": "planted-secret",
            "AWS_REGION": "us-east-1",
        }

    def ask(self, method: str, path: str) -> str:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            connection.request(method, f"/{BUCKET}{path}", headers={"Authorization": SIGNED})
            answer = connection.getresponse()
            assert answer.status == 200, answer.status
            return answer.read().decode()
        finally:
            connection.close()


@contextmanager
def serving_objects() -> Iterator[ObjectServer]:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        made = ObjectServer(host, port)
        made.ask("PUT", "")
        yield made
    finally:
        server.stop()
