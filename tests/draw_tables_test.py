"""draw_tables_test.py: what tools/draw-tables adds to a results file, and how it counts."""
import copy
import importlib.machinery
import importlib.util
import json
import pathlib
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parent.parent / "tools" / "draw-tables"
loader = importlib.machinery.SourceFileLoader("draw_tables", str(TOOL))
tables = importlib.util.module_from_spec(importlib.util.spec_from_loader("draw_tables", loader))
loader.exec_module(tables)


def results(advantage, splits=None):
    attack = {"attack": "forest", "advantage": {"value": advantage, "low": 0.1}}
    if splits:
        attack["splits"] = {"advantages": splits, "mean": {"value": 0.5}}
    audit = {"leaks": {"forgotten": [{"attacks": [attack]}]}, "samples": 10}
    method = {"method": "zeroing", "samples": "all", "means_from": "test", "audit": audit}
    part = {"hidden": 50, "forgotten": [0], "methods": [method]}
    return {"experiment": "mnist", "seed": 1, "parts": [part], "each_class": ["kept"]}


class Extend(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_folder = pathlib.Path(folder.name) / "run"
        self.run_folder.mkdir()
        self.addCleanup(setattr, tables, "RESULTS", tables.RESULTS)
        tables.RESULTS = pathlib.Path(folder.name) / "results"
        tables.write_results("mnist", results(0.4))

    def extend(self, new):
        (self.run_folder / "results.json").write_text(json.dumps(new))
        tables.extend("mnist", self.run_folder)

    def refuses(self, message, new):
        with self.assertRaisesRegex(SystemExit, message):
            self.extend(new)
        self.assertEqual(tables.read_results("mnist"), results(0.4))

    def test_only_splits_are_added(self):
        new = results(0.4, [0.4, 0.6])
        new["each_class"] = []
        new["parts"][0]["methods"][0]["audit"]["forgetting"] = "not shown"
        new["parts"][0]["methods"][0]["audit"]["leaks"]["forgotten"][0]["attacks"][0]["advantage"][
            "low"
        ] += 1e-15
        self.extend(new)
        self.assertEqual(tables.read_results("mnist"), results(0.4, [0.4, 0.6]))

    def test_what_gains_nothing_is_not_compared(self):
        self.extend(results(0.7))
        self.assertEqual(tables.read_results("mnist"), results(0.4))

    def test_another_figure_is_refused(self):
        place = r"zeroing .*attacks\[0\].advantage.value: 0.4 in results/, 0.4000000001 in the run"
        self.refuses(place, results(0.4000000001, [0.4, 0.6]))

    def test_another_seed_or_shape_is_refused(self):
        new = results(0.4, [0.4, 0.6])
        self.refuses("seed 1 in results/, 2 in the run", {**new, "seed": 2})
        other = copy.deepcopy(new)
        del other["parts"][0]["methods"][0]["audit"]["samples"]
        self.refuses("only one of both has samples", other)


class Agreement(unittest.TestCase):
    def test_counts_are_those_of_the_notes(self):
        page = tables.agreement(
            {
                "mnist": "### Table I (main text): Advantage\n\n| 0.593 |\n\n"
                "11 of 12 published figures lie in our intervals; outside: NN remaining naive 50. "
                "12 of 12 published figures lie in those that include the attacks' training "
                "networks.\nfloor: none\n\n### Table IX (appendix): Accuracy\n\n"
                "2 of 2 published figures lie in our intervals.\n\n### Ours alone\n\nno note\n"
            }
        )
        rows = [line for line in page.split("\n") if line.startswith("| I")]
        self.assertEqual(
            rows,
            [
                "| I | [mnist](mnist.md) | Advantage (main text) | 11 of 12 | 12 of 12 | NN "
                "remaining naive 50 |",
                "| IX | [mnist](mnist.md) | Accuracy (appendix) | 2 of 2 |  |  |",
            ],
        )


if __name__ == "__main__":
    unittest.main()
