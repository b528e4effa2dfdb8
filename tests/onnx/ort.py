"""ONNX Runtime from Python, for tests: Session(bytes).run({name: array}) gives every output of a
model, sequences of maps as lists of dictionaries. The same library as the program's, called here
by its C interface (positions in its table of functions never change), so that what the program
says of its own files is not all there is. Raises ImportError where there is no library."""
import ctypes
import os

import numpy as np
import onnx

CACHE = os.environ.get("OUBLI_DATA") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "oubli"
)
PLACES = [os.environ.get("OUBLI_ONNXRUNTIME", "")] + [
    os.path.join(CACHE, "runtime", kind, "libonnxruntime.so.1") for kind in ("full", "small")
]
TYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 9: np.bool_}
TYPES.update({10: np.float16, 11: np.float64})
NUMBERS = {np.dtype(kind): number for number, kind in TYPES.items()}
STRING, TENSOR, SEQUENCE, MAP = 8, 1, 2, 3

Handle = ctypes.c_void_p


class Runtime:
    def __init__(self):
        for place in PLACES:
            if place and os.path.exists(place):
                break
        else:
            raise ImportError("no ONNX Runtime; tools/get-runtime fetches one")
        base = ctypes.CDLL(place).OrtGetApiBase
        base.restype = ctypes.POINTER(Handle * 2)
        get_api = ctypes.CFUNCTYPE(ctypes.POINTER(Handle), ctypes.c_uint32)(base().contents[0])
        self.table = get_api(21)
        self.env = self.make(3, ctypes.c_int(3), b"tests")
        self.options = self.make(10)
        self.call(24, self.options, ctypes.c_int(1))
        self.memory = self.make(69, ctypes.c_int(0), ctypes.c_int(0))
        allocator = Handle()
        self.call(78, ctypes.byref(allocator))
        self.allocator = allocator

    def entry(self, position, result):
        return ctypes.CFUNCTYPE(result)(self.table[position])

    def call(self, position, *arguments):
        status = self.entry(position, Handle)(*arguments)
        if status:
            text = self.entry(2, ctypes.c_char_p)(Handle(status)).decode()
            self.release(93, Handle(status))
            raise RuntimeError(text)

    def make(self, position, *arguments):
        made = Handle()
        self.call(position, *arguments, ctypes.byref(made))
        return made

    def release(self, position, handle):
        self.entry(position, None)(handle)

    # ---- values

    def feed(self, array):
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        return self.make(
            49,
            self.memory,
            array.ctypes.data_as(Handle),
            ctypes.c_size_t(array.nbytes),
            shape,
            ctypes.c_size_t(array.ndim),
            ctypes.c_int(NUMBERS[array.dtype]),
        )

    def number(self, position, value, kind=ctypes.c_size_t):
        found = kind()
        self.call(position, value, ctypes.byref(found))
        return found.value

    def parts(self, value):
        """Of a sequence, or keys and values of a map."""
        for i in range(self.number(81, value)):
            part = self.make(80, value, ctypes.c_int(i), self.allocator)
            yield self.take(part)

    def take(self, value):
        kind = self.number(67, value, ctypes.c_int)
        try:
            if kind == TENSOR:
                return self.tensor(value)
            if kind == SEQUENCE:
                return list(self.parts(value))
            keys, values = self.parts(value)
            return dict(zip(keys.tolist(), values.tolist()))
        finally:
            self.release(96, value)

    def tensor(self, value):
        info = self.make(65, value)
        kind = self.number(60, info, ctypes.c_int)
        rank = self.number(61, info)
        shape = (ctypes.c_int64 * rank)()
        self.call(62, info, shape, ctypes.c_size_t(rank))
        self.release(99, info)
        count = int(np.prod(list(shape), dtype=np.int64))
        if kind == STRING:
            size = self.number(53, value)
            text = ctypes.create_string_buffer(size + 1)
            starts = (ctypes.c_size_t * max(count, 1))()
            self.call(54, value, text, ctypes.c_size_t(size), starts, ctypes.c_size_t(count))
            ends = list(starts)[1:count] + [size]
            words = [text.raw[a:b].decode() for a, b in zip(list(starts)[:count], ends)]
            return np.array(words, dtype=object).reshape(list(shape))
        dtype = np.dtype(TYPES[kind])
        data = Handle()
        self.call(51, value, ctypes.byref(data))
        raw = ctypes.string_at(data, count * dtype.itemsize) if count else b""
        return np.frombuffer(raw, dtype).reshape(list(shape))


_runtime = None


def runtime():
    global _runtime
    _runtime = _runtime or Runtime()
    return _runtime


class Session:
    def __init__(self, model):
        """`model`: a path, or its bytes where nothing lies outside the file."""
        self.bytes = model if isinstance(model, bytes) else open(model, "rb").read()
        graph = onnx.load_model_from_string(self.bytes).graph
        self.outputs = [output.name for output in graph.output]
        self.api = runtime()
        self.session = self.api.make(
            8,
            self.api.env,
            ctypes.c_char_p(self.bytes),
            ctypes.c_size_t(len(self.bytes)),
            self.api.options,
        )

    def run(self, inputs):
        arrays = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        values = [self.api.feed(array) for array in arrays.values()]
        names = (ctypes.c_char_p * len(arrays))(*(name.encode() for name in arrays))
        wanted = (ctypes.c_char_p * len(self.outputs))(*(name.encode() for name in self.outputs))
        made = (Handle * len(self.outputs))()
        try:
            self.api.call(
                9,
                self.session,
                None,
                names,
                (Handle * len(values))(*(value.value for value in values)),
                ctypes.c_size_t(len(values)),
                wanted,
                ctypes.c_size_t(len(self.outputs)),
                made,
            )
            return {n: self.api.take(Handle(v)) for n, v in zip(self.outputs, made)}
        finally:
            for value in values:
                self.api.release(96, value)

    def __del__(self):
        if getattr(self, "session", None):
            self.api.release(95, self.session)
