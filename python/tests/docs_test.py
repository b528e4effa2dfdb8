"""The examples of docstrings and of docs/python.md are run; the stub says what the module has."""

import ast
import contextlib
import doctest
import importlib
import importlib.util
import io
import os
import re
import unittest

import oubli
from support import Case

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = ["_error", "_means", "_forget", "_files", "_audit"]
WITH_OTHERS = {"torch": "torch", "sklearn": "sklearn", "hf": None}


class Examples(Case):
    def run_examples(self, module):
        failed, tried = doctest.testmod(module)
        self.assertEqual(failed, 0)
        return tried

    def test_docstrings(self):
        for name in MODULES:
            with self.subTest(name):
                self.assertGreater(self.run_examples(importlib.import_module("oubli." + name)), 0)

    def test_docstrings_with_other_libraries(self):
        for name, library in WITH_OTHERS.items():
            if library is not None and importlib.util.find_spec(library) is None:
                print(f"skipped: {library} is not installed")
                continue
            with self.subTest(name):
                self.run_examples(importlib.import_module("oubli." + name))

    def test_page(self):
        page = os.path.join(HERE, "..", "..", "docs", "python.md")
        with open(page, encoding="utf-8") as file:
            blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
        self.assertGreater(len(blocks), 2)
        names = {}
        for block in blocks:
            if "import torch" in block and importlib.util.find_spec("torch") is None:
                continue
            if "import sklearn" in block and importlib.util.find_spec("sklearn") is None:
                continue
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(block, page, "exec"), names)

    def test_everything_public_is_documented(self):
        for name in oubli.__all__:
            if callable(getattr(oubli, name)):
                self.assertTrue(getattr(oubli, name).__doc__, name)


class Stub(unittest.TestCase):
    def test_stub_names_what_the_module_has(self):
        with open(os.path.join(HERE, "..", "oubli", "_core.pyi"), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        told, members = set(), {}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                told.add(node.name)
            elif isinstance(node, ast.AnnAssign):
                told.add(node.target.id)
            elif isinstance(node, ast.ClassDef):
                told.add(node.name)
                members[node.name] = {
                    part.name for part in node.body if isinstance(part, ast.FunctionDef)
                }
        core = importlib.import_module("oubli._core")
        self.assertEqual(told, {name for name in dir(core) if not name.startswith("__")})
        for name, parts in members.items():
            there = {part for part in vars(getattr(core, name)) if not part.startswith("_")}
            self.assertEqual(parts - {"__init__"}, there, name)

    def test_typed(self):
        self.assertTrue(os.path.exists(os.path.join(HERE, "..", "oubli", "py.typed")))


if __name__ == "__main__":
    unittest.main()
