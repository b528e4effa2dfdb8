"""TensorFlow Lite files with one FULLY_CONNECTED layer at their end, written here byte by byte,
and a reader of such files, which knows nothing of the program under test."""

import io
import struct
import zipfile

import numpy as np

FLOAT32, FLOAT16, INT32, UINT8, INT8 = 0, 1, 2, 3, 9
TYPES = {0: np.float32, 1: np.float16, 2: np.int32, 3: np.uint8, 9: np.int8}
DEQUANTIZE, FULLY_CONNECTED, LOGISTIC, RESHAPE, SOFTMAX, ARG_MAX, QUANTIZE = (
    6,
    9,
    14,
    22,
    25,
    56,
    114,
)
SIZES = {"b": 1, "B": 1, "i": 4, "I": 4, "f": 4, "q": 8, "Q": 8}


class Table(dict):
    """{field: (format, number) or Table or list of Tables or Vector or text}"""


class Vector:
    def __init__(self, fmt, values, align=4):
        self.fmt, self.values, self.align = fmt, values, align


class Writer:
    """Children follow their parents, so that every offset points forward."""

    def __init__(self, root):
        self.data = bytearray(struct.pack("<I4s", 0, b"TFL3"))
        self.fix(0, self.put(root))

    def fix(self, at, target):
        struct.pack_into("<I", self.data, at, target - at)

    def align(self, size, shift=0):
        while (len(self.data) + shift) % size:
            self.data.append(0)

    def put(self, thing):
        if isinstance(thing, Table):
            at = self.put_table(thing)
        elif isinstance(thing, list):
            self.align(4)
            at = len(self.data)
            self.data += struct.pack("<I", len(thing)) + bytes(4 * len(thing))
            for i, part in enumerate(thing):
                self.fix(at + 4 + 4 * i, self.put(part))
        else:
            text = isinstance(thing, str)
            vector = Vector("B", thing.encode()) if text else thing
            self.align(max(vector.align, SIZES[vector.fmt]), 4)
            at = len(self.data)
            self.data += struct.pack("<I", len(vector.values))
            self.data += struct.pack("<%d%s" % (len(vector.values), vector.fmt), *vector.values)
            self.data += b"\0" if text else b""
        return at

    def put_table(self, fields):
        inline, size = {}, 4
        for number, value in sorted(fields.items()):
            width = SIZES[value[0]] if isinstance(value, tuple) else 4
            size += -size % width
            inline[number] = size
            size += width
        offsets = [inline.get(n, 0) for n in range(max(fields, default=-1) + 1)]
        self.align(8)
        listed = len(self.data)
        self.data += struct.pack("<HH%dH" % len(offsets), 4 + 2 * len(offsets), size, *offsets)
        self.align(8)
        at = len(self.data)
        self.data += struct.pack("<i", at - listed) + bytes(size - 4)
        for number, value in fields.items():
            if isinstance(value, tuple):
                struct.pack_into("<" + value[0], self.data, at + inline[number], value[1])
            else:
                self.fix(at + inline[number], self.put(value))
        return at


def tensor(name, shape, kind=FLOAT32, buffer=0, scales=None, zeros=None):
    fields = Table({0: Vector("i", shape), 1: ("b", kind), 2: ("I", buffer), 3: name})
    fields[7] = Vector("i", [-1] + list(shape[1:]) if buffer == 0 else list(shape))
    if scales is not None:
        quantised = Table({2: Vector("f", scales), 3: Vector("q", zeros)})
        quantised[0], quantised[1] = Vector("f", scales), Vector("f", scales)
        fields[4] = quantised
    return fields


def operator(number, inputs, outputs, options):
    """options: their kind and table, or None."""
    fields = Table({0: ("I", number), 1: Vector("i", inputs), 2: Vector("i", outputs)})
    if options is not None:
        fields[3], fields[4] = ("B", options[0]), options[1]
    return fields


# What TensorFlow Lite wants to be told: the exponent's factor, the type of an index.
OPTIONS = {SOFTMAX: (9, Table({0: ("f", 1.0)})), ARG_MAX: (40, Table({0: ("b", INT32)}))}


