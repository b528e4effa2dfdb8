"""oubli.forget and oubli.Means: the program's numbers, any layout, bad input."""

import importlib.util
import json
import os
import pickle
import unittest

import numpy as np

import oubli
from support import Case, run, toy


class Forget(Case):
    def program(self, W, b, x, y, *words):
        """What the program makes of the same arrays."""
        arrays = {"W": W} if b is None else {"W": W, "b": b}
        np.savez("head.npz", **arrays)
        np.save("x.npy", x)
        np.save("y.npy", y)
        run(
            "forget",
            "head.npz",
            "--features",
            "x.npy",
            "--labels",
            "y.npy",
            *words,
            "-o",
            "new.npz",
            "--force",
        )
        with np.load("new.npz") as new:
            return {name: new[name] for name in new.files}

    def test_numbers_are_the_programs(self):
        for dtype in ("float16", "float32", "float64"):
            W, b, x, y = toy(dtype=dtype)
            for method in oubli.methods:
                if method == "custom":
                    continue
                with self.subTest(dtype=dtype, method=method):
                    new = oubli.forget(
                        W, b, features=x, labels=y, classes=[2], method=method, seed=7
                    )
                    expected = self.program(
                        W, b, x, y, "--class", "2", "--method", method, "--seed", "7"
                    )
                    self.assertSame(new.W, expected["W"])
                    self.assertSame(new.b, expected["b"])

    def test_report_is_the_programs_dry_run(self):
        W, b, x, y = toy()
        new = oubli.forget(W, b, features=x, labels=y, classes=[1, 3])
        np.savez("head.npz", W=W, b=b)
        np.save("x.npy", x)
        np.save("y.npy", y)
        expected = json.loads(
            run(
                "forget",
                "head.npz",
                "--class",
                1,
                "--class",
                3,
                "--features",
                "x.npy",
                "--labels",
                "y.npy",
                "--dry-run",
                "--json",
            )
        )
        found = new.report.to_dict()
        for fields in (expected, found):
            fields.pop("dry_run", None)
            fields["calibration"].pop("data_files")  # arrays are in no file
            for name in ("name", "format"):
                fields["head"].pop(name)
        self.assertEqual(found, expected)
        self.assertEqual(new.report.kept, [0, 2])
        self.assertIn("forgotten", repr(new.report))
        self.assertGreater(len(str(new.report)), 100)

    def test_custom_target_and_names(self):
        W, b, x, y = toy()
        z = np.arange(3.0)
        new = oubli.forget(
            W,
            b,
            features=x,
            labels=y,
            classes=["c"],
            method="custom",
            target=z,
            class_names=list("abcd"),
        )
        mean = x[y == 2].astype(float).mean(0)
        # eps of float32 times what the sums can be; the method puts the mean exactly on z.
        np.testing.assert_allclose(new.W.astype(float) @ mean + new.b, z, atol=1e-4)
        self.refuses(
            2, "go together", oubli.forget, W, b, features=x, labels=y, classes=[2], target=z
        )

    def test_explain(self):
        W, b, x, y = toy()
        words = dict(features=x, labels=y, classes=[2], method="explained")
        new = oubli.forget(W, b, explain=0.3, **words)
        expected = self.program(
            W, b, x, y, "--class", "2", "--method", "explained", "--explain", "0.3"
        )
        self.assertSame(new.W, expected["W"])
        self.assertFalse(np.array_equal(new.W, oubli.forget(W, b, **words).W))
        self.refuses(2, "", oubli.forget, W, b, **{**words, "explain": -1.0})
        self.refuses(
            2, "go together", oubli.forget, W, b, **{**words, "method": "naive"}, explain=0.3
        )

    def test_layouts_and_kinds_of_memory(self):
        W, b, x, y = toy()
        expected = oubli.forget(W, b, features=x, labels=y, classes=[2])
        read_only = x.copy()
        read_only.flags.writeable = False
        wide = np.zeros((x.shape[0], 2 * x.shape[1]), "float32")
        wide[:, ::2] = x
        for other in (
            np.asfortranarray(x),
            read_only,
            wide[:, ::2],
            x[::-1].copy()[::-1],  # rows from the last to the first
            np.broadcast_to(x[None], (2, *x.shape))[1],
            x.astype(">f4"),
        ):
            new = oubli.forget(W, b, features=other, labels=y, classes=[2])
            self.assertSame(new.W, expected.W)
        for other in (list(map(int, y)), y.astype("uint8"), y.astype(">i8"), y[:, None]):
            self.assertSame(oubli.forget(W, b, features=x, labels=other, classes=[2]).W, expected.W)
        # A layer that lies in columns is used as it lies: sums come in another order.
        for new in (
            oubli.forget(np.asfortranarray(W), b, features=x, labels=y, classes=[2]),
            oubli.forget(W[:, :], b[::1], features=x, labels=y, classes=[2]),
        ):
            np.testing.assert_allclose(new.W, expected.W, rtol=0, atol=2e-6)
            self.assertEqual(new.W.shape, (3, 8))
        turned = oubli.forget(W.T.copy(), b, features=x, labels=y, classes=[2], transposed=True)
        np.testing.assert_allclose(turned.W.T, expected.W, rtol=0, atol=2e-6)

    def test_dlpack(self):
        class Other:
            """An array of nobody we know."""

            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **words):
                return self.array.__dlpack__(**words)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        W, b, x, y = toy()
        expected = oubli.forget(W, b, features=x, labels=y, classes=[0])
        new = oubli.forget(Other(W), Other(b), features=Other(x), labels=Other(y), classes=[0])
        self.assertSame(new.W, expected.W)
        self.assertSame(new.b, expected.b)
        elsewhere = Other(x)
        elsewhere.__class__.__dlpack_device__ = lambda self: (2, 0)
        self.refuses(
            2,
            "features: is on another device",
            oubli.forget,
            W,
            b,
            features=elsewhere,
            labels=y,
            classes=[0],
        )

    def test_bfloat16_of_ml_dtypes(self):
        """As a dtype of NumPy; torch_test.py has torch's."""
        if importlib.util.find_spec("ml_dtypes") is None:
            self.skipTest("ml_dtypes is not installed")
        import ml_dtypes

        W, b, x, y = toy()
        half, bias = W.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)
        new = oubli.forget(half, bias, classes=[1], method="naive")
        self.assertSame(new.W, half[[0, 2, 3]])
        self.assertSame(new.b, bias[[0, 2, 3]])
        samples = x.astype(ml_dtypes.bfloat16)
        new = oubli.forget(half, bias, features=samples, labels=y, classes=[1])
        wide = [array.astype("float32") for array in (half, bias, samples)]
        exact = oubli.forget(*wide[:2], features=wide[2], labels=y, classes=[1])
        self.assertEqual(new.W.dtype, half.dtype)
        np.testing.assert_allclose(new.W.astype("f4"), exact.W, rtol=2.0**-8 * 1.001, atol=1e-6)

    def test_two_requests_without_data(self):
        W, b, x, y = toy(classes=5)
        first = oubli.forget(W, b, features=x, labels=y, classes=[4])
        second = oubli.forget(first.W, first.b, means=first.report.means, classes=[0])
        kept = y < 4
        again = oubli.forget(first.W, first.b, features=x[kept], labels=y[kept], classes=[0])
        self.assertSame(second.W, again.W)
        self.assertSame(second.b, again.b)
        self.assertIsNone(second.report.leaks)
        self.assertIsNotNone(again.report.leaks)

    def test_inputs_are_not_changed(self):
        given = toy()
        before = [array.copy() for array in given]
        W, b, x, y = given
        oubli.forget(W, b, features=x, labels=y, classes=[2])
        with self.assertRaises(oubli.Error):
            oubli.forget(W, b, features=x, labels=y + 1, classes=[2])
        for array, old in zip(given, before):
            self.assertSame(array, old)


