"""What a Python program does with args:  in_python.py enqueue STORE QUEUE...  |  in_python.py work STORE QUEUE"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, RootModel

from canonical import digest
from windlass import App
from windlass.errors import WindlassError

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "args.json").read_text("utf-8"))


class AnyArgs(RootModel[Any]):
    """Args that are no object: a function has none such, a model may."""

    model_config = ConfigDict(ser_json_inf_nan="constants")  # else pydantic makes null of NaN by itself


def enqueue(store: str, queues: list[str]) -> None:
    @App(store).job("echo")
    def plain(**args: Any) -> None: ...

    @App(store).job("echo", args=AnyArgs)
    def modelled(args: AnyArgs) -> None: ...

    def send(text: str, queue: str) -> int:
        args = json.loads(text)
        if isinstance(args, dict):
            return plain.with_options(queue=queue).enqueue_sync(**args)
        return modelled.with_options(queue=queue).enqueue_sync(AnyArgs(args))

    ids = {queue: [send(vector["text"], queue) for vector in VECTORS["accepted"]] for queue in queues}
    refused: list[str] = []
    for vector in VECTORS["refused"]:
        try:
            send(vector["text"], "refused")
            refused.append("enqueued")
        except json.JSONDecodeError:
            refused.append("no value")
        except WindlassError as error:
            refused.append(error.code)
    print(json.dumps({"ids": ids, "refused": refused}))


def work(store: str, queue: str) -> None:
    app = App(store)

    @app.batch("echo")
    async def echo(jobs: list[Any]) -> list[str]:
        return [digest(args) for args in jobs]

    app.run_worker({queue: 10})


if __name__ == "__main__":
    what, store, *queues = sys.argv[1:]
    enqueue(store, queues) if what == "enqueue" else work(store, queues[0])
