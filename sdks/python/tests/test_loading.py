"""The package and its native part are of one version, and the command's options are written out."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import windlass
from windlass import _loading, cli

PACKAGE = Path(windlass.__file__).parent


def test_the_version_is_that_of_the_workspace() -> None:
    [version] = re.findall(r'^version = "(.+)"$', (PACKAGE.parents[3] / "Cargo.toml").read_text(), re.MULTILINE)
    assert windlass.__version__ == _loading.VERSION == version


def test_a_native_part_of_another_version_is_refused(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "windlass", ignore=shutil.ignore_patterns("__pycache__"))
    loading = tmp_path / "windlass" / "_loading.py"
    loading.write_text(loading.read_text().replace(f'VERSION = "{_loading.VERSION}"', 'VERSION = "9.9.9"'))
    done = subprocess.run([sys.executable, "-c", "import windlass"], cwd=tmp_path, env={}, capture_output=True, text=True, timeout=60, check=False)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: the package windlass is version 9.9.9 and its native part is version {_loading.VERSION}: install both"), done


def test_options_are_not_abbreviated(capsys: pytest.CaptureFixture[str]) -> None:
    """`--reloa` began a reloader, whose worker was given it too and was a reloader, and so on."""
    with pytest.raises(SystemExit):
        cli._parser().parse_args(["jobs:app", "--reloa"])
    assert "unrecognized arguments: --reloa" in capsys.readouterr().err
