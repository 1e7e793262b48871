"""The simulator's own TLS certificate. It is made anew by each process and trusted by nobody who is
not told to: a target names its file (`caFile`)."""

import ipaddress
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

NAME = "outrider sandbox"
VALID = timedelta(days=30)


@lru_cache(maxsize=1)
def _folder() -> "tempfile.TemporaryDirectory[str]":
    """Removed with the process."""
    made = tempfile.TemporaryDirectory(prefix="outrider-sandbox-", ignore_cleanup_errors=True)
    _write(Path(made.name))
    return made


def certificate_file() -> Path:
    return Path(_folder().name) / "certificate.pem"


def server_context(protocol: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_file(), Path(_folder().name) / "key.pem")
    context.set_alpn_protocols([protocol])
    return context


def _write(folder: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    loopback = [ipaddress.ip_address(each) for each in ("127.0.0.1", "::1")]
    names = [x509.DNSName("localhost"), *(x509.IPAddress(each) for each in loopback)]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = folder / "key.pem"
    private.touch(mode=0o600)
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
