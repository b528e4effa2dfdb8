"""The pieces of which make_models.py makes its models: bodies, tensors, the writer."""
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

K, P, D = 5, 8, 6  # classes, features, inputs
NAMES = ["ant", "bee", "cat", "dog", "elk"]
rng = np.random.default_rng(173)
W = rng.standard_normal((K, P)).astype(np.float32)
B = rng.standard_normal(K).astype(np.float32)
W1 = rng.standard_normal((D, P)).astype(np.float32)
B1 = rng.standard_normal(P).astype(np.float32)
KERNEL = rng.standard_normal((P, 3, 3, 3)).astype(np.float32) / 3

FLOAT = {
    "f32": TensorProto.FLOAT,
    "f64": TensorProto.DOUBLE,
    "f16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
}


def bfloat16_bits(array):
    bits = array.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def tensor(name, array, kind="f32", typed=False):
    array = np.asarray(array)
    if kind == "bf16":
        bits = bfloat16_bits(array)
        if typed:
            return helper.make_tensor(
                name, TensorProto.BFLOAT16, array.shape, array.flatten().tolist()
            )
        result = TensorProto(name=name, data_type=TensorProto.BFLOAT16, dims=array.shape)
        result.raw_data = bits.tobytes()
        return result
    array = array.astype({"f32": np.float32, "f64": np.float64, "f16": np.float16}[kind])
    if typed:
        return helper.make_tensor(name, FLOAT[kind], array.shape, array.flatten().tolist())
    return numpy_helper.from_array(array, name)


def ints(name, values):
    return numpy_helper.from_array(np.asarray(values, np.int64), name)


class Maker:
    def __init__(self, folder):
        self.folder, self.manifest = folder, {}

    def add(
        self,
        name,
        nodes,
        initializers,
        outputs,
        *,
        inputs=None,
        ir=8,
        opset=13,
        kind="f32",
        ok=True,
        reason="",
        value_info=(),
        metadata=None,
        nonlinear=False,
        image=False,
        external=False,
        classes=K,
        tied=False,
        functions=(),
        domains=(),
        run=True,
        checker=True,
        code=4,
    ):
        if inputs is None:
            shape = ["n", 3, 4, 4] if image else ["n", D]
            inputs = [helper.make_tensor_value_info("x", FLOAT[kind], shape)]
        if ir < 4:
            inputs = list(inputs) + [
                helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in initializers
            ]
        graph = helper.make_graph(
            nodes, name, inputs, outputs, initializers, value_info=list(value_info)
        )
        imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in domains]
        model = helper.make_model(
            graph, opset_imports=imports, ir_version=ir, producer_name="make_models"
        )
        for key, value in (metadata or {}).items():
            entry = model.metadata_props.add()
            entry.key, entry.value = key, value
        path = os.path.join(self.folder, name + ".onnx")
        if external:
            onnx.save_model(
                model,
                path,
                save_as_external_data=True,
                all_tensors_to_one_file=True,
                location=name + ".weights",
                size_threshold=0,
                convert_attribute=False,
            )
        else:
            onnx.save_model(model, path)
        self.manifest[name] = {
            "ok": ok,
            "reason": reason,
            "code": 0 if ok else code,
            "classes": classes,
            "nonlinear": nonlinear,
            "kind": kind,
            "image": image,
            "ir": ir,
            "external": external,
            "tied": tied,
            "run": run,
            "checker": checker and ir <= 8,
        }


def out(name="y", shape=("n", K), kind="f32"):
    return helper.make_tensor_value_info(name, FLOAT[kind], list(shape))


def body(kind="f32"):
    """Features f [n, P] of x [n, D]."""
    nodes = [
        helper.make_node("MatMul", ["x", "body.w"], ["h0"]),
        helper.make_node("Add", ["h0", "body.b"], ["h1"]),
        helper.make_node("Relu", ["h1"], ["f"]),
    ]
    return nodes, [tensor("body.w", W1, kind), tensor("body.b", B1, kind)]


def image_body():
    """A map m [n, P, 4, 4] of x [n, 3, 4, 4]."""
    nodes = [
        helper.make_node("Conv", ["x", "body.k"], ["c0"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["m"]),
    ]
    return nodes, [tensor("body.k", KERNEL)]


def maps_out(name, key):
    """A sequence of maps to numbers, as ZipMap makes them."""
    info = onnx.ValueInfoProto(name=name)
    kind = info.type.sequence_type.elem_type.map_type
    kind.key_type = key
    kind.value_type.tensor_type.elem_type = TensorProto.FLOAT
    return info
