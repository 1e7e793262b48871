"""Writes an SBOM (CycloneDX 1.6) of a built wheel: what it is, and all that it was built and
tested with.

The versions are those of requirements/demo.txt, so the same commit always gives the same document.
"""

import hashlib
import json
import re
import sys
import tomllib
import uuid
from pathlib import Path

ROOT = Path(__file__).parent.parent
PINS = ROOT / "requirements" / "demo.txt"
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


def document(wheel: Path) -> dict[str, object]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    outrider = {
        **_component(project["name"], project["version"]),
        "type": "application",
        "licenses": [{"license": {"id": project["license"]}}],
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }
    components = [_component(*pin) for pin in PINNED.findall(PINS.read_text())]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {"component": outrider},
        "components": components,
    }


def _component(name: str, version: str) -> dict[str, object]:
    purl = f"pkg:pypi/{name.lower()}@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
    }


def main(folder: Path) -> None:
    [wheel] = folder.glob("outrider-[0-9]*.whl")
    text = json.dumps(document(wheel), indent=2) + "\n"
    (folder / f"{'-'.join(wheel.name.split('-')[:2])}.cdx.json").write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
