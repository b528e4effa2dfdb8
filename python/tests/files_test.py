"""forget_file, inspect, verify, Audit: what the program does, byte for byte."""

import importlib.util
import json
import os
import unittest

import numpy as np

import oubli
from support import Case, run, toy


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Files(Case):
    def setUp(self):
        super().setUp()
        self.W, self.b, self.x, self.y = toy(classes=5)
        np.savez("head.npz", W=self.W, b=self.b)
        np.save("features.npy", self.x)
        np.save("labels.npy", self.y)
        with open("names.txt", "w") as names:
            names.writelines(f"{name}\n" for name in ("ant", "bee", "cat", "dog", "emu"))
        self.data = ("--features", "features.npy", "--labels", "labels.npy")

    def test_same_bytes_as_the_program(self):
        run("keygen", "-o", "k.key")
        os.mkdir("program")
        os.mkdir("ours")
        words = (
            "--class",
            "cat",
            "--class",
            4,
            "--class-names",
            "names.txt",
            "--note",
            "on request",
        )
        run(
            "forget",
            "head.npz",
            *words,
            *self.data,
            "--sign",
            "k.key",
            "--bundle",
            "-o",
            "program/new.npz",
            "--report",
            "program/page.html",
        )
        receipt = oubli.forget_file(
            "head.npz",
            classes=["cat", 4],
            class_names="names.txt",
            note="on request",
            features="features.npy",
            labels="labels.npy",
            sign="k.key",
            bundle=True,
            output="ours/new.npz",
            report="ours/page.html",
        )
        self.assertEqual(sorted(os.listdir("program")), sorted(os.listdir("ours")))
        for name in os.listdir("program"):
            self.assertEqual(read(f"program/{name}"), read(f"ours/{name}"), name)
        self.assertEqual(receipt.to_dict(), json.loads(read(receipt.path)))
        result = oubli.verify(
            receipt.path,
            model="ours/new.npz",
            key="k.key.pub",
            original="head.npz",
            features="features.npy",
            labels="labels.npy",
            recompute=True,
        )
        expected = run(
            "verify",
            "ours/new.npz.receipt.json",
            "--model",
            "ours/new.npz",
            "--key",
            "k.key.pub",
            "--original",
            "head.npz",
            *self.data,
            "--recompute",
            "--json",
        )
        self.assertEqual(result, json.loads(expected))
        self.assertTrue(result["passed"])

    def test_onnx(self):
        """Which is run as well, old and new, in a copy of the process."""
        if importlib.util.find_spec("onnx") is None:
            self.skipTest("onnx is not installed")
        from onnx import TensorProto, helper, numpy_helper, save

        graph = helper.make_graph(
            [helper.make_node("Gemm", ["x", "W", "b"], ["logits"], transB=1)],
            "head",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 5])],
            [numpy_helper.from_array(self.W, "W"), numpy_helper.from_array(self.b, "b")],
        )
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), "m.onnx")
        os.mkdir("program")
        os.mkdir("ours")
        run("forget", "m.onnx", "--class", 2, *self.data, "-o", "program/new.onnx")
        oubli.forget_file(
            "m.onnx",
            classes=[2],
            features="features.npy",
            labels="labels.npy",
            output="ours/new.onnx",
        )
        self.assertEqual(sorted(os.listdir("program")), sorted(os.listdir("ours")))
        for name in os.listdir("program"):
            self.assertEqual(read(f"program/{name}"), read(f"ours/{name}"), name)

    def test_arrays_for_files(self):
        run("forget", "head.npz", "--class", 2, *self.data, "-o", "program.npz")
        oubli.forget_file(
            "head.npz", classes=[2], features=self.x, labels=self.y, output="ours.npz"
        )
        self.assertEqual(read("program.npz"), read("ours.npz"))
        means = oubli.Means(classes=5)
        means.update(self.x, self.y)
        oubli.forget_file("head.npz", classes=[2], means=means, output="third.npz")
        self.assertEqual(read("program.npz"), read("third.npz"))
        receipt = oubli.forget_file(
            "head.npz",
            classes=["bee"],
            class_names=["ant", "bee", "c", "d", "e"],
            method="naive",
            output="fourth.npz",
        )
        self.assertEqual(receipt.to_dict()["request"]["forget"], [1])
        receipt.report("page.html")
        run("report", "fourth.npz.receipt.json", "-o", "program.html")
        self.assertEqual(read("page.html"), read("program.html"))

    def test_inspect(self):
        self.assertEqual(
            oubli.inspect("head.npz"), json.loads(run("inspect", "head.npz", "--json"))
        )
        found = oubli.inspect("head.npz", classes=[1], features=self.x, labels=self.y)
        self.assertEqual(found["if_forgotten"]["request"]["forget"], [1])
        self.refuses(6, "no-such", oubli.inspect, "no-such.npz")

    def test_dry_run_writes_nothing(self):
        before = os.listdir()
        receipt = oubli.forget_file("head.npz", classes=[1], method="naive", dry_run=True)
        self.assertTrue(receipt.to_dict()["dry_run"])
        self.assertIsNone(receipt.path)
        self.assertEqual(os.listdir(), before)

    def test_failures_are_the_programs(self):
        self.refuses(
            2, "-o NEW is missing", oubli.forget_file, "head.npz", classes=[1], method="naive"
        )
        oubli.forget_file("head.npz", classes=[1], method="naive", output="new.npz")
        before = read("new.npz")
        for words, more in [("new.npz", {}), ("head.npz", dict(output="head.npz", force=True))]:
            more = {"output": "new.npz", **more}
            self.refuses(
                2, words, oubli.forget_file, "head.npz", classes=[1], method="naive", **more
            )
        self.refuses(2, "", oubli.forget_file, "head.npz", classes=["--force"], output="x.npz")
        self.refuses(2, "classes: empty", oubli.forget_file, "head.npz", classes=[], output="x.npz")
        self.refuses(
            2, "samples", oubli.forget_file, "head.npz", classes=[1], samples=-1, output="x.npz"
        )
        self.refuses(2, "zero byte", oubli.forget_file, "a\0b", classes=[1], output="x.npz")
        self.assertEqual(read("new.npz"), before)
        self.assertFalse(os.path.exists("x.npz"))
        self.refuses(2, "--outputs", oubli.forget_file, "head.npz", classes=[1], outputs="x.npz")
        self.refuses(2, "--nonsense", oubli.inspect, "head.npz", nonsense=3)
        self.refuses(2, "--samples", oubli.verify, "r.json", model="new.npz", samples=3)

    def test_a_receipt_that_does_not_verify(self):
        receipt = oubli.forget_file("head.npz", classes=[1], method="naive", output="new.npz")
        with np.load("new.npz") as new:
            arrays = dict(new)
        arrays["W"][0, 0] += 1
        np.savez("new.npz", **arrays)
        error = self.refuses(5, "does not verify", oubli.verify, receipt.path, model="new.npz")
        self.assertFalse(error.result["passed"])
        self.assertIn("FAILED", [step["state"] for step in error.result["steps"]])


