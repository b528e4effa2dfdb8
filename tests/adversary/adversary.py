"""What the adversary's cases share: the program as a person calls it, with its time and memory, and
a small classifier in ONNX. Exits 77 (skipped) where python3-onnx is missing."""
import os
import resource
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)

OUBLI = os.path.abspath(sys.argv.pop(1))
K, P, D = 5, 8, 6  # classes, features, inputs
RNG = np.random.default_rng(11)
W1 = RNG.standard_normal((D, P)).astype(np.float32)
W = RNG.standard_normal((K, P)).astype(np.float32)
B = RNG.standard_normal(K).astype(np.float32)


class Done:
    """A finished run: exit code, both outputs, seconds, peak memory in MB."""

    def __init__(self, words, cwd, stdin=None, limit=120):
        before = time.monotonic()
        process = subprocess.Popen(
            [OUBLI, *map(str, words)],
            cwd=cwd,
            stdin=stdin or subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)),
        )
        out, err = process.communicate()
        self.seconds = time.monotonic() - before
        self.code = process.returncode
        self.out = out.decode(errors="replace")
        self.err = err.decode(errors="replace")
        self.text = self.out + self.err


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="oubli-adversary-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def at(self, *names):
        return os.path.join(self.folder, *names)

    def oubli(self, *words, code=0, **options):
        done = Done(words, self.folder, **options)
        if code is not None:
            self.assertEqual(done.code, code, done.text[-2000:])
        return done

    def forget(self, model, *words, code=0, new="new.onnx"):
        """Without class 1, by the naive method unless another is asked for."""
        words = list(words)
        if "--method" not in words:
            words += ["--method", "naive"]
        return self.oubli("forget", model, "--class", 1, "-o", new, *words, code=code)

    def save(self, model, name="model.onnx", **options):
        if options:
            onnx.save_model(model, self.at(name), **options)
        else:
            with open(self.at(name), "wb") as file:
                file.write(model.SerializeToString())
        return self.at(name)


def tensor(name, array):
    return numpy_helper.from_array(np.ascontiguousarray(array), name)


def external(name, shape, location, offset, kind=TensorProto.FLOAT):
    """A tensor whose elements stand in another file."""
    result = onnx.TensorProto(name=name, dims=shape, data_type=kind)
    result.data_location = TensorProto.EXTERNAL
    size = int(np.prod(shape)) * 4
    for key, value in (("location", location), ("offset", offset), ("length", size)):
        result.external_data.add(key=key, value=str(value))
    return result


def classifier(nodes=None, initializers=None, outputs=None, inputs=None, **options):
    """x (n x D) -> relu(x W1) -> Gemm with W -> y, unless other nodes are given."""
    if nodes is None:
        nodes = [
            helper.make_node("MatMul", ["x", "W1"], ["h"]),
            helper.make_node("Relu", ["h"], ["f"]),
            helper.make_node("Gemm", ["f", "W", "b"], ["y"], transB=1, name="fc"),
        ]
    if initializers is None:
        initializers = [tensor("W1", W1), tensor("W", W), tensor("b", B)]
    graph = helper.make_graph(
        nodes,
        "g",
        inputs or [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", D])],
        outputs or [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", K])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], **options)
    model.ir_version = 8
    return model


def run_body(folder, name, x):
    """What a model of classifier()'s kind makes of x, by NumPy: its own tensors, its own nodes."""
    model = onnx.load(os.path.join(folder, name))  # with external data
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    values["x"] = x
    left = list(model.graph.node)
    while left:
        ready = [n for n in left if all(i in values for i in n.input)]
        assert ready, "cannot run: %s" % [n.op_type for n in left]
        for node in ready:
            left.remove(node)
            values[node.output[0]] = compute(node, [values[i] for i in node.input])
    return {o.name: values[o.name] for o in model.graph.output}


def compute(node, inputs):
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    op = node.op_type
    if op == "Constant":
        return numpy_helper.to_array(attributes["value"])
    if op == "MatMul":
        return inputs[0] @ inputs[1]
    if op == "Add":
        return inputs[0] + inputs[1]
    if op == "Relu":
        return np.maximum(inputs[0], 0)
    if op == "Identity":
        return inputs[0]
    if op == "Transpose":
        return np.transpose(inputs[0], attributes.get("perm"))
    if op == "ReduceSum":
        return inputs[0].sum()
    if op == "ArgMax":
        return inputs[0].argmax(attributes["axis"])
    if op == "Gemm":
        b = inputs[1].T if attributes.get("transB") else inputs[1]
        return inputs[0] @ b + inputs[2]
    raise AssertionError("unknown operation " + op)
