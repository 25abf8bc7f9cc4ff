"""What the package offers."""

from __future__ import annotations

import importlib
import inspect

import pytest

import windlass
from windlass import App, Client, SyncClient, errors
from windlass.duration import millis, seconds
from windlass.errors import InvalidOption


def test_both_clients_have_the_same_methods() -> None:
    methods = [dict(inspect.getmembers(client, inspect.isfunction)) for client in (Client, SyncClient)]
    assert methods[0].keys() == methods[1].keys()
    for name, method in methods[0].items():
        assert inspect.signature(method) == inspect.signature(methods[1][name]), name
        assert method.__doc__ == methods[1][name].__doc__, name
        # What it gives is awaited itself.
        is_awaited = inspect.iscoroutinefunction(method) or name in ("follow_events", "acting_as")
        assert name.startswith("_") or (is_awaited and method.__doc__), name


def test_everything_that_is_offered_is_there_and_explained() -> None:
    for name in windlass.__all__:
        offered = getattr(windlass, name)
        assert name in ("Around", "__version__", "errors") or offered.__doc__, name  # a type's other name has none


@pytest.mark.parametrize("module", ["windlass", "windlass.errors", "windlass.testing", "windlass.traces"])
def test_every_method_and_property_is_explained(module: str) -> None:
    offered = importlib.import_module(module)
    classes = [one for one in vars(offered).values() if inspect.isclass(one) and one.__module__.startswith("windlass")]
    assert classes
    for one in classes:
        for name, member in vars(one).items():
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            assert name.startswith("_") or not inspect.isfunction(function) or function.__doc__, f"{one.__qualname__}.{name}"


def test_errors_have_their_class_code_and_flags() -> None:
    for code, error in errors._CLASSES.items():
        made = errors.error_of(code, "words", retryable=True, ambiguous=False)
        assert (type(made), made.code, str(made), made.retryable, made.ambiguous) == (error, code, "words", True, False)
    assert type(errors.error_of("of_tomorrow", "words")) is errors.InternalError


@pytest.mark.parametrize(
    ("text", "length"), [("90s", 90), ("5m", 300), ("1h30m", 5400), ("2d", 172800), ("250ms", 0.25), (" 1h 5m ", 3900), (7, 7), (0.5, 0.5)]
)
def test_lengths_of_time_read_as_written(text: str | float, length: float) -> None:
    assert seconds(text, "x") == length


def test_what_is_no_length_is_refused_by_name() -> None:
    for nonsense in ["", "5", "m", "5x", "-5s", "5m nonsense", "1e3s", -1, float("nan"), float("inf"), None, True, []]:
        with pytest.raises(InvalidOption, match="delay must"):
            seconds(nonsense, "delay")  # type: ignore[arg-type]
    assert (millis(0, "x"), millis(0.0001, "x"), millis(1.2, "x")) == (0, 1, 1200)


def test_no_password_is_told() -> None:
    url = "postgres://me:s3cret@127.0.0.1:1/none"
    app = App(url)
    assert "s3cret" not in repr(app) + repr(vars(app.client)) + repr(app.connection)
    with pytest.raises(errors.Unavailable) as error:
        app.sync.queues()
    assert "s3cret" not in str(error.value) + repr(error.value) and error.value.retryable
    for bad in ["mysql://me:s3cret@host/x", "postgres://me:s3cret@[/x"]:
        with pytest.raises(InvalidOption) as refused:
            App(bad).sync.queues()
        assert "s3cret" not in str(refused.value)
    with pytest.raises(InvalidOption, match="name the store"):
        App()