class Parts:
    """Tensors, buffers and operators of a graph, in the order in which they are added."""

    def __init__(self):
        self.tensors, self.data, self.operators = [], [b""], []

    def add(self, *words):
        self.tensors.append(tensor(*words))
        return len(self.tensors) - 1

    def constant(self, name, values, kind, scales=None):
        self.data.append(values.tobytes())
        zeros = None if scales is None else [0] * len(scales)
        number = len(self.data) - 1
        return self.add(name, list(values.shape), kind, number, scales, zeros)

    def widened(self, half, code):
        """float32 of a constant of 16 bits, as the converter's option float16 writes it."""
        fields = self.tensors[half]
        wide = self.add(fields[3] + "_dequantize", list(fields[0].values), FLOAT32, 0)
        self.operators.append((code, [half], [wide], None))
        return wide

    def tail(self, code, last, classes, logits):
        """An operator behind the head; its result."""
        kind = {DEQUANTIZE: FLOAT32, ARG_MAX: INT32}.get(code, logits)
        # Probabilities of 8 bits are always on this grid.
        grid = ([1 / 256], [-128]) if kind == INT8 else ()
        inputs = [last]
        if code == ARG_MAX:
            inputs.append(self.constant("axis", np.array([-1], np.int32), INT32))
        name = "out%d" % len(self.tensors)
        made = self.add(name, [1] if code == ARG_MAX else [1, classes], kind, 0, *grid)
        self.operators.append((code, inputs, [made], OPTIONS.get(code)))
        return made


def model(
    weights, bias, tail=(SOFTMAX,), kind=FLOAT32, scales=None, logits=FLOAT32, labels=None, **more
):
    """weights: classes x features as they are stored. `scales`: of the weights if kind is INT8."""
    k, p = weights.shape
    parts = Parts()
    parts.add("x", [1, p], logits, 0, *(([0.5], [3]) if logits == INT8 else ()))
    inputs = [0, parts.constant("head/MatMul", weights, kind, scales), -1]
    if bias is not None:
        integers = bias.dtype == np.int32
        bias_kind = INT32 if integers else kind if kind == FLOAT16 else FLOAT32
        bias_scales = [0.5 * s for s in scales] if integers else None
        inputs[2] = parts.constant("head/bias", bias, bias_kind, bias_scales)
    if kind == FLOAT16:
        by = more.get("widened_by", DEQUANTIZE)
        inputs[1:] = [parts.widened(i, by) if i > 0 else i for i in inputs[1:]]
    grid = ([more.get("logit_scale", 0.25)], [-5]) if logits == INT8 else ()
    last = parts.add("logits", [1, k], logits, 0, *grid)
    activation = (8, Table({0: ("b", more.get("activation", 0))}))
    parts.operators.append((FULLY_CONNECTED, inputs, [last], activation))
    for code in tail:
        last = parts.tail(code, last, k, logits)
    if more.get("share") == "buffer":
        parts.add("twin", [k, p], kind, 1, scales, scales and [0] * len(scales))
    if more.get("share") == "shape":
        parts.add("twin", [k, p], kind, 0)
    if more.get("weights_read_twice"):
        parts.operators.append((LOGISTIC, [inputs[1]], [0], None))
    if more.get("read_twice"):
        parts.operators.append((LOGISTIC, [last - 1], [0], None))
    return packed(parts, more.get("output", last), more.get("share") == "shape", labels)


def packed(parts, output, shared_shape, labels):
    """The file's bytes."""
    codes = sorted({code for code, *_ in parts.operators})
    graph = Table(
        {
            0: parts.tensors,
            1: Vector("i", [0]),
            2: Vector("i", [output]),
            3: [operator(codes.index(code), *words) for code, *words in parts.operators],
        }
    )
    root = Table(
        {
            0: ("I", 3),
            1: [Table({0: ("b", code), 3: ("i", code)}) for code in codes],
            2: [graph],
            3: "made for a test",
            4: [Table({0: Vector("B", d, 16)}) if d else Table() for d in parts.data],
        }
    )
    content = Writer(root).data
    if shared_shape:  # the weights' shape is the twin's
        r = Reader(content)
        written = r.tables(r.tables(r.at("I", 0), 2)[0], 0)
        where = r.field(written[1], 0)
        struct.pack_into("<I", content, where, r.target(written[-1], 0) - where)
    content = bytes(content)
    if labels is None:
        return content
    stream = io.BytesIO(content)
    with zipfile.ZipFile(stream, "a") as archive:
        archive.writestr("labels.txt", "\n".join(labels))
        archive.writestr("other.json", "{}")
    return stream.getvalue()


