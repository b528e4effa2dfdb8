"""Classifiers whose last layer is quantised, as ONNX Runtime's quantisers and others write them."""
import itertools

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

K, P, D = 5, 24, 6
rng = np.random.default_rng(11)
W = rng.standard_normal((K, P)).astype(np.float32)
W *= np.float32([0.3, 1, 0.6, 1.4, 0.8])[:, None]
B = rng.standard_normal(K).astype(np.float32)
W1 = rng.standard_normal((D, P)).astype(np.float32)
B1 = rng.standard_normal(P).astype(np.float32)
SX, ZX = np.float32(0.125), np.uint8(3)  # of the features
SY, ZY = np.float32(0.75), np.uint8(120)  # of 8-bit logits
SB = np.float32(np.abs(B).max() / 127)  # of an 8-bit bias


def features(x):
    """What the layer reads: rounded to 8 bits."""
    f = np.maximum(x @ W1 + B1, 0)
    q = np.clip(np.rint(f / SX) + ZX, 0, 255)
    return (q - np.float64(ZX)) * np.float64(SX)


class Numbers:
    """The head in whole numbers, classes x features."""

    def __init__(self, per_channel, unsigned, narrow=False):
        most = np.abs(W).max(1) if per_channel else np.full(K, np.abs(W).max())
        self.zero = np.array(117 if unsigned else 0)
        levels = 63 if narrow else 126 if not unsigned else 115
        self.scale = (most / levels).astype(np.float32)
        self.q = np.rint(W / self.scale[:, None]) + self.zero
        self.type = np.uint8 if unsigned else np.int8
        self.bias_scale = (SX * self.scale).astype(np.float32)
        self.b = np.rint(B / self.bias_scale).astype(np.int32)
        self.b8 = np.rint(B / SB).astype(np.int8)
        if not per_channel:
            self.scale, self.bias_scale = self.scale[0], self.bias_scale[0]
        else:
            self.zero = np.full(K, self.zero)

    def weights(self):
        zero = np.broadcast_to(self.zero, K)[:, None]
        return np.broadcast_to(np.float64(self.scale), K)[:, None] * (self.q - zero)

    def parts(self, transposed):
        q = self.q.T if transposed else self.q
        return [
            numpy_helper.from_array(np.ascontiguousarray(q.astype(self.type)), "W"),
            numpy_helper.from_array(np.asarray(self.scale), "Ws"),
            numpy_helper.from_array(np.asarray(self.zero).astype(self.type), "Wz"),
        ]


def array(name, value):
    return numpy_helper.from_array(np.asarray(value), name)


def node(op, inputs, outputs, domain="", **attributes):
    return helper.make_node(op, inputs, outputs, domain=domain, **attributes)


BODY = [
    node("MatMul", ["x", "body.w"], ["h0"]),
    node("Add", ["h0", "body.b"], ["h1"]),
    node("Relu", ["h1"], ["h"]),
]
STATIC = [node("QuantizeLinear", ["h", "Xs", "Xz"], ["fq"])]
TENSORS = [array("body.w", W1), array("body.b", B1), array("Xs", SX), array("Xz", ZX)]
LOGIT_SCALE = [array("Ys", SY), array("Yz", ZY)]
MICROSOFT = "com.microsoft"


def save(path, nodes, tensors, logits, tail):
    nodes = BODY + nodes
    outputs = ["y"]
    if tail == "softmax":
        nodes = nodes + [node("Softmax", [logits], ["y"], axis=1)]
    elif tail == "both":
        nodes = nodes + [
            node("Softmax", [logits], ["p"], axis=1),
            node("Identity", [logits], ["y"]),
        ]
        outputs = ["y", "p"]
    else:
        nodes = nodes + [node("Identity", [logits], ["y"])]
    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", D])],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, ["n", K]) for o in outputs],
        TENSORS + tensors,
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid(MICROSOFT, 1)],
        ir_version=8,
    )
    entry = model.metadata_props.add()
    entry.key, entry.value = "names", "ant,bee,cat,dog,elk"
    onnx.save_model(model, path)


def dequantise_weights(numbers, axis):
    attributes = {"axis": axis} if np.ndim(numbers.scale) else {}
    return node("DequantizeLinear", ["W", "Ws", "Wz"], ["Wf"], **attributes)


def qdq_gemm(path, numbers, bias="int32", rounded=False, turned=False, transposed=False):
    """DequantizeLinear before and, if `rounded`, a Quantize pair behind a Gemm."""
    axis = 1 if transposed else 0
    nodes = STATIC + [
        node("DequantizeLinear", ["fq", "Xs", "Xz"], ["f"]),
        dequantise_weights(numbers, axis),
    ]
    tensors = numbers.parts(transposed)
    weights = "Wf"
    if turned:
        nodes.append(node("Transpose", ["Wf"], ["Wt"], perm=[1, 0]))
        weights = "Wt"
    inputs = ["f", weights]
    if bias == "int32":
        per_channel = np.ndim(numbers.bias_scale)
        nodes.append(
            node("DequantizeLinear", ["b", "bs"], ["bf"], **({"axis": 0} if per_channel else {}))
        )
        tensors += [array("b", numbers.b), array("bs", numbers.bias_scale)]
        inputs.append("bf")
    elif bias == "float":
        tensors.append(array("bf", B))
        inputs.append("bf")
    nodes.append(node("Gemm", inputs, ["g"], transB=int(transposed == turned)))
    logits = "g"
    if rounded:
        nodes += [
            node("QuantizeLinear", ["g", "Ys", "Yz"], ["gq"]),
            node("DequantizeLinear", ["gq", "Ys", "Yz"], ["gd"]),
        ]
        tensors += LOGIT_SCALE
        logits = "gd"
    return nodes, tensors, logits


