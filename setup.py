"""Builds the extension module and the program with CMake; all else is in pyproject.toml.

Of the environment: CMAKE_ARGS has options for CMake, as in CMAKE_ARGS="-DOUBLI_ARCH=" for a wheel
that runs on any processor; OUBLI_BUILD_DIR names a folder where both are built already.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


def version() -> str:
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"^project\(oubli VERSION ([0-9.]+)", text, re.M).group(1)


def pybind11_hint() -> list[str]:
    """Where pip put pybind11 for the build, if it did."""
    try:
        import pybind11
    except ImportError:
        return []
    return [f"-Dpybind11_DIR={pybind11.get_cmake_dir()}"]


class BuildWithCMake(build_ext):
    def build_extension(self, extension: Extension) -> None:
        done = os.environ.get("OUBLI_BUILD_DIR")
        build = Path(done) if done else self.build_here(Path(self.build_temp).resolve())
        module = Path(self.get_ext_fullpath(extension.name)).resolve()
        program = module.parent / "bin" / "oubli"
        program.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(build / "python" / "oubli" / module.name, module)
        shutil.copy2(build / "oubli", program)

    def build_here(self, build: Path) -> Path:
        build.mkdir(parents=True, exist_ok=True)
        options = [
            "-DCMAKE_BUILD_TYPE=Release",
            "-DOUBLI_BUILD_TESTS=OFF",
            "-DOUBLI_TOGETHER=ON",
            "-DOUBLI_WITH_PYTHON=REQUIRED",
            f"-DOUBLI_PYTHON={sys.executable}",
            *pybind11_hint(),
            *shlex.split(os.environ.get("CMAKE_ARGS", "")),
        ]
        if shutil.which("ninja") and "CMAKE_GENERATOR" not in os.environ:
            options.append("-GNinja")
        subprocess.run(["cmake", "-S", ROOT, "-B", build, *options], check=True)
        jobs = str(self.parallel or os.cpu_count() or 1)
        targets = ["oubli_python", "oubli_program"]
        subprocess.run(["cmake", "--build", build, "-j", jobs, "--target", *targets], check=True)
        return build


setup(
    version=version(),
    ext_modules=[Extension("oubli._core", sources=[])],
    cmdclass={"build_ext": BuildWithCMake},
)
