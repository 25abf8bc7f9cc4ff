"""The two versions that are compared: which, and the commands that measure them."""

import json
import os
import subprocess


class Unusable(Exception):
    """A base that does not exist or does not build."""


def git(root, *arguments):
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise Unusable(f"git {' '.join(arguments[:2])}: {lines[-1] if lines else 'failed'}")
    return done.stdout.strip()


def resolve(root, wanted):
    """(what it is called, its commit): what is asked for, else the newest release before, else the commit before the changes."""
    head = git(root, "rev-parse", "HEAD")
    if wanted:
        try:
            return wanted, git(root, "rev-parse", "--verify", "--quiet", f"{wanted}^{{commit}}")
        except Unusable:
            raise Unusable(f"BASE={wanted} names no commit here; give a tag, a branch or a commit (git log --oneline)") from None
    dirty = bool(git(root, "status", "--porcelain"))
    for tag in git(root, "tag", "--list", "v*", "--sort=-version:refname", "--merged", "HEAD").splitlines():
        commit = git(root, "rev-parse", f"{tag}^{{commit}}")
        if dirty or commit != head:
            return tag, commit
    name = "HEAD" if dirty else "HEAD~1"
    try:
        return name, git(root, "rev-parse", "--verify", f"{name}^{{commit}}")
    except Unusable:
        raise Unusable("there is no commit before this one to compare with") from None


def checkout(root, commit, folder):
    """A work tree of the commit, made or moved there."""
    git(root, "worktree", "prune")
    if (folder / ".git").exists():
        git(folder, "checkout", "--quiet", "--force", "--detach", commit)
    else:
        folder.parent.mkdir(parents=True, exist_ok=True)
        git(root, "worktree", "add", "--quiet", "--force", "--detach", str(folder), commit)
    return folder


def harness(folder):
    """The package that measures a version, its binary, and the words before a case: up to ab3ba5e it was a command of the CLI."""
    if (folder / "crates/windlass-bench/Cargo.toml").exists():
        return "windlass-bench", "windlass-bench", []
    return "windlass-cli", "windlass", ["bench"]


def build(folder, target=None):
    """The command that measures with the release build of a work tree; its own target folder where one is named."""
    package, binary, words = harness(folder)
    environment = dict(os.environ) | ({"CARGO_TARGET_DIR": str(target)} if target else {})
    command = [os.environ.get("CARGO", "cargo"), "build", "--release", "--locked", "--quiet", "--package", package, "--message-format=json-render-diagnostics"]
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise Unusable(f"{package} does not build in {folder}: {' '.join(command[:4])} ended with exit code {done.returncode}")
    return [executable(done.stdout, binary), *words]


def executable(messages, binary):
    for line in messages.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == binary:
            return message["executable"]
    raise Unusable(f"cargo built no binary {binary}")