class Reader:
    def __init__(self, data):
        self.data = data

    def at(self, fmt, where):
        return struct.unpack_from("<" + fmt, self.data, where)[0]

    def field(self, table, number):
        listed = table - self.at("i", table)
        if 4 + 2 * number >= self.at("H", listed):
            return None
        offset = self.at("H", listed + 4 + 2 * number)
        return table + offset if offset else None

    def number(self, table, number, fmt):
        where = self.field(table, number)
        return 0 if where is None else self.at(fmt, where)

    def target(self, table, number):
        where = self.field(table, number)
        return None if where is None else where + self.at("I", where)

    def vector(self, table, number, fmt):
        where = self.target(table, number)
        if where is None:
            return None
        return list(struct.unpack_from("<%d%s" % (self.at("I", where), fmt), self.data, where + 4))

    def tables(self, table, number):
        where = self.target(table, number)
        return [
            where + 4 + 4 * i + self.at("I", where + 4 + 4 * i) for i in range(self.at("I", where))
        ]


def read(data):
    """{tensors: [...], operators: [...], outputs: [...]} of the first graph."""
    r = Reader(data)
    root = r.at("I", 0)
    codes = [max(r.number(t, 0, "b"), r.number(t, 3, "i")) for t in r.tables(root, 1)]
    buffers = [bytes(r.vector(t, 0, "B") or b"") for t in r.tables(root, 4)]
    graph = r.tables(root, 2)[0]
    tensors = []
    for t in r.tables(graph, 0):
        shape, kind = r.vector(t, 0, "i"), r.number(t, 1, "b")
        q = r.target(t, 4)
        found = dict(shape=shape, kind=kind, signature=r.vector(t, 7, "i"), data=None)
        found["scales"] = r.vector(q, 2, "f") if q else None
        found["zeros"] = r.vector(q, 3, "q") if q else None
        content = buffers[r.number(t, 2, "I")]
        if content:
            found["data"] = np.frombuffer(content, TYPES[kind]).reshape(shape)
        tensors.append(found)
    operators = [
        (codes[r.number(o, 0, "I")], r.vector(o, 1, "i"), r.vector(o, 2, "i"))
        for o in r.tables(graph, 3)
    ]
    return dict(tensors=tensors, operators=operators, outputs=r.vector(graph, 2, "i"))


def real(t):
    """The numbers that a tensor stands for."""
    if not t["scales"]:
        return t["data"].astype(np.float64)
    shape = [-1] + [1] * (t["data"].ndim - 1)
    scales = np.array(t["scales"], np.float64).reshape(shape if len(t["scales"]) > 1 else [1])
    zeros = np.array(t["zeros"], np.float64).reshape(shape if len(t["zeros"]) > 1 else [1])
    return scales * (t["data"] - zeros)


def head(data):
    """Weights and bias of the last FULLY_CONNECTED layer, as the numbers that they stand for."""
    graph = read(data)
    _, inputs, _ = [op for op in graph["operators"] if op[0] == FULLY_CONNECTED][-1]
    narrow = {op[2][0]: op[1][0] for op in graph["operators"] if op[0] == DEQUANTIZE}
    inputs = [narrow.get(i, i) for i in inputs]
    weights = real(graph["tensors"][inputs[1]])
    biased = len(inputs) > 2 and inputs[2] >= 0
    return weights, real(graph["tensors"][inputs[2]]) if biased else np.zeros(len(weights))


def with_extent(data, number, axis, extent):
    """The file with another extent in the shape of a tensor: a mistake to be noticed."""
    data = bytearray(data)
    r = Reader(data)
    table = r.tables(r.tables(r.at("I", 0), 2)[0], 0)[number]
    struct.pack_into("<i", data, r.target(table, 0) + 4 + 4 * axis, extent)
    return bytes(data)
