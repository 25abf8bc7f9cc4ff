"""Encrypted jobs: what is stored is sealed, and only who has the keys reads it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worked import drain, record

from windlass import App, Context, Job
from windlass.errors import InvalidOption, Undecryptable

KEY = "k1:" + base64.b64encode(bytes([7] * 32)).decode()
SECRET = "C01X00T47"


def opening(app: App, seen: list[Any], **options: Any) -> Job[Any]:
    @app.job("account.open", **options)
    async def open(ctx: Context, passport: str) -> str:
        seen.append((passport, ctx.args_json, await ctx.last_checkpoint()))
        await ctx.checkpoint({"passport": passport})
        if ctx.attempt == 1:
            raise OSError("once more")
        return f"opened with {passport}"

    return open


def test_encrypted_args_are_open_to_the_handler_alone(made: Callable[..., App]) -> None:
    keyed, plain, seen = made(keys=KEY), made(), []
    open = opening(keyed, seen, encrypted=True)
    id = open.enqueue_sync(passport=SECRET)
    asyncio.run(drain(keyed))
    keyed.sync.retry(id)
    asyncio.run(drain(keyed))
    stored = record(plain, id)
    assert stored.state == "completed" and SECRET not in repr(stored) and list(stored.args) == ["windlass.enc"]
    args = f'{{"passport":"{SECRET}"}}'
    assert [(one, text.replace(" ", ""), last) for one, text, last in seen] == [(SECRET, args, None), (SECRET, args, {"passport": SECRET})]
    assert (keyed.sync.args(id), keyed.sync.result(id), keyed.sync.checkpoint(id)) == (
        {"passport": SECRET}, f"opened with {SECRET}", {"passport": SECRET},
    )  # fmt: skip
    with pytest.raises(Undecryptable):
        plain.sync.args(id)
    assert keyed.sync.args(4711) is None


def test_nothing_is_stored_in_plain_by_mistake(made: Callable[..., App]) -> None:
    plain, keyed = made(), made(keys=KEY)
    sealed = opening(plain, [], encrypted=True)
    with pytest.raises(InvalidOption, match=r"are encrypted, and this client has no keys; give it some by App\(url, keys=...\)"):
        sealed.enqueue_sync(passport=SECRET)
    with pytest.raises(InvalidOption):
        sealed.enqueue_many_sync([{"passport": SECRET}])
    assert not plain.sync.jobs().jobs
    # Who makes up a job without a key is refused by its handler.
    seen: list[Any] = []
    opening(keyed, seen, encrypted=True)
    id = opening(made(), [], max_attempts=1).enqueue_sync(passport="made up")
    asyncio.run(drain(keyed))
    assert "are encrypted, and this one's args are plain" in record(plain, id).errors[0]["error"] and not seen
    # From before the kind was encrypted, by who asks for them.
    keyed.sync.retry(id)
    asyncio.run(drain(keyed, accept_plain_args=True))
    assert [passport for passport, *_ in seen] == ["made up"]


def test_a_job_waits_for_a_worker_that_has_its_key(made: Callable[..., App]) -> None:
    keyed, seen = made(keys=KEY), []
    id = opening(keyed, seen, encrypted=True).enqueue_sync(passport=SECRET)
    other = made(keys="k2:" + base64.b64encode(bytes([9] * 32)).decode())
    opening(other, seen, encrypted=True)
    asyncio.run(drain(other))
    waits = record(other, id)
    assert (waits.state, waits.attempt, seen) == ("retryable", 0, [])


def test_plain_functions_and_transactions_too(made: Callable[..., App], store: str) -> None:
    keyed, seen = made(keys=KEY), []
    together = ["one of two", "two of two"]  # a short word may be in what is sealed, by chance

    @keyed.job("in.thread", encrypted=True)
    def in_thread(passport: str) -> None:
        seen.append(passport)

    in_thread.enqueue_sync(passport=SECRET)
    if store.startswith("postgres"):
        import psycopg

        with psycopg.connect(store) as connection:
            in_thread.enqueue_in_sync(connection, passport="in a transaction")
            ids = in_thread.enqueue_many_in_sync(connection, [{"passport": one} for one in together])
        assert [keyed.sync.args(id)["passport"] for id in ids] == together and together[1] not in repr(record(keyed, ids[1]))
    asyncio.run(drain(keyed))
    assert sorted(seen) == sorted([SECRET, "in a transaction", *together] if store.startswith("postgres") else [SECRET])


def test_keys_that_are_none_are_refused_and_shown_nowhere(tmp_path: Path) -> None:
    secret = base64.b64encode(b"not-thirty-two-bytes").decode()
    app = App(f"sqlite:{tmp_path}/never-opened.db", keys=f"k1:{secret}")
    with pytest.raises(InvalidOption, match="key number 1") as refused:
        app.sync.queues()
    assert secret not in repr(refused.value) + repr(app) + repr(app.connection)
    assert not (tmp_path / "never-opened.db").exists()
    with pytest.raises(InvalidOption, match="keys must be a text"):
        App("sqlite:x.db", keys=7)  # type: ignore[arg-type]


@pytest.mark.parametrize("batched", [False, True])
def test_why_encrypted_args_do_not_fit_shows_nothing_of_them(made: Callable[..., App], caplog: pytest.LogCaptureFixture, batched: bool) -> None:
    pydantic = pytest.importorskip("pydantic")
    keyed, other = made(keys=KEY), made(keys=KEY)

    class Account(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        passport: int

    @other.declare("account.open", encrypted=True)
    def sent(passport: str) -> None: ...

    decorate: Any = keyed.batch if batched else keyed.job
    decorate("account.open", args=Account, encrypted=True)(lambda account: None)
    id = sent.enqueue_sync(passport=SECRET)
    asyncio.run(drain(keyed))
    job = record(keyed, id)
    assert job.state == "discarded" and str(job.reason).startswith("the args do not fit: passport: Input should be a valid integer")
    assert SECRET not in repr(job) and SECRET not in caplog.text
