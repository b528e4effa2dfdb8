"""random_graphs.make(seed): a random classifier in ONNX, with NumPy for every step of it.

A Case has the model's bytes, the input `x` for it, the features `f` and logits `z` that NumPy gets,
and for every output a function of logits and of the classes that are there, which says what the
output must be. What a deletion changes follows from these: they are told nothing of files."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from model_parts import maps_out

ML = "ai.onnx.ml"
ELEMENT = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float64): TensorProto.DOUBLE,
    np.dtype(np.int64): TensorProto.INT64,
}
SAMPLES = 160


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


class Case:
    """`steps` behind the logits make outputs; `shows`: a common shift of the logits shows."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.tensors, self.outputs, self.expected = [], [], [], {}
        self.shows = False  # a common shift of the logits shows in an output
        self.checkable = True  # by python3-onnx, which knows no maps and wants sorted nodes
        self.count = 0
        self.opset = int(self.choose([11, 13, 15]))
        self.double = self.chance(0.25)
        self.dtype = np.dtype(np.float64 if self.double else np.float32)
        self.k = int(self.rng.integers(4, 9))
        self.p = int(self.rng.integers(5, 14))
        while self.p == self.k:
            self.p += 1
        self.labels = self.make_labels()

    # ---- dice

    def chance(self, p):
        return self.rng.random() < p

    def choose(self, things):
        return things[self.rng.integers(len(things))]

    def numbers(self, *shape):
        return self.rng.standard_normal(shape).astype(self.dtype)

    def make_labels(self):
        kind = self.choose(["words", "counted", "odd"])
        if kind == "words":
            words = ["ada", "bob", "cyd", "dan", "eve", "fay", "gus", "hal"][: self.k]
            return np.array(["%s%s" % (word, self.rng.integers(100, 999)) for word in words])
        if kind == "counted":
            return np.arange(self.k)
        return self.rng.choice(1000, self.k, replace=False)

    # ---- graph

    def name(self, stem):
        self.count += 1
        return "%s_%d" % (stem, self.count)

    def add(self, op, inputs, stem=None, **attributes):
        made = self.name(stem or op.lower())
        named = {"name": self.name("n_" + op)} if self.chance(0.7) else {}
        self.nodes.append(helper.make_node(op, inputs, [made], **named, **attributes))
        return made

    def store(self, array, stem="t"):
        """A stored tensor, plainly or behind what only rearranges it."""
        array = np.asarray(array)
        name = self.name(stem)
        how = self.choose(["plain", "plain", "plain", "constant", "identity", "transposed", "flat"])
        if how == "constant":
            return self.add("Constant", [], stem, value=numpy_helper.from_array(array))
        if how == "transposed" and array.ndim == 2:
            self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(array.T), name))
            return self.add("Transpose", [name], stem, perm=[1, 0])
        if how == "flat" and array.ndim == 2:
            self.tensors.append(numpy_helper.from_array(array.flatten(), name))
            shape = self.plain(np.array(array.shape))
            return self.add("Reshape", [name, shape], stem)
        self.tensors.append(numpy_helper.from_array(array, name))
        return self.add("Identity", [name], stem) if how == "identity" else name

    def plain(self, array, stem="c"):
        name = self.name(stem)
        self.tensors.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def number(self, value):
        shape = self.choose([(), (1,), (1, 1)])
        return self.plain(np.full(shape, value, self.dtype))

    def output(self, value, expected, kind, shape):
        self.outputs.append(helper.make_tensor_value_info(value, kind, shape))
        self.expected[value] = expected

    def axes(self, op, value, axes):
        if self.opset < 13:
            return self.add(op, [value], axes=axes)
        return self.add(op, [value, self.plain(np.array(axes))])

    def reduce_sum(self, value):
        if self.opset < 13:
            return self.add("ReduceSum", [value], axes=[1], keepdims=1)
        return self.add("ReduceSum", [value, self.plain(np.array([1]))], keepdims=1)

    # ---- body and layer: the value of the logits

    def body(self):
        d = int(self.rng.integers(4, 9))
        self.x = (2 * self.rng.standard_normal((SAMPLES, d))).astype(self.dtype)
        w, b = self.numbers(d, self.p), self.numbers(self.p)
        self.f = np.maximum(self.x.astype(float) @ w + b, 0)
        product = self.add("MatMul", ["x", self.plain(w, "body_w")])
        return self.add("Relu", [self.add("Add", [product, self.plain(b, "body_b")])], "features")

    def layer(self, f):
        k, p = self.k, self.p
        # Every class is the largest for some samples, so that labels can come from the logits.
        w = self.numbers(k, p)
        w = (w / np.linalg.norm(w, axis=1, keepdims=True)).astype(self.dtype)
        b = (0.2 * self.numbers(k) - self.f.mean(0) @ w.T).astype(self.dtype)
        exact_w, exact_b = w.astype(float), b.astype(float)
        kind = self.choose(["gemm", "gemm", "matmul", "left", "conv", "classifier"])
        if kind in ("classifier", "conv") and self.double:
            kind = "gemm"  # ONNX Runtime has these in single precision
        biased = self.chance(0.7)
        if kind == "classifier":
            return self.classifier(f, w, b)
        if kind == "gemm":
            alpha, beta = self.choose([(1.0, 1.0), (1.0, 1.0), (0.5, 2.0)])
            turned = self.chance(0.5)
            inputs = [f, self.store(w if turned else w.T.copy(), "W")]
            if biased:
                inputs.append(self.store(b if self.chance(0.6) else b[None], "b"))
            value = self.add("Gemm", inputs, "logits", transB=int(turned), alpha=alpha, beta=beta)
            exact_w, exact_b = alpha * exact_w, beta * exact_b
        elif kind == "matmul":
            value = self.add("MatMul", [f, self.store(w.T.copy(), "W")], "logits")
            if biased:
                inputs = [value, self.store(b, "b")]
                value = self.add("Add", inputs[:: self.choose([1, -1])], "biased")
        elif kind == "left":
            turned = self.add("Transpose", [f], perm=[1, 0])
            value = self.add("MatMul", [self.store(w, "W"), turned], "logits")
            if biased:
                value = self.add("Add", [value, self.store(b[:, None].copy(), "b")])
            value = self.add("Transpose", [value], perm=[1, 0])
        else:
            value, scale, biased = self.convolution(f, w, b, biased)
            exact_w = exact_w * scale[:, None]
        self.z = self.f @ exact_w.T + (exact_b if biased else 0)
        if kind in ("gemm", "matmul"):
            value = self.folds(value)
        return value

    def convolution(self, f, w, b, biased):
        """1 x 1, on a map of one position that is pooled all the same."""
        value = self.axes("Unsqueeze", f, [2, 3])
        inputs = [value, self.plain(w[:, :, None, None].copy(), "W")]
        value = self.add("Conv", inputs + ([self.plain(b, "b")] if biased else []), "map")
        scale = np.ones(self.k, self.dtype)
        if not biased and self.chance(0.6):
            scale, biased = np.exp(0.3 * self.numbers(self.k)).astype(self.dtype), True
            value = self.add("Mul", [value, self.plain(scale[:, None, None].copy())])
            value = self.add("Add", [value, self.plain(b[None, :, None, None].copy())])
        value = self.add("Flatten", [self.add("GlobalAveragePool", [value])])
        return value, scale.astype(float), biased

    def folds(self, value):
        """Steps that scale and shift every class by itself."""
        if not self.chance(0.35):
            return value
        k = self.k
        scale, shift = np.exp(0.3 * self.numbers(k)).astype(self.dtype), self.numbers(k)
        if self.chance(0.5):
            mean, variance = self.numbers(k), np.exp(self.numbers(k)).astype(self.dtype)
            parts = [self.plain(v) for v in (scale, shift, mean, variance)]
            value = self.add("BatchNormalization", [value, *parts], epsilon=1e-3)
            exact = scale.astype(float) / np.sqrt(variance.astype(float) + np.float32(1e-3))
            self.z = (self.z - mean) * exact + shift
            return value
        if self.chance(0.6):
            value = self.add("Mul", [value, self.plain(scale)])
            self.z = self.z * scale
        if self.chance(0.3):
            value = self.add("Mul", [value, self.number(0.5)])
            self.z = self.z * 0.5
        value = self.add("Sub", [value, self.plain(shift)])
        self.z = self.z - shift
        return value

    def classifier(self, f, w, b):
        """Its label and scores are outputs of their own."""
        words = self.labels.dtype.kind == "U"
        suffix = "strings" if words else "ints"
        transform = self.choose(["NONE", "SOFTMAX", "LOGISTIC"])
        label, scores = self.name("label"), self.name("scores")
        listed = {"classlabels_" + suffix: self.labels.tolist()}
        self.nodes.append(helper.make_node(
            "LinearClassifier", [f], [label, scores], domain=ML, name="linear",
            coefficients=w.flatten().tolist(), intercepts=b.tolist(), post_transform=transform,
            **listed))  # fmt: skip
        self.z = self.f @ w.astype(float).T + b
        kind = TensorProto.STRING if words else TensorProto.INT64
        self.output(label, lambda z, names: names[z.argmax(1)], kind, [None])
        of = {
            "NONE": lambda z, names: z,
            "SOFTMAX": lambda z, names: softmax(z),
            "LOGISTIC": lambda z, names: 1 / (1 + np.exp(-z)),
        }[transform]
        if transform != "NONE" and self.chance(0.6):
            scores = self.add("Normalizer", [scores], domain=ML, norm="L1")
            inner = of
            of = lambda z, names: inner(z, names) / inner(z, names).sum(1, keepdims=True)
        self.shows = transform != "SOFTMAX"
        if self.chance(0.5):
            self.zip(scores)
        self.output(scores, of, TensorProto.FLOAT, [None, self.k])
        return None

    # ---- behind the logits

    def zip(self, value):
        words = self.labels.dtype.kind == "U"
        listed = {"classlabels_strings" if words else "classlabels_int64s": self.labels.tolist()}
        made = self.add("ZipMap", [value], "maps", domain=ML, **listed)
        key = TensorProto.STRING if words else TensorProto.INT64
        self.outputs.append(maps_out(made, key))
        self.expected[made] = None  # the same numbers as `value`
        self.zipped, self.checkable = (made, value), False

    def wander(self, value):
        """Steps that change nothing but the form."""
        for _ in range(self.rng.integers(0, 4)):
            step = self.choose(["identity", "cast", "rank", "reshape", "turn", "shape"])
            if step == "identity":
                value = self.add("Identity", [value])
            elif step == "cast":
                value = self.add("Cast", [value], to=TensorProto.DOUBLE)
                value = self.add("Cast", [value], to=ELEMENT[self.dtype])
            elif step == "rank":
                axis = int(self.choose([1, 2]))
                value = self.axes("Unsqueeze", value, [axis])
                value = self.axes("Squeeze", value, [axis])
            elif step == "reshape":
                shape = self.choose([[-1, self.k], [0, self.k], [0, -1]])
                value = self.add("Reshape", [value, self.plain(np.array(shape))])
            elif step == "turn":
                value = self.add("Transpose", [value], perm=[1, 0])
                value = self.add("Transpose", [value], perm=[1, 0])
            else:
                shape = self.add("Shape", [value])
                value = self.add("Reshape", [value, shape])
        return value

    def spelled_out(self, value):
        top = self.add("ReduceMax", [value], axes=[1], keepdims=1)
        form = self.choose(["plain", "infinite", "expanded", "log"])
        if form == "infinite":
            inputs = [top, self.number(-np.inf)]
            top = self.add("Max", inputs[:: self.choose([1, -1])])
        if form == "expanded":
            top = self.add("Expand", [top, self.plain(np.array([1, self.k]))])
        centred = self.add("Sub", [value, top])
        if form == "log":
            total = self.add("Log", [self.reduce_sum(self.add("Exp", [centred]))])
            return self.add("Exp", [self.add("Sub", [centred, total])])
        e = self.add("Exp", [centred])
        return self.add("Div", [e, self.reduce_sum(e)])

    def scores(self, value):
        """One number per class, made of the logits."""
        scale = float(self.choose([1.0, 1.0, 0.5, 2.0]))
        if scale != 1:
            value = self.add("Mul", [value, self.number(scale)])
        kind = self.choose(["logits", "softmax", "softmax", "log", "spelled", "relu", "sigmoid"])
        if kind == "softmax":
            value = self.add("Softmax", [value], axis=1)
            of = lambda z, names: softmax(scale * z)
        elif kind == "log":
            value = self.add("LogSoftmax", [value], axis=1)
            of = lambda z, names: np.log(softmax(scale * z))
        elif kind == "spelled":
            value = self.spelled_out(value)
            of = lambda z, names: softmax(scale * z)
        elif kind == "relu":
            value = self.add("Relu", [value])
            of = lambda z, names: np.maximum(scale * z, 0)
        elif kind == "sigmoid":
            value = self.add("Sigmoid", [value])
            of = lambda z, names: 1 / (1 + np.exp(-scale * z))
        else:
            of = lambda z, names: scale * z
        self.shows = self.shows or kind in ("relu", "sigmoid")
        self.kind = kind
        return value, of

    def choices(self, value):
        """Answers that name a class. Of the logits, so that no two of them are the same."""
        if self.chance(0.5):
            best = self.add("ArgMax", [value], "best", axis=1, keepdims=0)
            self.answer(best, lambda z: z.argmax(1), [None])
        if self.chance(0.3):
            values, places = self.name("top"), self.name("places")
            self.nodes.append(helper.make_node("TopK", [value, self.plain(np.array([2]))],
                                               [values, places], axis=1))  # fmt: skip
            self.answer(places, lambda z: np.argsort(-z, 1)[:, :2], [None, 2])

    def answer(self, index, of, shape):
        words = self.labels.dtype.kind == "U"
        kind = TensorProto.STRING if words else TensorProto.INT64
        form = self.choose(["index", "gather", "encoder"])
        if form == "index":
            return self.output(index, lambda z, names: of(z), TensorProto.INT64, shape)
        if form == "encoder":
            values = {"values_strings" if words else "values_int64s": self.labels.tolist()}
            label = self.add("LabelEncoder", [index], "label", domain=ML,
                             keys_int64s=list(range(self.k)), **values)  # fmt: skip
        else:
            if words:
                table = self.name("labels")
                texts = [t.encode() for t in self.labels]
                self.tensors.append(helper.make_tensor(table, TensorProto.STRING, [self.k], texts))
            else:
                table = self.plain(self.labels.astype(np.int64), "labels")
            label = self.add("Gather", [table, index], "label")
        self.output(label, lambda z, names: names[of(z)], kind, shape)

    # ---- the whole

    def make(self):
        f = self.body()
        self.features = f
        value = self.layer(f)
        if value is not None:
            value = self.wander(value)
            self.choices(value)
            scores, of = self.scores(value)
            scores = self.wander(scores)
            self.output(scores, of, ELEMENT[self.dtype], [None, self.k])
        if self.chance(0.2):
            self.output(f, lambda z, names: self.f, ELEMENT[self.dtype], [None, self.p])
        if self.chance(0.3):
            self.second_head(f)
        return self

    def second_head(self, f):
        w = self.numbers(3, self.p)
        value = self.add("Gemm", [f, self.plain(w, "second_w")], "second", transB=1)
        wanted = self.f @ w.astype(float).T
        self.output(value, lambda z, names: wanted, ELEMENT[self.dtype], [None, 3])
        self.second = value

    def model(self):
        nodes = list(self.nodes)
        if self.chance(0.2):
            self.rng.shuffle(nodes)
            self.checkable = False
        x = helper.make_tensor_value_info("x", ELEMENT[self.dtype], ["n", self.x.shape[1]])
        graph = helper.make_graph(nodes, "random", [x], self.outputs, self.tensors)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(ML, 2)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        if self.checkable and self.chance(0.5):
            made = shape_inference.infer_shapes(made)
        if self.labels.dtype.kind == "U" and self.chance(0.3):
            entry = made.metadata_props.add()
            entry.key, entry.value = "names", str(dict(enumerate(self.labels.tolist())))
        return made


def make(seed):
    return Case(seed).make()


if __name__ == "__main__":
    import sys

    case = make(int(sys.argv[1]))
    print(onnx.helper.printable_graph(case.model().graph))
