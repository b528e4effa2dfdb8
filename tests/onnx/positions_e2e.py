#!/usr/bin/python3
"""positions_e2e.py OUBLI: heads that answer once per position: tokens, CTC, segmentation. ONNX
Runtime runs the files before and after; NumPy is the oracle."""
import json
import os
import unittest

from onnx_case import OnnxCase, features_of, needs_runtime, oubli  # skips without python3-onnx

import numpy as np
import onnx
from onnx import TensorProto, helper
import model_parts as parts
import ort
from forget_e2e import normalization
from model_parts import B, D, K, P, W, ints, tensor

T, H, WIDE = 7, 4, 5  # of sequences, of maps
GONE = 1
KEPT = [j for j in range(K) if j != GONE]
node = helper.make_node


def values(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def sequence(length=T):
    return [values("x", ["n", length, D])]


def make(folder):
    """name: (nodes behind the features, initializers, outputs); all have the logits, l, too."""
    body, stored = parts.body()
    image_body, image_stored = parts.image_body()
    head = [node("MatMul", ["f", "W"], ["z"]), node("Add", ["z", "b"], ["l"])]
    wb = stored + [tensor("W", W.T), tensor("b", B)]
    conv = [node("Conv", ["m", "W", "b"], ["l"])]
    conv_wb = image_stored + [tensor("W", W[:, :, None, None]), tensor("b", B)]
    image = [values("x", ["n", 3, H, WIDE])]
    softmax = node("Softmax", ["l"], ["y"], axis=-1)
    tokens = [values("l", ["n", T, K]), values("y", ["n", T, K])]
    index = values("a", ["n", T], TensorProto.INT64)
    maps = [values("l", ["n", K, H, WIDE])]

    def add(name, nodes, initializers, outputs, inputs, opset=13):
        graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8
        )
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, os.path.join(folder, name + ".onnx"))

    arg = node("ArgMax", ["l"], ["a"], axis=2, keepdims=0)
    add("tokens", body + head + [softmax, arg], wb, tokens + [index], sequence())
    free = [values("l", ["n", "t", K]), values("y", ["n", "t", K])]
    add("tokens_free", body + head + [softmax], wb, free, sequence("t"))
    spelled = [
        node("ReduceMax", ["l"], ["most"], axes=[2]),
        node("Sub", ["l", "most"], ["less"]),
        node("Exp", ["less"], ["e"]),
        node("ReduceSum", ["e", "last"], ["sum"]),
        node("Div", ["e", "sum"], ["y"]),
    ]
    add("tokens_spelled", body + head + spelled, wb + [ints("last", [2])], tokens, sequence())
    rows = [node("Reshape", ["l", "s"], ["r"]), node("Softmax", ["r"], ["y"], axis=1)]
    rows_out = [values("l", ["n", "t", K]), values("y", ["rows", K])]
    add("tokens_rows", body + head + rows, wb + [ints("s", [-1, K])], rows_out, sequence("t"))
    # One row for each position of each sample, as TensorFlow writes a layer over a sequence.
    flat = [node("Reshape", ["f", "rows"], ["fr"]), node("Gemm", ["fr", "W", "b"], ["lr"])]
    back = [node("Reshape", ["lr", "back"], ["l"]), softmax, arg]
    for name, first in (("tokens_gemm", "n"), ("tokens_gemm_unknown", "m")):
        outputs = [values(v, [first, T, K]) for v in ("l", "y")]
        outputs.append(values("a", [first, T], TensorProto.INT64))
        numbers = wb + [ints("rows", [-1, P]), ints("back", [-1, T, K])]
        add(name, body + flat + back, numbers, outputs, sequence())
    add(
        "ctc",
        body
        + [
            node("Transpose", ["f"], ["ft"], perm=[1, 0, 2]),
            node("MatMul", ["ft", "W"], ["z"]),
            node("Add", ["z", "b"], ["l"]),
            node("LogSoftmax", ["l"], ["y"], axis=-1),
            node("ArgMax", ["l"], ["a"], axis=2, keepdims=0),
        ],
        wb,
        [
            values("l", [T, "n", K]),
            values("y", [T, "n", K]),
            values("a", [T, "n"], TensorProto.INT64),
        ],
        sequence(),
    )
    add(
        "columns",
        body
        + [
            node("Transpose", ["f"], ["ft"], perm=[0, 2, 1]),
            node("MatMul", ["Wr", "ft"], ["z"]),
            node("Add", ["z", "bc"], ["l"]),
            node("Softmax", ["l"], ["y"], axis=1),
        ],
        stored + [tensor("Wr", W), tensor("bc", B[:, None])],
        [values("l", ["n", K, T]), values("y", ["n", K, T])],
        sequence(),
    )
    add(
        "segmentation",
        image_body
        + conv
        + [node("Softmax", ["l"], ["y"], axis=1), node("ArgMax", ["l"], ["a"], axis=1, keepdims=1)],
        conv_wb,
        maps + [values("y", ["n", K, H, WIDE]), values("a", ["n", 1, H, WIDE], TensorProto.INT64)],
        image,
    )
    add(
        "segmentation_flat",
        image_body
        + conv
        + [
            node("Transpose", ["l"], ["t"], perm=[0, 2, 3, 1]),
            node("Reshape", ["t", "s"], ["r"]),
            node("Softmax", ["r"], ["y"], axis=-1),
        ],
        conv_wb + [ints("s", [0, -1, K])],
        maps + [values("y", ["n", H * WIDE, K])],
        image,
    )
    # Networks for segmentation enlarge their logits, to a size that may spell out the classes.
    up = node("Resize", ["l", "", "", "sizes"], ["u"], mode="linear")
    larger = maps + [values("u", ["n", K, 2 * H, 2 * WIDE])]
    larger.append(values("y", ["n", K, 2 * H, 2 * WIDE]))
    behind = [up, node("Softmax", ["u"], ["y"], axis=1)]
    computed = [
        node("Shape", ["l"], ["shape"]),
        node("Slice", ["shape", "zero", "two"], ["first"]),
        node("Concat", ["first", "side"], ["sizes"], axis=0),
    ]
    numbers = [ints("zero", [0]), ints("two", [2]), ints("side", [2 * H, 2 * WIDE])]
    add("resized", image_body + conv + computed + behind, conv_wb + numbers, larger, image)
    scaled = node("Resize", ["l", "", "scales"], ["u"], mode="cubic")
    scales = [tensor("scales", np.array([1, 1, 2, 2]))]
    add("resized_scales", image_body + conv + [scaled, behind[1]], conv_wb + scales, larger, image)
    one = [values(v.name, [2] + [K, 2 * H, 2 * WIDE]) for v in larger[1:]]
    one = [values("l", [2, K, H, WIDE])] + one
    add(
        "resized_fixed",
        image_body + conv + behind,
        conv_wb + [ints("sizes", [2, K, 2 * H, 2 * WIDE])],
        one,
        [values("x", [2, 3, H, WIDE])],
    )
    late = [node("Softmax", ["l"], ["p"], axis=1), node("Resize", ["p", "", "scales"], ["y"])]
    add("resized_softmax", image_body + conv + late, conv_wb + scales, larger[2:], image)
    # What merges the positions of a class, and is no mean.
    largest = node("ReduceMax", ["l"], ["y"], axes=[1], keepdims=0)
    out = [values("y", ["n", K])]
    add("max_of_positions", body + head + [largest], wb, out, sequence())
    mean = [node("Relu", ["l"], ["r"]), node("ReduceMean", ["r"], ["y"], axes=[1], keepdims=0)]
    add("mean_of_relu", body + head + mean, wb, out, sequence())
    mean = [softmax, node("ReduceMean", ["y"], ["q"], axes=[1], keepdims=0)]
    add("mean_of_softmax", body + head + mean, wb, [values("q", ["n", K])], sequence())
    other = [
        node("Transpose", ["l"], ["t"], perm=[0, 1, 3, 2]),
        node("ReduceMax", ["l"], ["most"], axes=[1]),
        node("Sub", ["t", "most"], ["y"]),
    ]
    square = [values("x", ["n", 3, H, H])]
    add("other_places", image_body + conv + other, conv_wb, [values("y", ["n", K, H, H])], square)
    flat = node("Flatten", ["l"], ["y"])
    add("flat", body + head + [flat], wb, [values("y", ["n", T * K])], sequence())
    # A mean over positions makes one answer of a sequence.
    mean = node("ReduceMean", ["l"], ["y"], axes=[1], keepdims=0)
    add("mean", body + head + [mean], wb, out, sequence())


