"""Works jobs of Windlass:  windlass work --stdio 'exec python3 worker.py' --processes 2"""

import json
import sys

protocol, sys.stdout = sys.stdout, sys.stderr  # what a handler prints goes to the log


def send_mail(args, job):
    if "to" not in args:
        raise ValueError("nobody to send it to")
    say(type="log", ticket=job["ticket"], text=f"attempt {job['attempt']}")
    say(type="progress", ticket=job["ticket"], percent=50, note="handing it over")
    return {"sent_to": args["to"]}


HANDLERS = {"mail.send": send_mail}


def say(**message):
    print(json.dumps(message, allow_nan=False), file=protocol, flush=True)


say(type="ready", protocol=1, kinds=list(HANDLERS))
for line in sys.stdin.buffer:
    job = json.loads(line)
    if job["type"] != "job":
        continue
    try:
        say(type="complete", ticket=job["ticket"], result=HANDLERS[job["kind"]](job["args"], job))
    except Exception as error:  # also of a result that is no JSON
        say(type="retry", ticket=job["ticket"], error=f"{type(error).__name__}: {error}")