class Audits(Case):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(3)
        self.y = np.arange(120) % 4
        self.seen = rng.normal(size=(12, 120, 3)).astype("float32")
        self.seen[:, self.y == 1] += 0.7  # what the forgotten class leaves behind
        self.unseen = rng.normal(size=(12, 120, 3)).astype("float32")
        for logits in self.seen, self.unseen:
            logits += 2 * (self.y[:, None] == [0, 2, 3])  # they recognise the others
        self.quick = dict(directions=50, bootstrap=100, attack=["logistic", "per-image"])

    def test_same_as_the_program(self):
        np.save("seen.npy", self.seen)
        np.save("unseen.npy", self.unseen)
        np.save("y.npy", self.y)
        expected = run(
            "audit",
            "--seen",
            "seen.npy",
            "--unseen",
            "unseen.npy",
            "--labels",
            "y.npy",
            "--class",
            1,
            "--directions",
            50,
            "--bootstrap",
            100,
            "--attack",
            "logistic,per-image",
            "--json",
            "--csv",
            "program.csv",
        )
        expected = expected.replace("seen.npy", "seen")  # warnings name the arrays
        found = oubli.audit(self.seen, self.unseen, self.y, [1], **self.quick)
        self.assertEqual(found.to_json(), expected)
        self.assertEqual(found.to_dict(), json.loads(expected))
        self.assertEqual(found.to_csv().encode(), read("program.csv"))
        listed = oubli.audit(list(self.seen), list(self.unseen), self.y, [1], jobs=2, **self.quick)
        self.assertEqual(listed.to_dict(), found.to_dict())
        with open("audit.json", "w") as out:
            out.write(expected)
        run("report", "audit.json", "-o", "program.html")
        found.report("ours.html")
        self.assertEqual(read("program.html"), read("ours.html"))

    def test_splits_as_the_program_makes_them(self):
        np.save("seen.npy", self.seen)
        np.save("unseen.npy", self.unseen)
        np.save("y.npy", self.y)
        files = ["--seen", "seen.npy", "--unseen", "unseen.npy", "--labels", "y.npy"]
        words = ["--class", 1, "--attack", "logistic", "--directions", 0, "--bootstrap", 0]
        expected = run("audit", *files, *words, "--splits", 3, "--json").replace("seen.npy", "seen")
        found = oubli.audit(
            self.seen,
            self.unseen,
            self.y,
            [1],
            attack=["logistic"],
            directions=0,
            bootstrap=0,
            splits=3,
        )
        self.assertEqual(found.to_json(), expected)
        self.assertIn('"splits": {', expected)
        with self.assertRaises(oubli.Error):
            oubli.audit(self.seen, self.unseen, self.y, [1], splits=0)

    def test_features_of_layers(self):
        rng = np.random.default_rng(5)
        kinds = ("features", "unseen_features", "before_features")
        given = {kind: rng.normal(size=(12, 120, 4)).astype("float32") for kind in kinds}
        words = []
        for name, array in {
            "seen": self.seen,
            "unseen": self.unseen,
            "labels": self.y,
            **given,
        }.items():
            np.save(f"{name}.npy", array)
            words += ["--" + name.replace("_", "-"), f"{name}.npy"]
        program = run(
            "audit",
            *words,
            "--class",
            1,
            "--directions",
            50,
            "--bootstrap",
            100,
            "--attack",
            "logistic,per-image",
            "--json",
        )
        found = oubli.audit(self.seen, self.unseen, self.y, [1], **given, **self.quick)
        self.assertEqual(found.probes, json.loads(program)["probes"])
        named = {kind: {"last": array} for kind, array in given.items()}
        found = oubli.audit(self.seen, self.unseen, self.y, [1], **named, **self.quick)
        self.assertIn("last", json.dumps(found.probes))

    def test_what_it_shows(self):
        steps = []
        found = oubli.audit(
            self.seen,
            self.unseen,
            self.y,
            [1],
            class_names=list("abcd"),
            progress=lambda *step: steps.append(step),
            **self.quick,
        )
        self.assertEqual(steps[-1], (4, 4, "audit"))
        self.assertEqual(found.outcome, found.to_dict()["verdict"]["outcome"])
        self.assertEqual(found.leaks, found.to_dict()["leaks"])
        self.assertIn(found.sentence, repr(found))
        self.assertIn("logits", str(found))
        shown = found._repr_html_()
        self.assertTrue(shown.startswith("<iframe sandbox"))
        self.assertIn("&lt;svg", shown)
        self.assertNotIn("<script", shown)
        with self.assertRaises(AttributeError):
            found.nonsense

    def test_dataframe(self):
        found = oubli.audit(self.seen, self.unseen, self.y, [1], **self.quick)
        if importlib.util.find_spec("pandas") is None:
            self.refuses(7, "pandas", found.to_dataframe)
            self.skipTest("pandas is not installed")
        table = found.to_dataframe()
        self.assertEqual(len(table), len(found.to_csv().splitlines()) - 1)
        self.assertEqual(set(table["class"]), {0, 1, 2, 3})
        self.assertTrue(table.value.notna().any())

    def test_bad_input(self):
        audit = lambda seen=self.seen, unseen=self.unseen, y=self.y, c=(
            1,
        ), **more: oubli.audit(  # noqa: E731
            seen, unseen, y, c, **{**self.quick, **more}
        )
        self.refuses(3, "columns", audit, seen=np.concatenate([self.seen, self.seen[..., :1]], 2))
        self.refuses(2, "classes: empty", audit, c=[])
        self.refuses(
            2, "twice", audit, seen=self.seen[..., :2], unseen=self.unseen[..., :2], c=[1, 1]
        )
        self.refuses(3, "labels: text", audit, y=self.y.astype(str))
        shifted = (self.y + 1) % 4
        self.refuses(4, "labels look misaligned: unseen", audit, y=shifted)
        insisted = audit(y=shifted, ignore_accuracy=True)
        self.assertIn("ignored as asked", " ".join(insisted.warnings))
        self.refuses(3, "seen: int", audit, seen=self.seen.astype(int))
        self.refuses(2, "seen: empty", audit, seen=[])
        self.refuses(2, "did you mean", audit, attack=["forests"])
        self.refuses(2, "bootstrap", audit, bootstrap=5)
        self.refuses(2, "train_share", audit, train_share=0)
        bad = self.seen.copy()
        bad[3, 5, 1] = np.nan
        self.refuses(3, "seen", audit, seen=bad)


if __name__ == "__main__":
    unittest.main()
