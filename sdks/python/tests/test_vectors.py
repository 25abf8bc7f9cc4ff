"""The golden files of conformance/vectors, as a Python program meets them."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from windlass import App, Backoff, Cancel, Discard, Retry, Schedule, Snooze, Unique, calls, errors
from windlass._native import parse
from windlass.args import encode
from windlass.duration import millis
from windlass.errors import WindlassError

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "conformance" / "vectors"
sys.path.append(str(ROOT / "conformance" / "interop"))
from canonical import canonical  # noqa: E402

READ = {
    "args.json", "durations.json", "errors.json", "options.json", "outcomes.json", "retry_policies.json", "schedules.json", "unique.json",
    "encryption.json",  # there is no encryption in Python yet: nothing to be read
}  # fmt: skip


def vectors(file: str, name: str) -> list[Any]:
    listed: list[Any] = json.loads((FOLDER / file).read_text("utf-8"))[name]
    assert listed
    return listed


def test_every_file_is_read() -> None:
    assert {file.name for file in FOLDER.iterdir()} == READ


def test_args_are_read_as_they_were_written(sqlite: App) -> None:
    for vector in vectors("args.json", "accepted"):
        read = parse(vector["text"])
        assert canonical(read) == vector["canonical"], vector["what"]
        assert canonical(parse(encode(read))) == vector["canonical"], vector["what"]
        answer = sqlite.connection.call_sync("enqueue", f'{{"job":{{"kind":"a"}},"args":[{vector["text"]}]}}')
        job = sqlite.sync.job(answer["ids"][0])
        assert job is not None and canonical(job.args) == vector["canonical"], vector["what"]


def test_args_that_no_handler_could_read_are_refused(sqlite: App) -> None:
    @sqlite.batch("a")
    def job(jobs: list[Any]) -> None: ...

    for vector in vectors("args.json", "refused"):
        try:
            value = json.loads(vector["text"])
        except json.JSONDecodeError:
            continue  # no value is written like that
        with pytest.raises(WindlassError) as error:
            job.enqueue_sync(value=value) if not isinstance(value, dict) else job.enqueue_sync(**value)
        assert error.value.code == vector["code"], vector["what"]
    assert sqlite.sync.jobs().jobs == []


def test_lengths_of_time() -> None:
    assert [(one["text"], millis(one["text"], "x")) for one in vectors("durations.json", "texts")] == [
        (one["text"], one["ms"]) for one in vectors("durations.json", "texts")
    ]
    for one in vectors("durations.json", "rounded"):
        assert millis(one["text"], "x") == one["ms"], one["text"]
    for text in vectors("durations.json", "refused"):
        with pytest.raises(errors.InvalidOption, match="x must be"):
            millis(text, "x")


def test_errors_have_their_classes() -> None:
    assert [(one["code"], one["python"]) for one in vectors("errors.json", "errors")] == [
        (code, error.__name__) for code, error in errors._CLASSES.items()
    ]
    for one in vectors("errors.json", "errors"):
        assert issubclass(getattr(errors, one["python"]), WindlassError)


def time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def length(ms: int) -> timedelta:
    return timedelta(milliseconds=ms)


def backoff(policy: dict[str, Any]) -> Backoff:
    given = {"growth": policy.get("backoff"), "base": policy.get("base_ms"), "max": policy.get("max_ms"), "jitter": policy.get("jitter")}
    given["factor"] = policy.get("factor")
    for name in ("base", "max"):
        given[name] = None if given[name] is None else length(given[name])
    return Backoff(**{name: value for name, value in given.items() if value is not None})


def options(wire: dict[str, Any]) -> dict[str, Any]:
    """The options by their names in Python."""
    times = {"scheduled_at": "at", "expires_at": "expires_at"}
    lengths = {"delay_ms": "delay", "expires_in_ms": "expires_in", "timeout_ms": "timeout"}
    given: dict[str, Any] = {}
    for name, value in wire.items():
        if name in times:
            given[times[name]] = time(value)
        elif name in lengths:
            given[lengths[name]] = length(value)
        elif name == "retry_policy":
            given["backoff"] = backoff(value)
        elif name != "kind":
            given[name] = value
    return given


def enqueue(app: App, wire: dict[str, Any]) -> int:
    return App.job(app, wire.get("kind", "a"))(nothing).with_options(**options(wire)).enqueue_sync()


def nothing() -> None: ...


def test_options_are_kept(sqlite: App) -> None:
    for vector in vectors("options.json", "accepted"):
        job = sqlite.sync.job(enqueue(sqlite, vector["options"]))
        shown = {name: getattr(job, name) for name in vector["record"]}
        assert shown == {name: time(value) if name.endswith("_at") else value for name, value in vector["record"].items()}, vector["what"]


def test_wrong_options_are_refused_in_the_same_words(sqlite: App) -> None:
    for vector in vectors("options.json", "refused"):
        with pytest.raises(WindlassError) as error:
            enqueue(sqlite, vector["options"])
        assert (error.value.code, str(error.value)) == (vector["code"], vector["message"]), vector["what"]


def test_retry_policies_are_kept(sqlite: App) -> None:
    for vector in vectors("retry_policies.json", "policies"):
        id = enqueue(sqlite, {"retry_policy": vector["policy"]})
        assert sqlite.connection.call_sync("job", f'{{"id":{id}}}')["retry_policy"] == vector["stored"], vector["what"]


def test_what_a_handler_says_is_what_becomes_of_its_job(app: App) -> None:
    outcomes = vectors("outcomes.json", "outcomes")

    def said(nth: int) -> Any:
        say = outcomes[nth]["say"]
        after = None if "after_ms" not in say else length(say["after_ms"])
        if "fail" in say:
            raise RuntimeError(say["fail"])
        if "retry" in say:
            raise Retry(say["retry"], after=after)
        if "snooze_ms" in say:
            raise Snooze(length(say["snooze_ms"]))
        return Cancel(say["cancel"]) if "cancel" in say else Discard(say["discard"]) if "discard" in say else say["complete"]

    @app.job("sync")
    def in_a_thread(nth: int) -> Any:
        return said(nth)

    @app.job("async")
    async def in_a_task(nth: int) -> Any:
        return said(nth)

    jobs = [
        (vector, job.with_options(max_attempts=vector.get("max_attempts"), backoff=backoff(vector.get("policy", {}))).enqueue_sync(nth))
        for nth, vector in enumerate(outcomes)
        for job in (in_a_thread, in_a_task)
    ]

    async def work() -> None:
        async with app.worker() as worker:
            await worker.until_idle()

    asyncio.run(work())
    ended = datetime.now(timezone.utc)
    for vector, id in jobs:
        job = app.sync.job(id)
        assert job is not None
        assert {name: getattr(job, name) for name in vector["record"]} == vector["record"], vector["what"]
        kept = [failed["error"] for failed in job.errors]
        if "fail" in vector["say"]:  # with its traceback
            assert len(kept) == len(vector["errors"]) and all(part in text for part, text in zip(vector["errors"], kept)), vector["what"]
        else:
            assert kept == vector["errors"], vector["what"]
        if "waits_ms" in vector:
            assert job.scheduled_at is not None
            assert length(vector["waits_ms"] - 60_000) <= job.scheduled_at - ended <= length(vector["waits_ms"]), vector["what"]


def test_schedules_tick_as_they_say(sqlite: App) -> None:
    def ticks(vector: dict[str, Any], count: int) -> list[datetime]:
        schedule = Schedule("s", vector["cron"], sqlite.job("a")(nothing), zone=vector["zone"])
        call = calls.preview(schedule._spec(), time(vector["after"]) if "after" in vector else None, count)
        return call.read(sqlite.connection.call_sync(call.op, call.payload))

    for vector in vectors("schedules.json", "ticks"):
        assert ticks(vector, len(vector["ticks"])) == [time(tick) for tick in vector["ticks"]], vector
    for vector in vectors("schedules.json", "refused"):
        with pytest.raises(WindlassError) as error:
            ticks(vector, 1)
        assert (error.value.code, str(error.value)) == (vector["code"], vector["message"])


def unique_id(app: App, vector: dict[str, Any]) -> int:
    said = {"key": vector.get("unique_key"), "fields": vector.get("fields")}
    unique = Unique(**{name: value for name, value in said.items() if value is not None}, scope=vector["scope"])
    spec = app.job(vector["kind"])(nothing).with_options(queue=vector["queue"], unique=unique)._spec()
    return int(app.connection.call_sync("enqueue_unique", f'{{"job":{encode(spec)},"args":[{vector["args"]}]}}')["jobs"][0]["id"])


def test_unique_jobs_have_the_keys_of_every_language(sqlite: App) -> None:
    # Only the core computes keys: what has the same key is the same job, and nothing else is.
    ids: dict[str, int] = {}
    for vector in vectors("unique.json", "keys"):
        id = unique_id(sqlite, vector)
        assert ids.setdefault(vector["key"], id) == id, vector["what"]
    assert len(set(ids.values())) == len(ids)
    for vector in vectors("unique.json", "refused"):
        with pytest.raises(WindlassError) as error:
            unique_id(sqlite, vector)
        assert error.value.code == vector["code"], vector["what"]
