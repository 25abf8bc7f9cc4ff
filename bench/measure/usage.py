"""What processes cost, from /proc: CPU seconds and memory of a server's or an adapter's tree."""

import os
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def stat(pid):
    """The fields of /proc/PID/stat after the command's name, which may hold blanks; None when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rsplit(b") ", 1)[1].split()
    except (OSError, IndexError):
        return None


def processes():
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat(name)
            if fields:
                yield int(name), fields


def tree_cpu_seconds(root):
    """CPU of a server: of its main process, of the children that it has reaped, and of those that live."""
    total = 0
    for pid, fields in processes():
        if pid == root:
            total += sum(int(field) for field in fields[11:15])  # utime, stime, and both of reaped children
        elif int(fields[1]) == root:
            total += int(fields[11]) + int(fields[12])
    return total / TICK


def session_memory_bytes(session):
    """Resident memory of all processes of a session, shared pages counted in each."""
    return sum(int(fields[21]) * PAGE for _, fields in processes() if int(fields[3]) == session)
