"""Vega-Lite to SVG by vl-convert, in a virtual environment of its own under target/."""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE.parents[1] / "target/bench/venv"
RENDER = """
import json, sys, vl_convert
for path, specification in json.load(sys.stdin).items():
    with open(path, "w") as file:
        file.write(vl_convert.vegalite_to_svg(specification).rstrip() + "\\n")
"""


class NoCharts(Exception):
    """The library that draws could not be installed, or refused a chart."""


def interpreter():
    """The environment's Python, made when it is not there or pins another version."""
    requirements, stamp, python = HERE / "requirements.txt", VENV / "installed.txt", VENV / "bin/python"
    if not (stamp.exists() and stamp.read_text() == requirements.read_text()):
        call([sys.executable, "-m", "venv", "--clear", str(VENV)])
        call([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "-r", str(requirements)])
        stamp.write_text(requirements.read_text())
    return python


def call(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise NoCharts(f"{' '.join(command[:4])}: exit code {done.returncode}: {lines[-1] if lines else 'it said nothing'}")


def draw(specifications, folder):
    """Writes FOLDER/NAME.svg for each."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {str(folder / f"{name}.svg"): json.dumps(specification) for name, specification in specifications.items()}
    call([str(interpreter()), "-c", RENDER], input=json.dumps(paths))
