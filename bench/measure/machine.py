"""What the figures were measured on: without names, paths or addresses."""

import os
import platform
import subprocess
import time
from pathlib import Path


def machine():
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "architecture": platform.machine(),
        "revision": revision(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def cpu_model():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return " ".join(line.split(":", 1)[1].split())
    return platform.processor() or "unknown"


def revision():
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None
