"""What newcomers hand in, and what they know from other queues: each message names the place and says what to write."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections import ChainMap, deque
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ForwardRef

import pytest
from worked import drain, record

from windlass import App, Backoff, Context, Schedule, Unique
from windlass.errors import InvalidArgs, InvalidOption


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Photo:
    name: str
    image: bytes


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"n": [0, float("nan")]}, "no JSON: x.n[1]: nan has no JSON form; write None or a text"),
        (b"ab", "x: bytes have no JSON form; write a text, as base64.b64encode(value).decode() makes one"),
        (bytearray(b"ab"), "base64.b64encode"),
        ({b"ab"}, "x: bytes have no JSON form"),
        ([Photo("a", b"ab")], "x.image: bytes have no JSON form"),
        (range(3), "x: a range has no JSON form; write list(...) of it"),
        (deque([1]), "a deque has no JSON form; write list(...) of it"),
        (ChainMap({"a": 1}), "x: a ChainMap has no JSON form; write dict(...) of it"),
        ("\ud800", "x: half of a surrogate pair is no text"),
        ({(1, 2): 3}, "x: keys must be str"),
        (object(), "x: a object has no JSON form; pass plain values, or give the job a model as its args"),
    ],
)
def test_what_has_no_json_form_is_named_with_its_place(sqlite: App, value: object, says: str) -> None:
    @sqlite.job("a")
    def job(x: object) -> None: ...

    with pytest.raises(InvalidArgs) as error:
        job.enqueue_sync(value)
    assert says in str(error.value)
    with pytest.raises(InvalidArgs) as error:
        job.enqueue_many_sync([{"x": 1}, {"x": value}])
    assert "[1].x" in str(error.value)
    assert sqlite.sync.jobs().jobs == []


def test_a_circle_is_refused(sqlite: App) -> None:
    @sqlite.job("a")
    def job(x: object) -> None: ...

    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(InvalidArgs, match="Circular"):
        job.enqueue_sync(circle)
    circle[:] = [1]  # the same list, which is none any more
    assert job.enqueue_sync(circle) > 0


def test_what_nobody_awaited_is_named(sqlite: App) -> None:
    @sqlite.job("a")
    def job(x: object) -> None: ...

    forgotten = sqlite.client.queues()
    with pytest.raises(InvalidArgs, match="x: a coroutine has no JSON form; await it first"):
        job.enqueue_sync(forgotten)
    forgotten.close()


def test_sets_of_what_has_no_order_are_lists(sqlite: App) -> None:
    @sqlite.job("a")
    def job(x: object, y: object) -> None: ...

    assert sqlite.sync.args(job.enqueue_sync({1, "a"}, set(Colour))) == {"x": ["a", 1], "y": ["blue", "red"]}


def test_options_in_a_call_are_told_where_to_stand(sqlite: App) -> None:
    @sqlite.job("a")
    def job(to: str) -> None: ...

    with pytest.raises(InvalidArgs, match=r"options of a job stand before its args: job.with_options\(delay=...\).enqueue\(...\)"):
        job.enqueue_sync("a", delay="5m")  # type: ignore[call-arg]
    with pytest.raises(InvalidArgs) as error:
        job.enqueue_sync("a", colour="red")  # type: ignore[call-arg]
    assert "with_options" not in str(error.value)


@pytest.mark.parametrize("name", ["delay", "apply_async", "send", "kiq", "defer"])
def test_words_of_other_queues_lead_to_ours(sqlite: App, name: str) -> None:
    @sqlite.job("a")
    def job() -> None: ...

    with pytest.raises(AttributeError, match=rf"has no {name!r}; `await job.enqueue\(...\)` or `job.enqueue_sync\(...\)` enqueues it"):
        getattr(job, name)


def test_options_that_are_objects_say_which(sqlite: App) -> None:
    @sqlite.job("a")
    def job() -> None: ...

    for options, says in [
        ({"unique": True}, "unique must be a Unique, as in unique=Unique('user/7'), got True"),
        ({"unique": "user/7"}, "got 'user/7'"),
        ({"backoff": "1m"}, "backoff must be a Backoff, as in backoff=Backoff('1m'), got '1m'"),
    ]:
        with pytest.raises(InvalidOption) as error:
            job.with_options(**options)
        assert says in str(error.value)
    assert job.with_options(unique=Unique("a"), backoff=Backoff("1m")).enqueue_sync() > 0


@pytest.mark.parametrize("ids", ["12", b"12", None, 1.5])
def test_ids_are_numbers(sqlite: App, ids: Any) -> None:
    for call in (sqlite.sync.cancel, sqlite.sync.retry, sqlite.sync.delete):
        with pytest.raises(InvalidOption) as error:
            call(ids)
        assert f"{call.__name__} takes the id of a job, or a list of ids, got {ids!r}" in str(error.value)


def test_args_of_a_schedule_are_named(sqlite: App) -> None:
    @sqlite.job("a")
    def job(x: int) -> None: ...

    with pytest.raises(InvalidArgs, match=r"named, as in \{'x': ...\}, got \[1\]"):
        sqlite.sync.put_schedules([Schedule("nightly", "@daily", job, [1])])


def test_a_time_is_called_as_its_option(sqlite: App) -> None:
    @sqlite.job("a")
    def job() -> None: ...

    at: Any = "tomorrow"
    with pytest.raises(InvalidOption, match="^at must be a datetime, got 'tomorrow'"):
        job.with_options(at=at).enqueue_sync()


def test_a_store_is_a_text() -> None:
    for store in (Path("jobs.db"), 5):
        with pytest.raises(InvalidOption, match=rf"'sqlite:jobs.db'; got a {type(store).__name__}$"):
            App(store)  # type: ignore[arg-type]


def worker(folder: Path, name: str, **modules: str) -> tuple[int, str]:
    """The exit code of ``windlass worker``, and what it says."""
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)
    done = subprocess.run([sys.executable, "-m", "windlass", "worker", name], cwd=folder, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


JOBS = "from windlass import App\napp = App('sqlite:jobs.db')\n"


@pytest.mark.parametrize(
    ("name", "modules", "says"),
    [
        ("", {}, "name the app's module, as in windlass worker shop.jobs:app"),
        (":app", {}, "name the app's module"),
        ("shop.app", {"shop": JOBS}, "or on the path; for the app in the module 'shop' write windlass worker shop:app"),
        ("shop:make", {"shop": "def make(): ..."}, "shop:make is a function, no windlass.App; in the module, write app = make()"),
        ("shop:port", {"shop": JOBS + "port = 5"}, "shop:port is an int, no windlass.App; it has shop:app"),
        ("shop:ap", {"shop": JOBS}, "shop has no 'ap'; it has shop:app"),
        ("shop", {"shop": JOBS}, "the app has no jobs"),
    ],
)  # fmt: skip
def test_where_the_app_is(tmp_path: Path, name: str, modules: dict[str, str], says: str) -> None:
    code, said = worker(tmp_path, name, **modules)
    assert code in (1, 2) and says in said and "Traceback" not in said
    assert "kinds: any" not in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("app = App(", "was never closed"),
        ("import not_there", "No module named 'not_there'"),
        ("def f():\n    1 / 0\nf()", "in f"),
    ],
)
def test_a_module_that_raises_shows_its_own_frames_alone(tmp_path: Path, text: str, says: str) -> None:
    code, said = worker(tmp_path, "shop:app", shop=text)
    assert code == 1 and says in said and "shop.py" in said and "error: the module 'shop' cannot be imported" in said
    assert "importlib" not in said and "cli.py" not in said, "frames that are not the user's"


def test_a_module_that_is_there_twice_says_why_its_app_has_no_jobs(tmp_path: Path) -> None:
    """``python shop.py`` is the module ``__main__``; who imports ``shop`` makes another app of it."""
    (tmp_path / "shop.py").write_text(JOBS + "import mails\nif __name__ == '__main__':\n    app.run_worker()\n")
    (tmp_path / "mails.py").write_text("from shop import app\n@app.job('a')\ndef a(): ...\n")
    done = subprocess.run([sys.executable, "shop.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "shop.py runs as __main__ and was imported as 'shop', too, so there are two apps" in done.stderr
    assert "move the app into a module that both import" in done.stderr


def test_a_context_is_told_where_to_stand(sqlite: App) -> None:
    with pytest.raises(InvalidOption, match="late: the Context is handed in as the first parameter, so ctx must stand there"):

        @sqlite.job("late")
        def late(to: str, ctx: Context) -> None: ...

    @sqlite.job("untyped")
    def untyped(ctx, to):  # type: ignore[no-untyped-def]
        ...

    for call in (lambda: untyped.enqueue_sync(to="a"), lambda: untyped.enqueue_sync("a")):
        with pytest.raises(InvalidArgs, match="the job's Context is handed in where the parameter says so: ctx: Context"):
            call()


def test_args_that_do_not_fit_are_told_of_where_the_worker_logs(sqlite: App, caplog: pytest.LogCaptureFixture) -> None:
    """No handler runs, so nobody else would say why nothing happens."""

    @sqlite.job("mail.send")
    def send_mail(to: str) -> None: ...

    other = App(sqlite.connection.url)

    @other.declare("mail.send")
    def sent(adress: str) -> None: ...

    id = sent.enqueue_sync(adress="a")
    asyncio.run(drain(sqlite))
    assert record(sqlite, id).state == "discarded"
    [said] = [said for said in caplog.messages if "discarded" in said]
    assert said.startswith(f"job {id} (mail.send) is discarded: the args do not fit: ") and "takes (to: 'str')" in said
    other.close()


def test_a_period_without_a_rate_lifts_no_limits(sqlite: App) -> None:
    sqlite.sync.limit("q", concurrency=3)
    for call in (lambda: sqlite.sync.limit("q", burst=5), lambda: sqlite.sync.limit("q", period="1m"), lambda: sqlite.sync.limit_keys("q", period="1m")):
        with pytest.raises(InvalidOption, match="say how many start in it, as in rate=100"):
            call()
    for call in (lambda: sqlite.sync.limit("q", rate=5), lambda: sqlite.sync.limit_keys("q", rate=5), lambda: sqlite.sync.limit_key("q", "acme", rate=5)):
        with pytest.raises(InvalidOption, match="a rate needs a period, .* as in rate=5, period='1m'"):
            call()
    assert sqlite.sync.queues()[0].limits == {"concurrency": 3}


def test_a_worker_in_a_thread_is_told_how(sqlite: App) -> None:
    @sqlite.job("a")
    def job() -> None: ...

    raised: list[BaseException] = []

    def runs() -> None:
        try:
            sqlite.run_worker()
        except InvalidOption as error:
            raised.append(error)

    thread = threading.Thread(target=runs)
    thread.start()
    thread.join()
    assert "signals come to the main thread alone: in another one work by `async with app.worker():`" in str(raised[0])


def test_a_context_is_known_by_a_name_that_only_type_checkers_know(sqlite: App) -> None:
    """As ``from windlass import Context`` below ``if TYPE_CHECKING``: the name is not there when the program runs."""
    space: dict[str, Any] = {"__name__": "jobs"}
    exec("def alone(ctx, n): ...\ndef together(contexts, jobs): ...", space)  # noqa: S102
    alone, together = space["alone"], space["together"]
    alone.__annotations__ = {"ctx": ForwardRef("Context"), "n": int}  # as Python has it from 3.14 on
    together.__annotations__ = {"contexts": list[ForwardRef("Context")]}  # type: ignore[misc]
    assert list(sqlite.job("alone")(alone).handler.signature.parameters) == ["n"]
    assert sqlite.batch("together")(together).handler.takes_context


@pytest.mark.skipif(sys.version_info < (3, 14), reason="looks up the names of annotations at once")
def test_annotations_that_cannot_be_looked_up_are_no_error(sqlite: App) -> None:
    space: dict[str, Any] = {"app": sqlite, "__name__": "jobs"}
    exec("@app.job('a')\ndef job(ctx: Context, n: OfATypeChecker) -> AlsoOfOne: ...", space)  # noqa: S102
    assert list(space["job"].handler.signature.parameters) == ["n"]