def rows_of(name, array, numbers=False):
    """Answers x classes, sample by sample, or one number for each answer."""
    if name == "ctc":
        array = np.moveaxis(array, 1, 0)
    elif array.ndim == 4:  # a map
        array = np.moveaxis(array, 1, -1)
    elif name == "columns" and not numbers:
        array = np.moveaxis(array, 1, -1)
    return array.reshape(-1) if numbers else array.reshape(-1, array.shape[-1]).astype(np.float64)


def log_softmax(z):
    z = z - z.max(1, keepdims=True)
    return z - np.log(np.exp(z).sum(1, keepdims=True))


SEQUENCES = ("tokens", "tokens_free", "tokens_spelled", "tokens_rows", "tokens_gemm", "ctc")
SEQUENCES += ("columns",)
MAPS = ("segmentation", "segmentation_flat")


class Positions(OnnxCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        make(cls.folder)
        rng = np.random.default_rng(7)
        x = np.round(rng.standard_normal((90, T, D)) * 3).astype(np.float32)
        f = features_of(x)
        y = (f @ W.T + B).argmax(-1)
        assert np.bincount(y.reshape(-1), minlength=K).min() >= 20
        np.savez(cls.at("tokens.npz"), x=x, y=y)
        np.save(cls.at("token_f.npy"), f.astype(np.float32))
        np.save(cls.at("token_y.npy"), y)
        cls.tokens, cls.token_f, cls.token_y = x, f.reshape(-1, P), y
        cls.inputs = {name: x for name in SEQUENCES}
        cls.files = {name: cls.at("tokens.npz") for name in SEQUENCES}
        maps = (rng.standard_normal((60, 3, H, WIDE)) * 3).astype(np.float32)
        for name in MAPS:
            cls.inputs[name], cls.files[name] = maps, cls.at("maps.npz")
        try:
            logits = ort.Session(cls.at("segmentation.onnx")).run({"x": maps})["l"]
        except ImportError:
            return
        labels = logits.argmax(1)
        assert np.bincount(labels.reshape(-1), minlength=K).min() >= 20
        np.savez(cls.at("maps.npz"), x=maps, y=labels)

    def run_file(self, path, name):
        made = ort.Session(path).run({"x": self.inputs[name]})
        return {n: rows_of(name, array, n == "a") for n, array in made.items()}

    def receipt(self):
        return json.load(open(self.at("new.onnx.receipt.json")))

    def test_inspect_says_so(self):
        for name in SEQUENCES + MAPS:
            code, stdout, stderr = oubli("inspect", self.model(name))
            self.assertEqual(code, 0, (name, stderr))
            self.assertIn("answers once per position", " ".join(stdout.split()), name)
        code, stdout, _ = oubli("inspect", self.model("mean"))
        self.assertEqual(code, 0)
        self.assertNotIn("once per position", " ".join(stdout.split()))

    @needs_runtime
    def test_naive_cuts_a_column(self):
        for name in SEQUENCES + MAPS:
            old = self.run_file(self.model(name), name)
            self.forget(name, "--class", GONE, "--method", "naive")
            onnx.checker.check_model(onnx.load(self.at("new.onnx")), full_check=True)
            new = self.run_file(self.at("new.onnx"), name)
            np.testing.assert_array_equal(new["l"], old["l"][:, KEPT], err_msg=name)
            if "a" in new:
                np.testing.assert_array_equal(new["a"], old["l"][:, KEPT].argmax(1))
            run = self.receipt()["run_on_random_inputs"]
            self.assertEqual(run["outputs"]["l"], "the logits", name)
            self.assertIn("softmax of the logits", run["outputs"]["y"], name)
            self.assertEqual(run["outputs_not_compared"], [], name)
            self.verify(name)

    @needs_runtime
    def test_normalization_shifts_every_position_alike(self):
        for name in SEQUENCES + MAPS:
            old = self.run_file(self.model(name), name)
            text = self.forget(name, "--class", GONE, "--data", self.files[name])
            onnx.checker.check_model(onnx.load(self.at("new.onnx")), full_check=True)
            new = self.run_file(self.at("new.onnx"), name)
            naive = old["l"][:, KEPT]
            moved = new["l"] - naive
            # float32 in the runtime, before and after.
            slack = 1e-5 * np.abs(naive).max()
            self.assertLess(np.ptp(moved, axis=1).max(), slack, name)
            self.assertGreater(np.abs(moved).max(), 1e-2, name)
            want = log_softmax(naive)
            got = new["y"] if name == "ctc" else np.log(new["y"])
            clear = want > -60  # where float32 has not lost it
            np.testing.assert_allclose(got[clear], want[clear], atol=4 * slack, err_msg=name)
            # The mean of the forgotten class goes to the target, the others stay.
            labels = np.load(self.files[name])["y"].reshape(-1)
            means = np.stack([naive[labels == j].mean(0) for j in range(K)])
            after = np.stack([new["l"][labels == j].mean(0) for j in range(K)])
            target = means[GONE] - means[GONE].mean() + means[KEPT].mean()
            np.testing.assert_allclose(after[GONE], target, atol=20 * slack, err_msg=name)
            np.testing.assert_allclose(after[KEPT], means[KEPT], atol=20 * slack, err_msg=name)
            receipt = self.receipt()
            where = [H, WIDE] if name in MAPS else [T]
            self.assertEqual(receipt["run"]["positions_of_a_sample"], where)
            self.assertEqual(receipt["run"]["samples"], len(self.inputs[name]))
            self.assertEqual(receipt["run"]["accuracy_before"], 1)
            self.assertEqual(receipt["run"]["new_model"]["outputs_not_compared"], [], name)
            self.assertIn("positions", text)
            self.verify(name, "--data", self.files[name])

    def test_arrays_with_a_row_for_each_position(self):
        means = np.stack(
            [
                self.token_f[self.token_y.reshape(-1) == j].mean(axis=0, dtype=np.float64)
                for j in range(K)
            ]
        )
        w, b = normalization(W.astype(np.float64), B.astype(np.float64), means, GONE)
        np.save(self.at("flat_f.npy"), self.token_f)
        np.save(self.at("flat_y.npy"), self.token_y.reshape(-1))
        for kind in ("token", "flat"):
            arrays = ["--features", self.at(kind + "_f.npy"), "--labels", self.at(kind + "_y.npy")]
            self.forget("tokens", "--class", GONE, "--solver", "paper", *arrays)
            new_w, new_b = self.head(self.at("new.onnx"))
            np.testing.assert_allclose(new_w.T, w, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(new_b, b, rtol=1e-6, atol=1e-6)
        self.forget(
            "tokens", "--class", GONE, "--solver", "paper", "--means", self.means_file(arrays)
        )
        again, _ = self.head(self.at("new.onnx"))
        np.testing.assert_array_equal(again, new_w)

    def means_file(self, arrays):
        path = self.at("means.npz")
        code, _, stderr = oubli("means", self.model("tokens"), *arrays, "-o", path, "--force")
        self.assertEqual(code, 0, stderr)
        return path

    @needs_runtime
    def test_positions_without_a_label_do_not_count(self):
        left_out = np.random.default_rng(2).random(self.token_y.shape) < 0.3
        some = np.where(left_out, np.where(self.token_y % 2, -1, -100), self.token_y)
        np.savez(self.at("some.npz"), x=self.tokens, y=some)
        np.save(self.at("some_y.npy"), some)
        kept = ~left_out.reshape(-1)
        labels = self.token_y.reshape(-1)
        means = np.stack(
            [self.token_f[kept & (labels == j)].mean(axis=0, dtype=np.float64) for j in range(K)]
        )
        w, b = normalization(W.astype(np.float64), B.astype(np.float64), means, GONE)
        for words in (
            ["--data", self.at("some.npz")],
            ["--features", self.at("token_f.npy"), "--labels", self.at("some_y.npy")],
        ):
            text = self.forget("tokens", "--class", GONE, "--solver", "paper", *words)
            said = "%d of %d rows have no label" % (left_out.sum(), left_out.size)
            self.assertIn(said, " ".join(text.split()))
            new_w, new_b = self.head(self.at("new.onnx"))
            np.testing.assert_allclose(new_w.T, w, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(new_b, b, rtol=1e-5, atol=1e-5)
            calibration = self.receipt()["calibration"]
            self.assertEqual(calibration["left_out_without_label"], left_out.sum())
            self.verify("tokens", *words)
        np.savez(self.at("none.npz"), x=self.tokens, y=np.full_like(self.token_y, -100))
        text = self.forget("tokens", "--class", GONE, "--data", self.at("none.npz"), code=3)
        self.assertIn("no label", text)

    @needs_runtime
    def test_labels_of_the_wrong_shape(self):
        for y, reason in (
            (self.token_y[:, :-1], "6 label(s) for each sample"),
            (self.token_y[:, 0], "one label(s) for each sample"),
            (self.token_y[:, :, None].repeat(2, 2), "7 x 2 label(s) for each sample"),
            (self.token_y[:-1], "wanted as many rows of x as labels"),
            (self.token_y * 2, "wanted 0 to 4"),
        ):
            np.savez(self.at("wrong.npz"), x=self.tokens, y=y)
            text = self.forget("tokens", "--class", GONE, "--data", self.at("wrong.npz"), code=3)
            self.assertIn(reason, " ".join(text.split()))
        # One label for each position of a model that answers once.
        text = self.forget("mean", "--class", GONE, "--data", self.at("tokens.npz"), code=3)
        self.assertIn("answers one time(s)", " ".join(text.split()))
        wrong = ["--features", self.at("token_f.npy"), "--labels", self.at("y.npy")]
        self.forget("tokens", "--class", GONE, *wrong, code=3)
        np.save(self.at("turned_y.npy"), self.token_y.T)
        np.save(self.at("flat_f.npy"), self.token_f)
        wrong = ["--features", self.at("flat_f.npy"), "--labels", self.at("turned_y.npy")]
        self.assertIn("wanted a vector", self.forget("tokens", "--class", GONE, *wrong, code=3))

    @needs_runtime
    def test_labels_that_mean_something_else_are_noticed(self):
        for name in ("tokens", "segmentation"):
            data = dict(np.load(self.files[name]))
            swapped = np.array([0, 2, 1, 3, 4])[data["y"]]
            np.savez(self.at("swapped.npz"), x=data["x"], y=swapped)
            self.forget(name, "--class", GONE, "--data", self.at("swapped.npz"), code=4)

    @needs_runtime
    def test_rows_of_nobody_knows_which_sample(self):
        data = ["--data", self.at("tokens.npz")]
        text = self.forget("tokens_gemm_unknown", "--class", GONE, *data, code=4)
        self.assertIn("which of its answers are whose is not known", " ".join(text.split()))
        arrays = ["--features", self.at("token_f.npy"), "--labels", self.at("token_y.npy")]
        self.forget("tokens_gemm_unknown", "--class", GONE, *arrays)
        run = self.receipt()["run_on_random_inputs"]
        self.assertEqual(run["outputs"]["l"], "the logits")

    @needs_runtime
    def test_a_mean_over_positions_is_one_answer(self):
        old = ort.Session(self.model("mean")).run({"x": self.tokens})["y"].astype(np.float64)
        np.savez(self.at("mean.npz"), x=self.tokens, y=old.argmax(1))
        words = ["--data", self.at("mean.npz")] if np.ptp(old.argmax(1)) else []
        self.forget("mean", "--class", GONE, "--method", "centre", *words)
        new = ort.Session(self.at("new.onnx")).run({"x": self.tokens})["y"].astype(np.float64)
        moved = new - old[:, KEPT]
        self.assertLess(np.ptp(moved, axis=1).max(), 1e-5 * np.abs(old).max())

    @needs_runtime
    def test_resized_logits(self):
        maps = self.inputs["segmentation"][:2]
        for name in ("resized", "resized_scales", "resized_fixed"):
            old = ort.Session(self.model(name)).run({"x": maps})
            self.forget(name, "--class", GONE, "--method", "naive")
            onnx.checker.check_model(onnx.load(self.at("new.onnx")), full_check=True)
            new = ort.Session(self.at("new.onnx")).run({"x": maps})
            for value in ("l", "u"):
                np.testing.assert_array_equal(new[value], old[value][:, KEPT], err_msg=name)
            self.verify(name)
            self.forget(name, "--class", GONE, "--data", self.at("maps.npz"))
            new = ort.Session(self.at("new.onnx")).run({"x": maps})
            for value in ("l", "u"):
                moved = new[value] - old[value][:, KEPT]
                self.assertLess(np.ptp(moved, axis=1).max(), 1e-4 * np.abs(old["l"]).max(), name)
            want = old["y"][:, KEPT] / old["y"][:, KEPT].sum(1, keepdims=True)
            clear = old["y"][:, KEPT].sum(1, keepdims=True) > 1e-3
            np.testing.assert_allclose(new["y"] * clear, want * clear, atol=1e-3, err_msg=name)
            self.verify(name, "--data", self.at("maps.npz"))

    def test_what_merges_positions_is_refused(self):
        for name, reason in (
            ("resized_softmax", "non-linear step stands between the last layer and the pooling or"),
            ("max_of_positions", "reduces over something else than the classes or all positions"),
            ("mean_of_relu", "non-linear step stands between the last layer and the pooling"),
            ("mean_of_softmax", "non-linear step stands between the last layer and the pooling"),
            ("other_places", "combines the answers of different positions"),
            ("flat", "mixes the classes with positions"),
        ):
            text = self.forget(name, "--class", GONE, "--method", "naive", code=4)
            self.assertIn(reason, " ".join(text.split()), name)


if __name__ == "__main__":
    unittest.main()