class BadInput(Case):
    def test_one_clear_exception_each(self):
        W, b, x, y = toy()
        bad = x.copy()
        bad[17, 3] = np.nan
        forget = lambda W=W, b=b, x=x, y=y, classes=(2,), **more: oubli.forget(  # noqa: E731
            W, b, features=x, labels=y, classes=classes, **more
        )
        cases = [
            (3, "features: 7 columns, but the model has 8 features", dict(x=x[:, :7])),
            (3, "labels: 399 labels for the 400 samples of features", dict(y=y[:-1])),
            (3, "features: 1 dimensions; wanted 2", dict(x=x[0])),
            (3, "W: 3 dimensions; wanted 2", dict(W=W[None])),
            (3, "b: ", dict(b=b[:-1])),
            (3, "features: int64; wanted one of float16", dict(x=x.astype("int64"))),
            (3, "complex128; wanted numbers", dict(x=x.astype(complex))),
            (3, "W: elements of type text", dict(W=W.astype(str))),
            (3, "features: elements of type object", dict(x=x.astype(object))),
            (3, "row 17", dict(x=bad)),
            (3, "W", dict(W=np.where(W == W[1, 1], np.inf, W).astype("float32"))),
            (3, "labels: label 4 at position 3", dict(y=y + 1)),
            (3, "labels: label -1", dict(y=y - 1)),
            (3, "labels: text; wanted the index", dict(y=np.array(list("abcd"))[y])),
            (3, "labels: text; wanted the index", dict(y=np.array(list("abcd"), object)[y])),
            (3, "labels: int64 [400, 4]", dict(y=np.eye(4, dtype=int)[y])),
            (3, "features: float128; wanted one of", dict(x=x.astype("longdouble"))),
            (3, "features: no sample of 4", dict(x=x[:0], y=y[:0])),
            (2, "explain: 'much'", dict(method="explained", explain="much")),
            (3, "labels: float64; wanted integers", dict(y=y.astype(float))),
            (3, "labels: bool; wanted integers", dict(y=y == 1)),
            (3, "no array", dict(x=[[1.0, 2.0], [1.0]])),
            (3, "a masked array", dict(x=np.ma.masked_invalid(bad))),
            (2, "classes: empty", dict(classes=[])),
            (2, "classes: -1", dict(classes=[-1])),
            (2, "classes: True", dict(classes=[True])),
            (2, "classes: 1.5", dict(classes=[1.5])),
            (2, "4", dict(classes=[4])),
            (2, "cat", dict(classes=["cat"])),
            (2, "", dict(classes=[1, 1])),
            (4, "", dict(classes=[0, 1, 2])),
            (2, "did you mean", dict(method="normalisation")),
            (2, "solver", dict(solver="best")),
            (2, "features: whose samples", dict(y=None)),
            (2, "seed: -1", dict(seed=-1)),
            (2, "seed", dict(seed=2**64)),
            (2, "samples: 0", dict(samples=0)),
            (2, "random_samples", dict(random_samples=True)),
            (2, "class_names", dict(class_names=["a", "b"])),
            (2, "class_names: 'abcd'", dict(class_names="abcd")),
            (2, "progress", dict(progress=3)),
            (3, "no sample of", dict(x=x[y != 0], y=y[y != 0])),
        ]
        for code, words, change in cases:
            with self.subTest(words=words, change=list(change)):
                self.refuses(code, words, forget, **change)
        self.refuses(2, "labels of what", oubli.forget, W, b, labels=y, classes=[1])
        self.refuses(
            2, "give one of them", oubli.forget, W, b, features=x, logits=x, labels=y, classes=[1]
        )
        with self.assertRaises(TypeError):  # by keyword only
            oubli.forget(W, b, x, y, [1])

    def test_error_is_an_exception_like_others(self):
        error = self.refuses(2, "classes: empty", oubli.forget, np.eye(3), classes=[])
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(again), again.code), (str(error), error.code))
        self.assertIs(error.code, oubli.Code.USAGE)


