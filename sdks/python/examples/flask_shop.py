"""Windlass in Flask: views enqueue, `windlass worker flask_shop:jobs` works. Servers that fork (gunicorn --preload, uWSGI) need nothing else."""

from __future__ import annotations

from flask import Flask, Response, abort, jsonify, request

from windlass import App

jobs = App("sqlite:shop.db")  # or "postgres://me@localhost/shop"; WINDLASS_STORE wins
web = Flask(__name__)


@jobs.job("thumb.make", queue="images")
def make_thumb(image: int, width: int = 64) -> dict[str, int]:
    return {"image": image, "width": width}


@web.post("/images/<int:image>/thumb")
def order(image: int) -> tuple[Response, int]:
    # Whoever clicks twice gets the same job.
    key = request.headers.get("Idempotency-Key")
    return jsonify(job=make_thumb.with_options(idempotency_key=key).enqueue_sync(image=image)), 202


@web.get("/jobs/<int:id>")
def look(id: int) -> Response:
    job = jobs.sync.job(id)
    if job is None:
        abort(404)
    return jsonify(state=job.state, result=job.result)
