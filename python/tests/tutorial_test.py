"""The tutorial runs, with fewer networks and epochs, and leaves what it promises."""

import os
import re
import subprocess
import sys
import unittest

from support import Case, need

need("torch")
need("sklearn")
TUTORIAL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "tutorial.py")


class Tutorial(Case):
    def test_runs(self):
        environment = {**os.environ, "TUTORIAL_NETWORKS": "5", "TUTORIAL_EPOCHS": "8"}
        done = subprocess.run(
            [sys.executable, TUTORIAL, "out"], capture_output=True, text=True, env=environment
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"right about [89]\d\.\d%")
        self.assertIn("out_features=9", done.stdout)
        self.assertIn("verifies", done.stdout)
        with open("out/audit.html", encoding="utf-8") as file:
            page = file.read()
        self.assertGreater(page.count("<svg"), 3)
        self.assertIn("Digits: forgetting 3", page)
        self.assertTrue(os.path.exists("out/new.pth.receipt.json"))

    def test_is_a_notebook(self):
        with open(TUTORIAL, encoding="utf-8") as file:
            cells = re.findall(r"^# %%.*$", file.read(), re.M)
        self.assertGreater(len(cells), 10)
        self.assertIn("# %% [markdown]", cells)


if __name__ == "__main__":
    unittest.main()
