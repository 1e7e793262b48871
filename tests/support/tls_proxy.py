"""TLS in front of a server that has none: certificates of the test's own, and a proxy with them.

It speaks HTTP/2 by ALPN, as gRPC does, passes every byte on, and keeps what it heard.
"""

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.broken_server import Reader, Writer, serving

PIECE_BYTES = 65_536
HOST = "127.0.0.1"
HUFFMAN = {
    "0": "00000", "1": "00001", "2": "00010", "a": "00011", "c": "00100", "e": "00101",
    "i": "00110", "o": "00111", "s": "01000", "t": "01001", " ": "010100", "r": "101100",
    "B": "1011101",
}  # fmt: skip
"""The letters of RFC 7541's code that the tests do with."""


@dataclass(frozen=True, slots=True)
class Issued:
    certificate: Path
    key: Path


class Authority:
    """Signs certificates that are good for a day."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        made = _certificate(self._name, self._key.public_key(), self._name).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))

    def issue(self, name: str) -> Issued:
        """For a host of that name, or a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternative = (
            x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
        )
        made = _certificate(_named(name), key.public_key(), self._name).add_extension(
            x509.SubjectAlternativeName([alternative]), critical=False
        )
        issued = Issued(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        issued.certificate.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))
        issued.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return issued


@dataclass(slots=True)
class Proxy:
    address: str
    heard: bytearray = field(default_factory=bytearray)


@asynccontextmanager
async def tls_proxy(
    backend: str, server: Issued, *, clients: Authority | None = None
) -> AsyncIterator[Proxy]:
    """In front of `backend`; with `clients` it lets in only who has a certificate of theirs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    context.set_alpn_protocols(["h2"])
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients.file)
    host, _, port = backend.rpartition(":")
    heard = bytearray()

    async def pass_on(reader: Reader, writer: Writer) -> None:
        behind, before = await asyncio.open_connection(host, int(port))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, before, heard))
                group.create_task(_copy(behind, writer))
        except* ConnectionError:
            pass
        finally:
            before.close()

    async with serving(pass_on, tls=context) as listening:
        yield Proxy(f"{HOST}:{listening}", heard)


def huffman(text: str) -> bytes:
    """As HTTP/2 writes the value of a header; the last byte is filled up with ones."""
    bits = "".join(HUFFMAN[letter] for letter in text)
    bits += "1" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


async def _copy(reader: Reader, writer: Writer, heard: bytearray | None = None) -> None:
    while piece := await reader.read(PIECE_BYTES):
        if heard is not None:
            heard += piece
        writer.write(piece)
        await writer.drain()
    writer.close()


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    subject: x509.Name, key: ec.EllipticCurvePublicKey, issuer: x509.Name
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
