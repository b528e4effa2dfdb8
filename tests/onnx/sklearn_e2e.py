#!/usr/bin/python3
"""sklearn_e2e.py OUBLI: scikit-learn's classifiers in ONNX files. scikit-learn says what the old
file must give, ONNX Runtime what both give."""
import unittest
import warnings

from onnx_case import OnnxCase, needs_runtime, oubli  # first: skips where python3-onnx is missing

import numpy as np
import onnx
from onnx import TensorProto, helper
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import sklearn_graphs as graphs

try:
    import ort
except ImportError:
    ort = None

warnings.simplefilter("ignore")
WORDS = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
ODD = np.array([30, 1, 42, 13, 4, 75, 96, 7, 18, 9])  # labels that do not count


class Sklearn(OnnxCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        digits = load_digits()
        cls.images = (digits.data / 16).astype(np.float32)
        cls.digit = digits.target
        cls.names = {"counted": np.arange(10), "words": WORDS, "odd": ODD}

    def write(self, name, content):
        onnx.checker.check_model(onnx.load_model_from_string(content))
        with open(self.model(name), "wb") as file:
            file.write(content)

    def data(self, fitted, dtype=np.float32):
        """Labels are indices of the model's classes."""
        y = np.searchsorted(fitted.classes_, self.labels)
        np.savez(self.at("digits.npz"), x=self.images.astype(dtype), y=y)
        return ["--data", self.at("digits.npz")]

    def fit(self, estimator, kind):
        self.labels = self.names[kind][self.digit]
        return estimator.fit(self.images, self.labels)

    def outputs(self, path, dtype=np.float32):
        return ort.Session(path).run({"x": self.images.astype(dtype)})

    def check(self, name, fitted, gone, scores, tolerance, dtype=np.float32):
        """The new file's labels, probabilities and maps are those of `scores`, samples x classes,
        with the columns `gone` left out."""
        onnx.checker.check_model(onnx.load(self.at("new.onnx")))
        old, new = self.outputs(self.model(name), dtype), self.outputs(self.at("new.onnx"), dtype)
        np.testing.assert_array_equal(
            old["label"].ravel().astype(str), fitted.predict(self.images).astype(str)
        )
        kept = np.delete(fitted.classes_, gone)
        want = np.delete(scores, gone, 1)
        got = new["probabilities"].astype(float)
        np.testing.assert_allclose(got, want, atol=tolerance * np.abs(want).max())
        # Where two scores are as near to each other as rounding, either may be the label.
        top = np.sort(want, 1)
        clear = top[:, -1] - top[:, -2] > 10 * tolerance * np.abs(want).max()
        self.assertGreater(clear.mean(), 0.9)
        np.testing.assert_array_equal(
            new["label"].ravel()[clear].astype(str), kept[want.argmax(1)][clear].astype(str)
        )
        if "maps" in new:
            self.assertEqual({str(k) for k in new["maps"][0]}, {str(k) for k in kept})
            maps = np.array([[row[k] for k in kept.tolist()] for row in new["maps"]])
            np.testing.assert_array_equal(maps.astype(np.float32), new["probabilities"])

    @needs_runtime
    def test_multinomial_logistic_regression(self):
        for kind in self.names:
            fitted = self.fit(LogisticRegression(max_iter=60), kind)
            self.write("logistic", graphs.linear(fitted))
            p = fitted.predict_proba(self.images)
            np.testing.assert_allclose(
                self.outputs(self.model("logistic"))["probabilities"], p, atol=1e-5
            )
            for gone in ([4], [0, 9]):
                words = ["name:%s" % fitted.classes_[c] for c in gone]
                if kind == "counted":
                    words = gone
                words = [w for word in words for w in ("--class", word)]
                self.forget("logistic", *words, *self.data(fitted))
                left = p.copy()
                left[:, gone] = 0
                left /= left.sum(1, keepdims=True)
                self.check("logistic", fitted, gone, left, 1e-4)
                self.verify("logistic")

    @needs_runtime
    def test_a_scaler_before_and_no_maps(self):
        scaler = StandardScaler().fit(self.images)
        scaler.scale_[scaler.scale_ == 0] = 1
        self.labels = WORDS[self.digit]
        fitted = LogisticRegression(max_iter=60).fit(scaler.transform(self.images), self.labels)
        self.write("scaled", graphs.linear(fitted, before=scaler, zipped=False))
        self.forget("scaled", "--class", "two", *self.data(fitted))
        self.assertNotIn("two", open(self.at("new.onnx"), "rb").read().decode("latin-1"))
        c = fitted.classes_.tolist().index("two")
        left = np.delete(fitted.predict_proba(scaler.transform(self.images)), c, 1)
        got = self.outputs(self.at("new.onnx"))["probabilities"]
        np.testing.assert_allclose(got, left / left.sum(1, keepdims=True), atol=1e-4)

    @needs_runtime
    def test_one_vs_rest_shows_a_shift(self):
        fitted = self.fit(LogisticRegression(multi_class="ovr", max_iter=60), "words")
        self.write("ovr", graphs.linear(fitted))
        data = self.data(fitted)
        self.assertIn("a non-linear step", self.forget("ovr", "--class", 3, *data, code=4))
        self.assertIn("LinearClassifier", "".join(oubli("inspect", self.model("ovr"))[1:]))
        self.forget("ovr", "--class", 3, "--method", "naive", *data)
        sigmoid = 1 / (1 + np.exp(-fitted.decision_function(self.images)))
        sigmoid[:, 3] = 0
        self.check("ovr", fitted, [3], sigmoid / sigmoid.sum(1, keepdims=True), 1e-4)

    @needs_runtime
    def test_ridge_and_linear_svm_give_scores(self):
        for estimator in (
            RidgeClassifier(),
            LinearSVC(max_iter=200),
            LinearSVC(fit_intercept=False),
        ):
            for kind in self.names:
                fitted = self.fit(estimator, kind)
                self.write("scores", graphs.linear(fitted, zipped=kind != "words"))
                data = self.data(fitted)
                self.assertIn("scores", self.forget("scores", "--class", "index:6", *data, code=4))
                self.forget("scores", "--class", "index:6", "--method", "naive", *data)
                self.check("scores", fitted, [6], fitted.decision_function(self.images), 1e-4)

    @needs_runtime
    def test_double_precision_and_hidden_layers(self):
        for kind in self.names:
            fitted = self.fit(LogisticRegression(max_iter=60), kind)
            for zipped in (True, False):
                weights = [(fitted.coef_.T, fitted.intercept_)]
                content = graphs.layers(weights, fitted.classes_, np.float64, zipped)
                self.write("double", content)
                words = ["--class", "index:2", *self.data(fitted, np.float64)]
                self.forget("double", *words)
                left = fitted.predict_proba(self.images)
                left[:, 2] = 0
                left /= left.sum(1, keepdims=True)
                self.check("double", fitted, [2], left, 1e-5, np.float64)
            fitted = self.fit(MLPClassifier((24,), max_iter=60, random_state=0), kind)
            weights = list(zip(fitted.coefs_, fitted.intercepts_))
            self.write("mlp", graphs.layers(weights, fitted.classes_, np.float32))
            self.forget("mlp", "--class", "index:5", *self.data(fitted))
            left = fitted.predict_proba(self.images)
            left[:, 5] = 0
            self.check("mlp", fitted, [5], left / left.sum(1, keepdims=True), 1e-4)

    @needs_runtime
    def test_label_encoders_lose_the_entry(self):
        node = helper.make_node
        fitted = self.fit(LogisticRegression(max_iter=60), "odd")
        order = fitted.classes_.tolist()
        words = ["n%d" % c for c in order]
        text_out = [helper.make_tensor_value_info("text", TensorProto.STRING, [None])]
        # Behind labels entries are found by label, and an entry of no class stays.
        by_label = node("LabelEncoder", ["raw_label"], ["text"], domain=graphs.ML,
                        keys_int64s=order[::-1] + [1000], values_strings=words[::-1] + ["none"],
                        default_string="?")  # fmt: skip
        self.write("encoded", graphs.linear(fitted, more=[by_label], more_outputs=text_out, ml=2))
        self.forget("encoded", "--class", "n42", *self.data(fitted))
        made = onnx.load(self.at("new.onnx")).graph.node[-1]
        found = {a.name: list(a.ints) + [s.decode() for s in a.strings] for a in made.attribute}
        self.assertEqual(len(found["keys_int64s"]), 10)
        self.assertNotIn(42, found["keys_int64s"])
        self.assertNotIn("n42", found["values_strings"])
        new = self.outputs(self.at("new.onnx"))
        self.assertEqual(["n%d" % c for c in new["label"]], new["text"].tolist())
        # Behind an ArgMax they are found by number, and counted anew.
        weights = [(fitted.coef_.T, fitted.intercept_)]
        by_number = node("LabelEncoder", ["best"], ["text"], domain=graphs.ML,
                         keys_int64s=list(range(10)), values_strings=words)  # fmt: skip
        text_out = [helper.make_tensor_value_info("text", TensorProto.STRING, [None, 1])]
        content = graphs.layers(
            weights, fitted.classes_, np.float32, True, [by_number], text_out, ml=2
        )
        self.write("counted", content)
        self.forget("counted", "--class", "n42", *self.data(fitted))
        new = self.outputs(self.at("new.onnx"))
        self.assertEqual(["n%d" % c for c in new["label"]], new["text"].ravel().tolist())
        self.assertEqual(len({*new["text"].ravel()}), 9)

    @needs_runtime
    def test_two_classes_may_be_left(self):
        fitted = self.fit(LogisticRegression(max_iter=60), "counted")
        some = self.digit < 3
        fitted = LogisticRegression(max_iter=60).fit(self.images[some], WORDS[self.digit[some]])
        self.images, self.digit = self.images[some], self.digit[some]
        self.labels = WORDS[self.digit]
        try:
            self.write("three", graphs.linear(fitted))
            self.forget("three", "--class", "one", *self.data(fitted))
            left = fitted.predict_proba(self.images)
            left[:, 0] = 0
            self.check("three", fitted, [0], left / left.sum(1, keepdims=True), 1e-4)
        finally:
            del self.images, self.digit

    def test_what_cannot_be_cut_is_refused(self):
        fitted = self.fit(LogisticRegression(max_iter=20), "words")
        whole = onnx.load_model_from_string(graphs.linear(fitted))

        def changed(change):
            copy = onnx.ModelProto()
            copy.CopyFrom(whole)
            change({a.name: a for n in copy.graph.node for a in n.attribute}, copy.graph)
            with open(self.model("changed"), "wb") as file:
                file.write(copy.SerializeToString())
            code, stdout, stderr = oubli("inspect", self.model("changed"))
            self.assertEqual(code, 4, stdout + stderr)
            return stderr

        def drop_label(attributes, graph):
            del graph.node[-1].attribute[0].strings[0]

        def drop_coefficient(attributes, graph):
            del attributes["coefficients"].floats[-1]

        def fewer_features(attributes, graph):
            graph.input[0].type.tensor_type.shape.dim[1].dim_value = 32

        def one_row(attributes, graph):
            del attributes["intercepts"].floats[1:]

        self.assertIn("9 labels, wanted one for each of 10", changed(drop_label))
        self.assertIn("not equally many", changed(drop_coefficient))
        self.assertIn("64 coefficients for each class and reads 32", changed(fewer_features))
        self.assertIn("two classes are kept as one row", changed(one_row))

    def test_votes_of_pairs_are_refused_with_the_reason(self):
        fitted = SVC(kernel="linear").fit(self.images[:300], self.digit[:300])
        votes = helper.make_node("SVMClassifier", ["x"], ["label", "scores"], domain=graphs.ML,
            coefficients=fitted.dual_coef_.flatten().tolist(),
            support_vectors=fitted.support_vectors_.flatten().tolist(),
            rho=fitted.intercept_.tolist(), kernel_type="LINEAR", kernel_params=[0.0, 0.0, 3.0],
            vectors_per_class=fitted.n_support_.tolist(), classlabels_ints=list(range(10)),
        )  # fmt: skip
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 64])
        label = helper.make_tensor_value_info("label", TensorProto.INT64, [None])
        with open(self.model("votes"), "wb") as file:
            file.write(graphs.model([votes], [x], [label]))
        code, _, stderr = oubli("inspect", self.model("votes"))
        self.assertEqual(code, 4)
        self.assertIn("pairs of classes vote", stderr)


if __name__ == "__main__":
    unittest.main()
