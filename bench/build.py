"""bench/run build: a clean release build of what is committed, against that of an older commit.

Each is cloned into a temporary folder, configured with `cmake --preset release` and built without a
compiler cache, with as many jobs as there are cores. `--before COMMIT` names the older one,
`--preset dev` builds the tests, too, `--jobs N` bounds the jobs. Elapsed time means something on an
idle machine only; processor time on any.
"""
import argparse
import os
import pathlib
import resource
import subprocess
import tempfile
import time

TARGET = 2.0

parser = argparse.ArgumentParser()
parser.add_argument("--before", default="195a681")
parser.add_argument("--preset", default="release")
parser.add_argument("--jobs", type=int, default=os.cpu_count())
arguments = parser.parse_args()


def build(commit, folder):
    """Elapsed and processor seconds of configuring and building `commit`."""
    run = lambda *words: subprocess.run(
        words, check=True, stdout=subprocess.DEVNULL, env=environment, cwd=folder
    )
    environment = {
        name: value for name, value in os.environ.items() if name != "CMAKE_CXX_COMPILER_LAUNCHER"
    }
    environment["CCACHE_DISABLE"] = "1"
    subprocess.run(
        ["git", "clone", "-q", "--shared", "--no-checkout", os.getcwd(), folder], check=True
    )
    run("git", "checkout", "-q", commit)
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run("cmake", "--preset", arguments.preset)
    run("cmake", "--build", "--preset", arguments.preset, "-j", str(arguments.jobs))
    elapsed, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def lines(folder):
    """Lines of C++ in oubli/ without tests."""
    sources = pathlib.Path(folder, "oubli").rglob("*.*")
    return sum(
        source.read_text().count("\n")
        for source in sources
        if source.suffix in (".h", ".cpp") and not source.stem.endswith("_test")
    )


with tempfile.TemporaryDirectory() as folder:
    old = build(arguments.before, os.path.join(folder, "old"))
    new = build("HEAD", os.path.join(folder, "new"))
    sizes = [lines(os.path.join(folder, name)) for name in ("old", "new")]
for case, a, b in zip(("elapsed", "processor time"), old, new):
    print(
        f"{arguments.preset} build, {arguments.jobs} jobs, {case}: "
        f"{arguments.before} {a:.0f} s, now {b:.0f} s, "
        f"ratio {a / b:.2f}x, target {TARGET:.0f}x {'met' if a / b >= TARGET else 'MISSED'}"
    )
print(f"lines of oubli/ without tests: {arguments.before} {sizes[0]}, now {sizes[1]}")