def qdq_matmul(path, numbers):
    nodes = STATIC + [
        node("DequantizeLinear", ["fq", "Xs", "Xz"], ["f"]),
        dequantise_weights(numbers, 1),
        node("MatMul", ["f", "Wf"], ["m"]),
        node("Add", ["m", "b"], ["g"]),
    ]
    return nodes, numbers.parts(True) + [array("b", B)], "g"


def qgemm(path, numbers, rounded, bias=True, transposed=False):
    inputs = ["fq", "Xs", "Xz", "W", "Ws", "Wz", "b" if bias else ""]
    tensors = numbers.parts(transposed) + [array("b", numbers.b)] * bias
    nodes = STATIC + [
        node(
            "QGemm",
            inputs + (["Ys", "Yz"] if rounded else []),
            ["gq" if rounded else "g"],
            domain=MICROSOFT,
            transB=int(not transposed),
        )
    ]
    if not rounded:
        return nodes, tensors, "g"
    nodes.append(node("DequantizeLinear", ["gq", "Ys", "Yz"], ["g"]))
    return nodes, tensors + LOGIT_SCALE, "g"


def qlinear(path, numbers, bias):
    nodes = STATIC + [
        node("QLinearMatMul", ["fq", "Xs", "Xz", "W", "Ws", "Wz", "Ys", "Yz"], ["mq"])
    ]
    tensors = numbers.parts(True) + LOGIT_SCALE
    made = "mq"
    if bias:
        nodes.append(
            node(
                "QLinearAdd",
                ["mq", "Ys", "Yz", "b", "bs", "bz", "Ys", "Yz"],
                ["gq"],
                domain=MICROSOFT,
            )
        )
        tensors += [array("b", (numbers.b8.astype(int) + 128).astype(np.uint8))]
        tensors += [array("bs", SB), array("bz", np.uint8(128))]
        made = "gq"
    nodes.append(node("DequantizeLinear", [made, "Ys", "Yz"], ["g"]))
    return nodes, tensors, "g"


def matmul_integer(path, numbers, bias):
    nodes = [
        node("DynamicQuantizeLinear", ["h"], ["fq", "fs", "fz"]),
        node("MatMulInteger", ["fq", "W", "fz", "Wz"], ["m32"]),
        node("Cast", ["m32"], ["mf"], to=TensorProto.FLOAT),
        node("Mul", ["fs", "Ws"], ["ss"]),
        node("Mul", ["mf", "ss"], ["m"]),
    ]
    tensors = numbers.parts(True)
    if not bias:
        return nodes, tensors, "m"
    return nodes + [node("Add", ["m", "b"], ["g"])], tensors + [array("b", B)], "g"


def make(folder):
    """name -> what is known of it: the numbers, whether logits are 8 bits, the biases."""
    made = {}

    def add(name, builder, numbers, known, tail="both", **options):
        path = "%s/%s.onnx" % (folder, name)
        nodes, tensors, logits = builder(path, numbers, **options)
        save(path, nodes, tensors, logits, tail)
        made[name] = dict(numbers=numbers, **known)

    for per_channel, unsigned in itertools.product([False, True], [False, True]):
        kind = ("channel" if per_channel else "tensor") + ("_u8" if unsigned else "_i8")
        n = Numbers(per_channel, unsigned)
        b32 = n.b * np.broadcast_to(np.float64(n.bias_scale), K)
        add("qdq_gemm_" + kind, qdq_gemm, n, dict(bias=b32))
        add("qdq_matmul_" + kind, qdq_matmul, n, dict(bias=B))
        add("qgemm_" + kind, qgemm, n, dict(bias=b32), rounded=False)
        add("qlinear_" + kind, qlinear, n, dict(bias=n.b8 * np.float64(SB), steps=2), bias=True)
        add("integer_" + kind, matmul_integer, n, dict(bias=B, dynamic=True), bias=True)
    n = Numbers(True, False)
    b32 = n.b * np.float64(n.bias_scale)
    zero = np.zeros(K)
    add("qdq_float_bias", qdq_gemm, n, dict(bias=B), bias="float")
    add("qdq_no_bias", qdq_gemm, n, dict(bias=zero), bias=None)
    add("qdq_turned", qdq_gemm, n, dict(bias=b32), turned=True)
    add("qdq_transposed", qdq_gemm, n, dict(bias=b32), transposed=True)
    add("qdq_rounded", qdq_gemm, n, dict(bias=b32, steps=1), rounded=True)
    add("qgemm_rounded", qgemm, n, dict(bias=b32, steps=1), rounded=True)
    add("qgemm_transposed", qgemm, n, dict(bias=b32), rounded=False, transposed=True)
    add("qgemm_no_bias", qgemm, n, dict(bias=zero), rounded=False, bias=False)
    add("qlinear_no_bias", qlinear, n, dict(bias=zero, steps=1), bias=False)
    add("integer_no_bias", matmul_integer, n, dict(bias=zero, dynamic=True), bias=False)
    add(
        "qdq_narrow",
        qdq_gemm,
        Numbers(True, False, narrow=True),
        dict(
            bias=Numbers(True, False, narrow=True).b
            * np.float64(Numbers(True, False, narrow=True).bias_scale)
        ),
    )
    return made