class Means(Case):
    def test_batches_merged_and_saved_are_the_programs(self):
        W, b, x, y = toy(samples=1000)
        np.savez("head.npz", W=W, b=b)
        np.save("x.npy", x)
        np.save("y.npy", y)
        run("means", "head.npz", "--features", "x.npy", "--labels", "y.npy", "-o", "program.npz")
        means = oubli.Means(classes=4)
        for i in range(0, 1000, 130):
            means.update(x[i : i + 130], y[i : i + 130])
        means.save("ours.npz", W=W, b=b)
        with open("program.npz", "rb") as program, open("ours.npz", "rb") as ours:
            self.assertEqual(program.read(), ours.read())
        np.testing.assert_array_equal(means.counts, np.bincount(y))
        exact = np.stack([x[y == j].astype(float).mean(0) for j in range(4)])
        np.testing.assert_allclose(means.means, exact, rtol=1e-12, atol=1e-13)
        parts = [oubli.Means(classes=4) for _ in range(2)]
        parts[0].update(x[:300], y[:300])
        parts[1].update(x[300:], y[300:])
        parts[0].merge(parts[1])
        np.testing.assert_allclose(parts[0].means, exact, rtol=1e-12, atol=1e-13)
        self.assertAlmostEqual(parts[0].within_variance, means.within_variance, places=12)

    def test_read_means_go_on(self):
        W, b, x, y = toy()
        means = oubli.Means(classes=4, class_names=list("abcd"))
        means.update(x[:200], y[:200])
        means.save("means.npz")
        again = oubli.Means.load("means.npz")
        self.assertEqual(again.class_names, list("abcd"))
        again.update(x[200:], y[200:])
        means.update(x[200:], y[200:])
        self.assertSame(again.means, means.means)
        self.assertEqual(again.within_variance, means.within_variance)
        for one in (again, means):
            one.save("means.npz", force=True)
            with np.load("means.npz") as file:
                scatter = file["feature_scatter"]
            # Single precision, rounded once for each of a hundred samples.
            exact = [((x[y == j].astype(float) - means.means[j]) ** 2).sum(0) for j in range(4)]
            np.testing.assert_allclose(scatter, exact, rtol=100 * 2.0**-24)
        old = oubli.Means.load("means.npz")
        part = oubli.Means(classes=4, class_names=list("abcd"))
        part.update(x, y)
        part.merge(old)
        self.assertEqual(part.counts.sum(), 800)
        new = oubli.forget(W, b, means=again, classes=["c"])
        expected = oubli.forget(W, b, features=x, labels=y, classes=[2])
        self.assertSame(new.W, expected.W)

    def test_a_batch_counts_whole_or_not_at_all(self):
        W, b, x, y = toy()
        means = oubli.Means(classes=4)
        means.update(x, y)
        before = means.means
        bad = x.copy()
        bad[-1, -1] = np.inf
        self.refuses(3, "x: ", means.update, bad, y)
        self.refuses(3, "y: label 9", means.update, x, np.where(y == 3, 9, y))
        self.refuses(3, "7 columns", means.update, x[:, :7], y)
        self.refuses(3, "labels for", means.update, x[1:], y)
        self.assertSame(means.means, before)
        self.assertEqual(means.counts.sum(), 400)
        self.refuses(2, "the same object", means.merge, means)
        self.refuses(2, "nothing was gathered", oubli.Means(classes=4).save, "none.npz")
        self.assertFalse(os.path.exists("none.npz"))
        means.save("there.npz")
        self.refuses(2, "there.npz", means.save, "there.npz")
        means.save("there.npz", force=True)
        self.refuses(6, "no-such", oubli.Means.load, "no-such.npz")
        self.assertIn("no samples", repr(oubli.Means(classes=4)))

    def test_half_precision(self):
        W, b, x, y = toy(dtype="float16")
        means = oubli.Means(classes=4)
        means.update(x, y)
        exact = np.stack([x[y == j].astype(float).mean(0) for j in range(4)])
        np.testing.assert_allclose(means.means, exact, rtol=1e-12, atol=1e-13)


if __name__ == "__main__":
    unittest.main()
