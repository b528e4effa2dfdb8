"""Packages of npm that tests run as foreign readers."""
import os
import shutil
import subprocess
import sys


def node_modules(source, name, skip):
    """The folder of what `source`/package.json lists, fetched into the cache as `name`, once, with
    the check sums of package-lock.json; OUBLI_TEST_NODE_MODULES names a folder instead. `skip`
    takes the reason where it cannot be had, and does not return."""
    if not shutil.which("node"):
        skip("node is not installed")
    named = os.environ.get("OUBLI_TEST_NODE_MODULES")
    if named:
        return os.path.abspath(named)
    cache = os.environ.get("OUBLI_DATA") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "oubli"
    )
    folder = os.path.join(cache, "test", name)
    if os.path.exists(folder):
        return os.path.join(folder, "node_modules")
    if not shutil.which("npm"):
        skip("npm is not installed")
    unfinished = "%s.%d" % (folder, os.getpid())
    shutil.copytree(source, unfinished)
    words = ["npm", "ci", "--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund"]
    try:
        done = subprocess.run(
            words, cwd=unfinished, capture_output=True, text=True, errors="replace", timeout=200
        )
        said, fetched = done.stderr, done.returncode == 0
    except subprocess.TimeoutExpired:
        said, fetched = "no answer in 200 seconds", False
    if not fetched:
        shutil.rmtree(unfinished)
        if "EINTEGRITY" in said:
            sys.exit("what npm fetched is not what its package-lock.json says:\n" + said)
        skip("npm cannot fetch %s (%s)" % (name, " ".join(said.split())[-200:]))
    os.rename(unfinished, folder)
    return os.path.join(folder, "node_modules")
