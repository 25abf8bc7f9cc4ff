"""Fixtures for pytest, there as soon as the package is installed.

``windlass_app`` is the app under test: override it in your ``conftest.py``, or name it in the configuration (``windlass_app = "shop.jobs:app"``).
``windlass_jobs`` puts a fresh store in its place for each test.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .app import App
from .testing import TestJobs, jobs_of


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("windlass_app", "the windlass.App under test, as in shop.jobs:app")


@pytest.fixture(scope="session")
def windlass_app(pytestconfig: pytest.Config) -> App:
    """The app under test."""
    name = pytestconfig.getini("windlass_app")
    if not name:
        pytest.fail("which app is under test? Set windlass_app = 'shop.jobs:app' in pytest's configuration, or override the fixture windlass_app")
    from ._locate import load

    return load(str(name))


@pytest.fixture
def windlass_jobs(windlass_app: App) -> Iterator[TestJobs]:
    """The app's jobs, in a store of this test's own."""
    with jobs_of(windlass_app) as jobs:
        yield jobs
