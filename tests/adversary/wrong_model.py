#!/usr/bin/python3
"""wrong_model.py OUBLI: a wrong model must not pass (NumPy and python3-onnx are the oracles)."""
import json
import os
import unittest

from adversary import B, Case, D, K, P, W, W1, classifier, external, run_body, tensor

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KEPT = [0, 2, 3, 4]
X = np.random.default_rng(1).standard_normal((20, D)).astype(np.float32)


def value(name, shape=None, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


class SharedBytes(Case):
    """Promise: bytes of external data that anything else refers to are never touched."""

    def model(self, readers, head, extra=()):
        """W stands at byte 64 of w.bin; `readers` use the same bytes under another name."""
        with open(self.at("w.bin"), "wb") as file:
            file.write(bytes(64) + W.tobytes() + bytes(16))
        nodes = [
            *readers,
            helper.make_node("MatMul", ["x", "W1"], ["h"]),
            helper.make_node("Relu", ["h"], ["f"]),
            *head,
        ]
        initializers = [tensor("W1", W1), tensor("b", B), external("W", [K, P], "w.bin", 64)]
        return classifier(nodes, [*initializers, *extra], [value("y", ["n", K]), value("tied", [])])

    GEMM = [helper.make_node("Gemm", ["f", "W", "b"], ["y"], transB=1)]
    BEHIND = {
        "direct": GEMM,
        "Identity": [
            helper.make_node("Identity", ["W"], ["V"]),
            helper.make_node("Gemm", ["f", "V", "b"], ["y"], transB=1),
        ],
        "Transpose": [
            helper.make_node("Transpose", ["W"], ["V"], perm=[1, 0]),
            helper.make_node("Gemm", ["f", "V", "b"], ["y"]),
        ],
    }

    def check(self, model, about):
        self.save(model, "tied.onnx")
        before = run_body(self.folder, "tied.onnx", X)
        self.forget("tied.onnx", "--force")
        onnx.checker.check_model(self.at("new.onnx"))
        after = run_body(self.folder, "new.onnx", X)
        np.testing.assert_array_equal(after["tied"], before["tied"], about)
        np.testing.assert_allclose(after["y"], before["y"][:, KEPT], 1e-5, 1e-5, err_msg=about)
        self.oubli(
            *"verify new.onnx.receipt.json --model new.onnx --original tied.onnx".split(), code=None
        )

    def test_an_initializer_over_the_same_bytes(self):
        for about, head in self.BEHIND.items():
            readers = [helper.make_node("ReduceSum", ["E"], ["tied"], keepdims=0)]
            self.check(self.model(readers, head, [external("E", [K, P], "w.bin", 64)]), about)

    def test_an_initializer_that_overlaps_by_some_bytes(self):
        for about, head in self.BEHIND.items():
            readers = [helper.make_node("ReduceSum", ["E"], ["tied"], keepdims=0)]
            extra = [external("E", [4], "w.bin", 64 + 4 * P * K - 8)]
            self.check(self.model(readers, head, extra), about)

    def test_a_constant_node_over_the_same_bytes(self):
        for about, head in self.BEHIND.items():
            readers = [
                helper.make_node("Constant", [], ["E"], value=external("", [K, P], "w.bin", 64)),
                helper.make_node("ReduceSum", ["E"], ["tied"], keepdims=0),
            ]
            self.check_with_constant(readers, head, about)

    def check_with_constant(self, readers, head, about):
        """python3-onnx does not load external data of nodes: looked at by hand."""
        self.save(self.model(readers, head), "tied.onnx")
        self.forget("tied.onnx", "--force")
        new = onnx.load(self.at("new.onnx"), load_external_data=False)
        constants = [n for n in new.graph.node if n.op_type == "Constant"]
        self.assertEqual(len(constants), 1, about)
        place = {e.key: e.value for e in constants[0].attribute[0].t.external_data}
        with open(self.at(place["location"]), "rb") as file:
            file.seek(int(place["offset"]))
            np.testing.assert_array_equal(np.fromfile(file, np.float32, K * P), W.ravel(), about)

    def test_a_tensor_of_a_branch_over_the_same_bytes(self):
        for about, head in self.BEHIND.items():
            branch = helper.make_graph(
                [helper.make_node("ReduceSum", ["E"], ["s"], keepdims=0)],
                "branch",
                [],
                [value("s", [])],
                [external("E", [K, P], "w.bin", 64)],
            )
            yes = helper.make_node("Constant", [], ["yes"], value=tensor("", np.array(True)))
            chosen = helper.make_node(
                "If", ["yes"], ["tied"], then_branch=branch, else_branch=branch
            )
            self.save(self.model([yes, chosen], head), "tied.onnx")
            self.forget("tied.onnx", "--force")
            new = onnx.load(self.at("new.onnx"), load_external_data=False)
            node = next(n for n in new.graph.node if n.op_type == "If")
            for attribute in node.attribute:
                place = {e.key: e.value for e in attribute.g.initializer[0].external_data}
                with open(self.at(place["location"]), "rb") as file:
                    file.seek(int(place["offset"]))
                    found = np.fromfile(file, np.float32, K * P)
                np.testing.assert_array_equal(found, W.ravel(), about)

    def test_an_alias_that_nothing_reads_goes_with_its_bytes(self):
        """The other way round: nothing needs them any more, so the forgotten row goes."""
        for about, head in self.BEHIND.items():
            readers = [helper.make_node("ReduceSum", ["b"], ["tied"], keepdims=0)]
            extra = [external("unused", [K, P], "w.bin", 64)]
            self.check(self.model(readers, head, extra), about)
            row = W[1].tobytes()
            for name in os.listdir(self.folder):
                if name.startswith("new"):
                    with open(self.at(name), "rb") as file:
                        self.assertNotIn(row, file.read(), (about, name))


class Runs(Case):
    """Promise: old and new file, each run as it is on the same inputs, do what the edit says."""

    def test_the_receipt_says_what_was_run(self):
        self.save(classifier())
        self.forget("model.onnx")
        receipt = json.load(open(self.at("new.onnx.receipt.json")))
        said = [text for text in receipt["not_checked"] if "it was not run" in text]
        ran = receipt.get("run_on_random_inputs")
        self.assertNotEqual(bool(said), bool(ran))
        if ran:
            self.assertLessEqual(ran["features_difference_over_bound"], 1)
            self.assertEqual(ran["outputs"], {"y": "the logits"})

    def test_the_sample_is_stated_and_has_an_end(self):
        if not have_runtime():
            self.skipTest("no ONNX Runtime; tools/get-runtime fetches one")
        self.save(classifier())
        x = np.random.default_rng(2).standard_normal((700, D)).astype(np.float32)
        y = (np.maximum(x @ W1, 0) @ W.T + B).argmax(1)
        np.savez(self.at("data.npz"), x=x, y=y)
        self.forget("model.onnx", "--data", "data.npz")
        check = json.load(open(self.at("new.onnx.receipt.json")))["run"]["new_model"]
        self.assertEqual(check["samples"], 3 * 32)  # a sixteenth would be fewer than three batches
        self.assertIn("of 700", check["inputs"])
        self.assertEqual(check["label_flips_against_naive"], 0)

    def test_features_alone_do_not_count_as_a_run(self):
        self.save(classifier())
        np.save(self.at("f.npy"), np.maximum(X @ W1, 0))
        np.save(self.at("y.npy"), (np.maximum(X @ W1, 0) @ W.T + B).argmax(1))
        env = dict(os.environ)
        os.environ["OUBLI_ONNXRUNTIME"] = "/nonexistent/libonnxruntime.so"
        try:
            done = self.forget("model.onnx", "--features", "f.npy", "--labels", "y.npy")
        finally:
            os.environ.clear()
            os.environ.update(env)
        receipt = json.load(open(self.at("new.onnx.receipt.json")))
        ran = "run_on_random_inputs" in receipt
        self.assertEqual("the body was not run" in done.text, not ran, done.text)


def have_runtime():
    cache = os.environ.get("OUBLI_DATA") or os.path.expanduser("~/.cache/oubli")
    return "OUBLI_ONNXRUNTIME" in os.environ or any(
        os.path.exists(os.path.join(cache, "runtime", n, "libonnxruntime.so.1"))
        for n in ("small", "full")
    )


class HostileRuns(Case):
    """Promise: a run that nobody asked for takes neither long nor much memory, whatever the file
    says, and a model that cannot be run that way is edited all the same."""

    def check(self, more, wanted):
        if not have_runtime():
            self.skipTest("no ONNX Runtime; tools/get-runtime fetches one")
        model = classifier()
        nodes = list(model.graph.node)
        nodes[0].input[0] = "slow"
        del model.graph.node[:]
        model.graph.node.extend([*more, *nodes])
        self.save(model)
        before = os.times()
        self.forget("model.onnx")
        after = os.times()
        used = after.children_user + after.children_system
        used -= before.children_user + before.children_system
        self.assertLess(used, 5)
        said = json.load(open(self.at("new.onnx.receipt.json")))["not_checked"]
        self.assertTrue(any(wanted in text for text in said), said)

    def test_a_loop_without_end(self):
        body = helper.make_graph(
            [
                helper.make_node("Identity", ["go"], ["still"]),
                helper.make_node("Sin", ["v"], ["w"]),
            ],
            "body",
            [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("v")],
            [value("still", [], TensorProto.BOOL), value("w")],
        )
        yes = numpy_helper.from_array(np.array(True))
        constants = [
            helper.make_node("Constant", [], ["many"], value_int=2**62),
            helper.make_node("Constant", [], ["yes"], value=yes),
        ]
        loop = helper.make_node("Loop", ["many", "yes", "x"], ["slow"], body=body)
        self.check([*constants, loop], "it took more than 2 s")

    def test_more_memory_than_there_is(self):
        size = tensor("", np.array([1 << 20, 1, 1 << 16]))
        nodes = [
            helper.make_node("Constant", [], ["size"], value=size),
            helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
            helper.make_node("Expand", ["sum", "size"], ["large"]),
            helper.make_node("ReduceMax", ["large"], ["most"], keepdims=0),
            helper.make_node("Add", ["x", "most"], ["slow"]),
        ]
        self.check(nodes, "it was not run")


class RowsByRight(Case):
    """Promise: a class that stays keeps its row, also where that is the forgotten one's or its
    negative; and that is said."""

    def check(self, weights, wanted):
        model = classifier(initializers=[tensor("W1", W1), tensor("W", weights), tensor("b", B)])
        np.savez(self.at("model.npz"), W=weights, b=B)
        self.save(model)
        for name in ("model.onnx", "model.npz"):
            new = "new" + name[5:]
            done = self.forget(name, "--force", new=new)
            self.assertEqual("still holds the weights" in done.text, wanted, done.text)
            words = ["verify", new + ".receipt.json", "--model", new, "--original", name]
            self.oubli(*words)

    def test_other_rows(self):
        self.check(W, False)

    def test_the_negative(self):
        weights = W.copy()
        weights[3] = -weights[1]
        self.check(weights, True)

    def test_the_same(self):
        weights = W.copy()
        weights[3] = weights[1]
        self.check(weights, True)

    def test_rows_that_sum_to_zero(self):
        """Of two rows that are each other's negatives, centring leaves nothing."""
        weights = np.stack([W[0], -W[0]])
        np.savez(self.at("model.npz"), W=weights, b=np.zeros(2, np.float32))
        done = self.forget("model.npz", new="new.npz", code=None)
        if done.code == 0:
            self.assertNotIn("still holds the weights", done.text)
            np.testing.assert_array_equal(np.load(self.at("new.npz"))["W"], np.zeros((1, P)))


class Wiped(Case):
    """Promise: a retained class that goes along with the forgotten one is named."""

    def test_a_class_with_the_same_mean(self):
        y = np.repeat(np.arange(K), 40)
        rng = np.random.default_rng(3)
        means = rng.standard_normal((K, P)).astype(np.float32)
        for twin, named in ((means[1], True), (means[4], False)):
            means[4] = twin
            np.savez(self.at("head.npz"), W=3 * means + 0.01 * W, b=np.zeros(K, np.float32))
            np.save(self.at("f.npy"), means[y] + 0.1 * rng.standard_normal((len(y), P)))
            np.save(self.at("y.npy"), y)
            np.save(self.at("z.npy"), np.zeros(K - 1))
            data = "--features f.npy --labels y.npy --ignore-accuracy --force".split()
            for method, goes in (
                ("zeroing", True),
                ("randomization", True),
                ("custom", True),
                ("normalization", False),
                ("naive", False),
            ):
                target = ["--target", "z.npy"] if method == "custom" else []
                words = [*data, *target, "--method", method]
                done = self.forget("head.npz", *words, new="new.npz")
                said = "retained class 4: its mean is that of a forgotten class" in done.err
                self.assertEqual(said, named and goes, (method, named, done.err))
            means = rng.standard_normal((K, P)).astype(np.float32)


class Verified(Case):
    """Promise: 'verify --original' passes only what the edit makes of the original."""

    WORDS = "verify new.onnx.receipt.json --model new.onnx --original model.onnx".split()

    def forged(self, change):
        """The receipt is made to fit: digests prove nothing about who wrote it."""
        self.save(classifier())
        self.forget("model.onnx", "--force")
        self.oubli(*self.WORDS)
        new = onnx.load(self.at("new.onnx"))
        change(new)
        self.save(new, "new.onnx")
        self.fit_receipt("new.onnx")
        return self.oubli(*self.WORDS, code=None)

    def fit_receipt(self, name):
        import hashlib

        content = open(self.at(name), "rb").read()
        receipt = json.load(open(self.at(name + ".receipt.json")))
        entry = next(f for f in receipt["output"]["files"] if f["role"] == "model")
        entry["sha256"] = hashlib.sha256(content).hexdigest()
        entry["bytes"] = len(content)
        json.dump(receipt, open(self.at(name + ".receipt.json"), "w"))

    def test_the_old_head_as_another_tensor(self):
        done = self.forged(lambda m: m.graph.initializer.append(tensor("kept", W)))
        self.assertNotEqual(done.code, 0)
        self.assertIn("FAILED", done.text)

    def test_another_body(self):
        def change(model):
            body = next(t for t in model.graph.initializer if t.name == "W1")
            body.CopyFrom(tensor("W1", W1 * 2))

        done = self.forged(change)
        self.assertNotEqual(done.code, 0)

    def test_metadata_that_was_added(self):
        done = self.forged(lambda m: m.metadata_props.add(key="note", value="x"))
        self.assertNotEqual(done.code, 0)

    def test_arrays_too(self):
        np.savez(self.at("old.npz"), W=W, b=B, body=W1)
        self.forget("old.npz", new="new.npz")
        words = "verify new.npz.receipt.json --model new.npz --original old.npz".split()
        self.oubli(*words)
        new = dict(np.load(self.at("new.npz")))
        new["body"] = new["body"] * 2
        np.savez(self.at("new.npz"), **new)
        self.fit_receipt("new.npz")
        self.oubli(*words, code=5)

    def test_compressed_arrays_are_looked_into(self):
        """A copy of the old head in a compressed entry: forget says so, verify does, too."""
        for save in (np.savez, np.savez_compressed):
            save(self.at("old.npz"), W=W, b=B, ema=W.copy(), body=W1)
            done = self.forget("old.npz", "--weights", "W", "--bias", "b", "--force", new="new.npz")
            self.assertIn("still holds the weights of forgotten class 1", done.err, save)
            save(self.at("old.npz"), W=W, b=B, body=W1)
            done = self.forget("old.npz", "--force", new="new.npz")
            self.assertNotIn("still holds", done.err, save)

    def test_with_side_files(self):
        """An honest model with external data passes, in the same folder and in another one."""
        for folder in (".", "other"):
            os.makedirs(self.at(folder), exist_ok=True)
            self.save(
                classifier(), save_as_external_data=True, location="model.data", size_threshold=0
            )
            new = os.path.join(folder, "new.onnx")
            self.forget("model.onnx", "--force", new=new)
            words = ["verify", new + ".receipt.json", "--model", new, "--original", "model.onnx"]
            self.oubli(*words)
            os.remove(self.at("model.data"))

    def test_with_another_name(self):
        """The file may be called otherwise by now; its external data may not."""
        self.save(classifier(), save_as_external_data=True, location="model.data", size_threshold=0)
        self.forget("model.onnx")
        os.rename(self.at("new.onnx"), self.at("other.onnx"))
        words = "verify new.onnx.receipt.json --model other.onnx --original model.onnx".split()
        self.oubli(*words)

    def test_an_engine_that_is_only_claimed(self):
        """What no signature vouches for loosens the comparison by 1024 roundings at most."""
        if not have_runtime():
            self.skipTest("no ONNX Runtime; tools/get-runtime fetches one")
        self.save(classifier())
        x = np.random.default_rng(2).standard_normal((700, D)).astype(np.float32)
        y = (np.maximum(x @ W1, 0) @ W.T + B).argmax(1)
        np.savez(self.at("data.npz"), x=x, y=y)
        words = [*self.WORDS, "--data", "data.npz"]
        for relative, passes in ((1e-6, True), (1e-4, False), (5e-4, False)):
            self.forget("model.onnx", *"--data data.npz --method normalization --force".split())
            self.assertIn("is the same bit for bit", self.oubli(*words).text)
            new = onnx.load(self.at("new.onnx"))
            stored = next(t for t in new.graph.initializer if t.name == "W")
            weights = numpy_helper.to_array(stored).copy()
            weights[0, np.abs(weights[0]).argmax()] *= 1 + relative
            stored.CopyFrom(tensor("W", weights))
            self.save(new, "new.onnx")
            self.fit_receipt("new.onnx")
            self.assertIn("differs", self.oubli(*words, code=5).text)
            path = self.at("new.onnx.receipt.json")
            receipt = json.load(open(path))
            receipt["run"]["runtime"] = "ONNX Runtime 99.0"
            json.dump(receipt, open(path, "w"))
            done = self.oubli(*words, code=None)
            step = next(l for l in done.out.splitlines() if "the new head, computed anew" in l)
            self.assertEqual(step.startswith("passed"), passes, step)
            self.assertIn("which no signature vouches for", step)


class Order(Case):
    """Promise: the graph is read in the order in which it runs; the file keeps its own."""

    def test_nodes_in_any_order(self):
        labels = helper.make_tensor("labels", TensorProto.INT64, [K], [10, 11, 12, 13, 14])
        nodes = [
            helper.make_node("Gather", ["labels", "i"], ["label"]),
            helper.make_node("ArgMax", ["y"], ["i"], axis=1, keepdims=0),
            helper.make_node("Gemm", ["f", "W", "b"], ["y"], transB=1, name="fc"),
            helper.make_node("Relu", ["h"], ["f"]),
            helper.make_node("MatMul", ["x", "W1"], ["h"]),
        ]
        outputs = [value("label", ["n"], TensorProto.INT64)]
        initializers = [tensor("W1", W1), tensor("W", W), tensor("b", B), labels]
        self.save(classifier(nodes, initializers, outputs))
        self.forget("model.onnx")
        new = onnx.load(self.at("new.onnx"))
        self.assertEqual([n.op_type for n in new.graph.node], [n.op_type for n in nodes])
        kept = next(t for t in new.graph.initializer if t.name == "labels")
        np.testing.assert_array_equal(numpy_helper.to_array(kept), [10, 12, 13, 14])

    def test_a_circle_is_refused(self):
        nodes = [
            helper.make_node("Add", ["x", "f"], ["h"]),
            helper.make_node("Relu", ["h"], ["f"]),
            helper.make_node("Gemm", ["f", "W", "b"], ["y"], transB=1, name="fc"),
        ]
        self.save(classifier(nodes))
        self.assertIn("wait for one another", self.forget("model.onnx", code=3).err)

    def test_two_tensors_of_one_name_are_refused(self):
        twins = [tensor("W1", W1), tensor("W", W), tensor("b", B), tensor("W", 2 * W)]
        self.save(classifier(initializers=twins))
        self.assertIn("two stored tensors", self.forget("model.onnx", code=3).err)

    def test_two_entries_for_one_array_are_refused(self):
        import zipfile

        np.savez(self.at("old.npz"), **{"fc.weight": W, "fc.bias": B})
        with zipfile.ZipFile(self.at("old.npz"), "a") as archive:
            archive.writestr("fc.weight", archive.read("fc.weight.npy"))
        self.assertIn("fc.weight", self.forget("old.npz", new="new.npz", code=3).err)


if __name__ == "__main__":
    unittest.main()
