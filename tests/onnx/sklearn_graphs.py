"""The ONNX graphs that skl2onnx writes for fitted scikit-learn classifiers, written by hand, since
Debian has no skl2onnx: a LinearClassifier with Normalizer, Cast and ZipMap for single precision,
MatMul, Add, ArgMax and ArrayFeatureExtractor for double, the same behind hidden layers for an
MLPClassifier, a Scaler before."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper
from sklearn.linear_model import LogisticRegression

from model_parts import maps_out

ML = "ai.onnx.ml"
KINDS = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE}
node = helper.make_node


def labels_of(classes):
    """(texts or whole numbers, suffix of classlabels_, element type)"""
    if classes.dtype.kind in "US":
        return [str(c) for c in classes], "strings", TensorProto.STRING
    return [int(c) for c in classes], "ints", TensorProto.INT64


def zip_map(classes):
    """From 'probabilities' to a sequence of maps."""
    labels, suffix, key = labels_of(classes)
    suffix = "int64s" if suffix == "ints" else suffix
    zipped = node("ZipMap", ["probabilities"], ["maps"], domain=ML, name="ZipMap")
    zipped.attribute.append(helper.make_attribute("classlabels_" + suffix, labels))
    return [zipped], [maps_out("maps", key)]


def model(nodes, inputs, outputs, initializers=(), ml=1):
    graph = helper.make_graph(nodes, "sklearn", inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(ML, ml)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=7, producer_name="skl2onnx")
    return made.SerializeToString()


def scaler(fitted):
    """A StandardScaler before: from x to what the classifier reads."""
    if fitted is None:
        return [], "x"
    scale = (1 / fitted.scale_).astype(np.float32).tolist()
    offset = fitted.mean_.astype(np.float32).tolist()
    return [node("Scaler", ["x"], ["scaled"], domain=ML, offset=offset, scale=scale)], "scaled"


def transform_of(fitted):
    if not isinstance(fitted, LogisticRegression):
        return "NONE"
    ovr = fitted.multi_class == "ovr" or fitted.solver == "liblinear"
    return "LOGISTIC" if ovr else "SOFTMAX"


def linear(fitted, before=None, zipped=True, more=(), more_outputs=(), ml=1):
    """LogisticRegression, RidgeClassifier or LinearSVC in single precision: label and
    probabilities, or maps of them."""
    labels, suffix, kind = labels_of(fitted.classes_)
    nodes, source = scaler(before)
    layer = node("LinearClassifier", [source], ["raw_label", "scores"], domain=ML, name="linear")
    for name, value in (
        ("classlabels_" + suffix, labels),
        ("coefficients", fitted.coef_.astype(np.float32).flatten().tolist()),
        ("intercepts", np.broadcast_to(fitted.intercept_, len(labels)).astype(np.float32).tolist()),
        ("multi_class", 1),
        ("post_transform", transform_of(fitted)),
    ):
        layer.attribute.append(helper.make_attribute(name, value))
    nodes = nodes + [layer]
    last = (
        node("Identity", ["scores"], ["probabilities"])
        if transform_of(fitted) == "NONE"
        else node("Normalizer", ["scores"], ["probabilities"], domain=ML, norm="L1")
    )
    nodes.append(last)
    cast = node("Cast", ["raw_label"], ["label"], to=TensorProto.INT64)
    nodes.append(cast if suffix == "ints" else node("Identity", ["raw_label"], ["label"]))
    outputs = [helper.make_tensor_value_info("label", kind, [None])]
    shape = [None, len(labels)]
    scores = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, shape)
    zips, zip_outputs = zip_map(fitted.classes_) if zipped else ([], [])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, fitted.coef_.shape[1]])
    return model(
        nodes + zips + list(more), [x], outputs + [scores] + zip_outputs + list(more_outputs), ml=ml
    )


def table(classes, name="classes"):
    labels, _, _ = labels_of(classes)
    if classes.dtype.kind in "US":
        words = [word.encode() for word in labels]
        return helper.make_tensor(name, TensorProto.STRING, [len(words)], words)
    return numpy_helper.from_array(np.array(labels, np.int32), name)


def looked_up(classes):
    """The label of the largest of 'probabilities'."""
    strings = classes.dtype.kind in "US"
    nodes = [
        node("ArgMax", ["probabilities"], ["best"], axis=1),
        node("ArrayFeatureExtractor", ["classes", "best"], ["found"], domain=ML),
        node("Reshape", ["found", "flat"], ["label" if strings else "row"]),
    ]
    if not strings:
        nodes.append(node("Cast", ["row"], ["label"], to=TensorProto.INT64))
    kind = TensorProto.STRING if strings else TensorProto.INT64
    tensors = [table(classes), numpy_helper.from_array(np.array([-1]), "flat")]
    return nodes, tensors, [helper.make_tensor_value_info("label", kind, [None])]


def layers(weights, classes, dtype, zipped=True, more=(), more_outputs=(), ml=1):
    """[(W, b), ...] with Relu between, then Softmax: LogisticRegression in double precision, or an
    MLPClassifier."""
    kind, nodes, tensors, value = KINDS[dtype], [], [], "x"
    for i, (w, b) in enumerate(weights):
        tensors.append(numpy_helper.from_array(w.astype(dtype), "W%d" % i))
        tensors.append(numpy_helper.from_array(np.atleast_2d(b).astype(dtype), "b%d" % i))
        nodes.append(node("MatMul", [value, "W%d" % i], ["product%d" % i]))
        nodes.append(node("Add", ["product%d" % i, "b%d" % i], ["sum%d" % i]))
        value = "sum%d" % i
        if i + 1 < len(weights):
            nodes.append(node("Relu", [value], ["hidden%d" % i]))
            value = "hidden%d" % i
    made = "softmax" if dtype == np.float64 and zipped else "probabilities"
    nodes.append(node("Softmax", [value], [made], axis=1))
    if made != "probabilities":  # a ZipMap reads single precision
        nodes.append(node("Cast", [made], ["probabilities"], to=TensorProto.FLOAT))
    names, stored, outputs = looked_up(classes)
    kind_out = TensorProto.FLOAT if zipped else kind
    shape = [None, len(classes)]
    outputs.append(helper.make_tensor_value_info("probabilities", kind_out, shape))
    zips, zip_outputs = zip_map(classes) if zipped else ([], [])
    x = helper.make_tensor_value_info("x", kind, [None, weights[0][0].shape[0]])
    return model(
        nodes + names + zips + list(more),
        [x],
        outputs + zip_outputs + list(more_outputs),
        tensors + stored,
        ml=ml,
    )
