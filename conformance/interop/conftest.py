from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session")
def server() -> str:
    """The URL of the server of scripts/with-postgres."""
    url = os.environ.get("WINDLASS_TEST_POSTGRES")
    if not url and os.environ.get("WINDLASS_ALLOW_SKIP"):
        pytest.skip("needs a server: scripts/with-postgres")
    assert url, "run `make test-interop`, or scripts/test-interop inside scripts/with-postgres, or set WINDLASS_ALLOW_SKIP=1"
    return url
