"""Windlass in FastAPI: endpoints enqueue, and a worker runs inside the same process. `uvicorn fastapi_shop:api`"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException

from windlass import App
from windlass.errors import NotFound

jobs = App("sqlite:shop.db")  # or "postgres://me@localhost/shop"; WINDLASS_STORE wins


@jobs.job("mail.welcome", queue="mail")
async def welcome(to: str) -> str:
    return f"Welcome, {to}!"


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with jobs.worker(queues={"mail": 20}):  # leave it out where `windlass worker fastapi_shop:jobs` runs elsewhere
        yield


api = FastAPI(lifespan=lifespan)


@api.post("/users", status_code=202)
async def sign_up(mail: str) -> dict[str, int]:
    return {"job": await welcome.enqueue(to=mail)}


@api.get("/jobs/{id}")
async def look(id: int, wait: float = 0) -> dict[str, Any]:
    try:
        ended = await jobs.client.wait(id, wait) if wait else None
    except NotFound:
        raise HTTPException(404, "there is no such job") from None
    job = ended or await jobs.client.job(id)
    if job is None:
        raise HTTPException(404, "there is no such job")
    return {"state": job.state, "result": job.result}
