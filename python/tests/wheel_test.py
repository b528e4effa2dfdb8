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


class Wheel(Case):
    def pip(self, *words):
        # What is built already: compiling it again is what `pip wheel .` does elsewhere.
        environment = {**os.environ, "OUBLI_BUILD_DIR": BUILD, "PIP_NO_INDEX": "1"}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            [sys.executable, "-m", "pip", *words, "--no-deps", "-q"],
            capture_output=True,
            text=True,
            env=environment,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_wheel(self):
        os.makedirs("source/docs")
        for name in ("pyproject.toml", "setup.py", "CMakeLists.txt", "docs/python.md"):
            shutil.copy(os.path.join(ROOT, name), os.path.join("source", name))
        shutil.copytree(os.path.join(ROOT, "python", "oubli"), "source/python/oubli")
        self.pip("wheel", "./source", "--no-build-isolation", "-w", "wheels")
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
        self.pip("install", f"wheels/{wheel}", "--target", "site")
        environment = {**os.environ, "PYTHONPATH": os.path.abspath("site")}
        script = "import oubli; print(oubli.__file__, oubli.forget([[1., 0], [0, 1], [1, 1]], "
        script += "classes=[1], method='naive').W.tolist())"
        out = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True
        )
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual(
            out.stdout.split(maxsplit=1),
            [os.path.abspath("site/oubli/__init__.py"), "[[1.0, 0.0], [1.0, 1.0]]\n"],
        )
        for program in ("site/bin/oubli", "site/oubli/bin/oubli"):
            out = subprocess.run(
                [program, "--version"], env=environment, capture_output=True, text=True
            )
            self.assertTrue(out.stdout.startswith("oubli "), (program, out))


if __name__ == "__main__":
    unittest.main()
