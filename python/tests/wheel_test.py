"""One wheel holds the module, the program and the type stubs, and installs without a network."""

import importlib.util
import os
import shutil
import subprocess
import sys
import unittest
import zipfile

from support import PROGRAM, SKIPPED, Case

for module in ("pip", "setuptools", "wheel"):
    if importlib.util.find_spec(module) is None:
        print(f"skipped: {module} is not installed")
        sys.exit(SKIPPED)
ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.path.dirname(PROGRAM)


# Debian's wheels of what builds wheels, for environments of their own.
DEBIAN_WHEELS = "/usr/share/python-wheels"
FORGET = """import oubli
print(oubli.__file__)
print(oubli.forget([[1., 0], [0, 1], [1, 1]], classes=[1], method='naive').W.tolist())"""


def wheel_of_pybind11(folder):
    """A wheel of the files that Debian's package has: pip takes nothing else."""
    import importlib.metadata as metadata

    files = metadata.files("pybind11") or []
    version = metadata.version("pybind11")
    with zipfile.ZipFile(f"{folder}/pybind11-{version}-py3-none-any.whl", "w") as archive:
        for file in files:
            path = str(file.locate())
            if file.parts[0].startswith("pybind11") and os.path.isfile(path):
                archive.write(path, str(file))
        info = f"pybind11-{version}.dist-info"
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


class Wheel(Case):
    def pip(self, *words, python=sys.executable, **more):
        # What is built already: compiling it again is what `pip wheel .` does elsewhere.
        environment = {**os.environ, "OUBLI_BUILD_DIR": BUILD, "PIP_NO_INDEX": "1", **more}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            [python, "-m", "pip", *words, "-q"], capture_output=True, text=True, env=environment
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def sources(self):
        os.makedirs("source/docs")
        for name in ("pyproject.toml", "setup.py", "CMakeLists.txt", "docs/python.md"):
            shutil.copy(os.path.join(ROOT, name), os.path.join("source", name))
        shutil.copytree(os.path.join(ROOT, "python", "oubli"), "source/python/oubli")

    def test_the_usual_way(self):
        """`pip install .`, no flags, in a new environment: pip fetches what builds the package
        (here from a folder), puts it apart, and the package and the program are installed."""
        for module in ("venv", "ensurepip", "pybind11"):
            if importlib.util.find_spec(module) is None:
                self.skipTest(f"{module} is not installed")
        if not any(name.startswith("wheel-") for name in os.listdir(DEBIAN_WHEELS)):
            self.skipTest("python3-wheel-whl is not installed")
        self.sources()
        shutil.copytree(DEBIAN_WHEELS, "found")
        wheel_of_pybind11("found")
        command = [sys.executable, "-m", "venv", "--system-site-packages", "venv"]
        subprocess.run(command, check=True)
        python = os.path.abspath("venv/bin/python")
        self.pip("install", "./source", python=python, PIP_FIND_LINKS=os.path.abspath("found"))
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        out = subprocess.run(
            [python, "-c", FORGET], env=environment, capture_output=True, text=True
        )
        self.assertEqual(out.returncode, 0, out.stderr)
        where, numbers = out.stdout.splitlines()
        self.assertTrue(where.startswith(os.path.abspath("venv/")), where)
        self.assertEqual(numbers, "[[1.0, 0.0], [1.0, 1.0]]")
        out = subprocess.run(
            ["venv/bin/oubli", "--version"], env=environment, capture_output=True, text=True
        )
        self.assertTrue(out.stdout.startswith("oubli "), out)
        # Without one of the things that build it, pip says so: they were not the system's.
        for name in os.listdir("found"):
            if name.startswith("pybind11-"):
                os.remove(f"found/{name}")
        with self.assertRaisesRegex(AssertionError, "pybind11"):
            self.pip("install", "./source", python=python, PIP_FIND_LINKS=os.path.abspath("found"))

    def test_wheel(self):
        self.sources()
        words = ["wheel", "./source", "--no-build-isolation", "--no-deps", "-w", "wheels"]
        self.pip(*words)
        (wheel,) = os.listdir("wheels")
        self.assertIn(f"-cp{sys.version_info.major}{sys.version_info.minor}-", wheel)
        with zipfile.ZipFile(f"wheels/{wheel}") as archive:
            names = archive.namelist()
            metadata = archive.read(next(n for n in names if n.endswith("/METADATA"))).decode()
        for name in ("__init__.py", "torch.py", "sklearn.py", "hf.py", "_core.pyi", "py.typed"):
            self.assertIn("oubli/" + name, names)
        self.assertIn("oubli/bin/oubli", names)
        needed = [line for line in metadata.splitlines() if line.startswith("Requires-Dist")]
        self.assertEqual(
            [line for line in needed if "extra" not in line], ["Requires-Dist: numpy (>=1.22)"]
        )
        self.pip("install", f"wheels/{wheel}", "--no-deps", "--target", "site")
        environment = {**os.environ, "PYTHONPATH": os.path.abspath("site")}
        out = subprocess.run(
            [sys.executable, "-c", FORGET], env=environment, capture_output=True, text=True
        )
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual(
            out.stdout.splitlines(),
            [os.path.abspath("site/oubli/__init__.py"), "[[1.0, 0.0], [1.0, 1.0]]"],
        )
        for program in ("site/bin/oubli", "site/oubli/bin/oubli"):
            out = subprocess.run(
                [program, "--version"], env=environment, capture_output=True, text=True
            )
            self.assertTrue(out.stdout.startswith("oubli "), (program, out))


if __name__ == "__main__":
    unittest.main()
