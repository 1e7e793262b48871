"""The console's own files: read once from the package, and served from memory by exact name.

No request path ever reaches a disk: a name that was not there at start-up is not found.
"""

import hashlib
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

INDEX = "index.html"
FOLDER = "console"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
}
"""Other types are not served."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    # Browsers cache them and revalidate each time, so a new version shows at once.
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class ConsoleFile:
    content: bytes
    media_type: str
    etag: str

    def is_known_to(self, if_none_match: str | None) -> bool:
        """Whether the browser's cached copy is current."""
        if if_none_match is None:
            return False
        known = {each.strip().removeprefix("W/") for each in if_none_match.split(",")}
        return "*" in known or self.etag in known


def load_console() -> dict[str, ConsoleFile]:
    """By the path below the console's folder: `index.html`, `js/app.js`."""
    return dict(_files(resources.files("outrider") / FOLDER, ""))


def _files(folder: Traversable, prefix: str) -> list[tuple[str, ConsoleFile]]:
    if not folder.is_dir():
        return []
    found = []
    for each in folder.iterdir():
        name = f"{prefix}{each.name}"
        if each.is_dir():
            found += _files(each, f"{name}/")
        elif (media_type := TYPES.get(PurePosixPath(name).suffix)) is not None:
            content = each.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found.append((name, ConsoleFile(content, media_type, etag)))
    return found
