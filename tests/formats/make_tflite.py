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


def operator(code, inputs, outputs, **options):
    fields = Table({0: ("I", code), 1: Vector("i", inputs), 2: Vector("i", outputs)})
    if options:
        fields[3], fields[4] = ("B", 8), Table({0: ("b", options["activation"])})
    return fields


def model(
    weights, bias, tail=(SOFTMAX,), kind=FLOAT32, scales=None, logits=FLOAT32, labels=None, **more
):
    """weights: classes x features as they are stored. `scales`: of the weights if kind is INT8."""
    k, p = weights.shape
    zeros = None if scales is None else [0] * len(scales)
    data = [b"", weights.tobytes()]
    tensors = [
        tensor(
            "x",
            [1, p],
            INT8 if scales is not None and logits == INT8 else FLOAT32,
            0,
            *(([0.5], [3]) if logits == INT8 else ())
        ),
        tensor("head/MatMul", [k, p], kind, 1, scales, zeros),
    ]
    inputs = [0, 1, -1]
    if bias is not None:
        integers = bias.dtype == np.int32
        bias_scales = [0.5 * s for s in scales] if integers else None
        tensors.append(
            tensor(
                "head/bias",
                [k],
                INT32 if integers else FLOAT32,
                2,
                bias_scales,
                zeros if integers else None,
            )
        )
        data.append(bias.tobytes())
        inputs[2] = 2
    quantised = ([0.25], [-5]) if logits == INT8 else ()
    tensors.append(tensor("logits", [1, k], logits, 0, *quantised))
    operators = [
        (FULLY_CONNECTED, inputs, [len(tensors) - 1], {"activation": more.get("activation", 0)})
    ]
    for code in tail:
        out = FLOAT32 if code == DEQUANTIZE else logits if code != ARG_MAX else INT32
        tensors.append(
            tensor(
                "out%d" % len(tensors),
                [1] if code == ARG_MAX else [1, k],
                out,
                0,
                *(quantised if out == INT8 else ())
            )
        )
        operators.append((code, [len(tensors) - 2], [len(tensors) - 1], {}))
    codes = sorted({code for code, *_ in operators})
    if more.get("share") == "buffer":
        tensors.append(tensor("twin", [k, p], kind, 1, scales, zeros))
    if more.get("share") == "shape":
        tensors.append(tensor("twin", [k, p], kind, 0))
    if more.get("read_twice"):
        operators.append((LOGISTIC, [len(tensors) - 2], [0], {}))
        codes = sorted(set(codes) | {LOGISTIC})
    graph = Table(
        {
            0: tensors,
            1: Vector("i", [0]),
            2: Vector(
                "i", [more.get("output", len(tensors) - 1 - (more.get("share") is not None))]
            ),
            3: [operator(codes.index(code), i, o, **options) for code, i, o, options in operators],
        }
    )
    root = Table(
        {
            0: ("I", 3),
            1: [Table({0: ("b", code), 3: ("i", code)}) for code in codes],
            2: [graph],
            3: "made for a test",
            4: [Table({0: Vector("B", d, 16)}) if d else Table() for d in data],
        }
    )
    content = Writer(root).data
    if more.get("share") == "shape":  # the weights' shape is the twin's
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
    weights = real(graph["tensors"][inputs[1]])
    biased = len(inputs) > 2 and inputs[2] >= 0
    return weights, real(graph["tensors"][inputs[2]]) if biased else np.zeros(len(weights))
