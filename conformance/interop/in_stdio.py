"""A program of the stdio protocol that echoes a digest of its jobs' args:  windlass work --stdio 'exec python3 in_stdio.py'"""

import json
import sys

from canonical import digest

print(json.dumps({"type": "ready", "protocol": 1, "concurrency": 10, "kinds": ["echo"]}), flush=True)
for line in sys.stdin.buffer:
    job = json.loads(line)
    if job["type"] == "job":
        print(json.dumps({"type": "complete", "ticket": job["ticket"], "result": digest(job["args"])}), flush=True)
