"""Contract 000's C1 for whoever installs Outrider: the wheel carries its types with it."""

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

from mypy import api

ROOT = Path(__file__).parents[2]
WRONG = """
from outrider.ports.gateway import Gateway


async def send(gateway: Gateway) -> None:
    await gateway.call("0198-outbox-id")
"""
RIGHT = """
from outrider.ports.gateway import Gateway, Reservation


async def send(gateway: Gateway, reservation: Reservation) -> None:
    await gateway.call(reservation)
"""


def install_wheel(folder: Path) -> Path:
    """Build the wheel as a release does, and install it where nothing else is; its interpreter."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir"]
    built = subprocess.run(
        [
            *pip, "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation",
            "--wheel-dir", str(folder), str(ROOT),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("outrider-*.whl")
    home = folder / "elsewhere"
    venv.create(home, with_pip=False)
    places = sysconfig.get_paths("venv", vars={"base": str(home), "platbase": str(home)})
    # A wheel without scripts of its own is installed by unpacking it.
    zipfile.ZipFile(wheel).extractall(places["purelib"])
    return Path(places["scripts"]) / "python"


def test_c1_the_installed_wheel_refuses_a_provider_call_without_a_reservation(
    tmp_path: Path,
) -> None:
    """S5: without `py.typed` every name of an installed package is anything at all."""
    interpreter = install_wheel(tmp_path)
    program = tmp_path / "programs"
    program.mkdir()
    (program / "wrong.py").write_text(WRONG)
    (program / "right.py").write_text(RIGHT)
    (program / "mypy.ini").write_text("[mypy]\nstrict = true\n")
    out, trouble, _ = api.run(
        [
            "--no-error-summary", f"--python-executable={interpreter}",
            f"--cache-dir={tmp_path / 'cache'}", f"--config-file={program / 'mypy.ini'}",
            str(program / "wrong.py"), str(program / "right.py"),
        ]
    )  # fmt: skip
    assert not trouble
    (complaint,) = out.splitlines()
    assert "wrong.py:6" in complaint
    assert 'incompatible type "str"; expected "Reservation"' in complaint
