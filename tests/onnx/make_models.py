#!/usr/bin/python3
"""Writes small ONNX classifiers with every form of last layer the tool must know, and some it must
refuse.  make_models.py FOLDER: NAME.onnx for each, and manifest.json:
{name: {"ok": bool, "reason": substring of the refusal, "code": its exit code, "classes": k,
"nonlinear": bool, "run": bool, whether samples can be run through it, ...}}."""
import json
import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from model_parts import B, D, K, Maker, NAMES, P, W, body, image_body, ints, out, tensor


# A table, one entry per model: lines are broken by hand.
# fmt: off
def make(folder):
    m = Maker(folder)
    nodes, inits = body()
    imnodes, iminits = image_body()
    node = helper.make_node

    def mlp(name, head, weights, outputs=None, **more):
        m.add(name, nodes + head, inits + weights, outputs or [out()], **more)

    # --- the layer itself
    mlp("gemm", [node("Gemm", ["f", "W", "b"], ["y"], transB=1)], [tensor("W", W), tensor("b", B)])
    mlp("gemm_plain", [node("Gemm", ["f", "W", "b"], ["y"])], [tensor("W", W.T), tensor("b", B)])
    mlp("gemm_alpha_beta", [node("Gemm", ["f", "W", "b"], ["y"], transB=1, alpha=0.5, beta=2.0)],
        [tensor("W", W), tensor("b", B)])
    mlp("gemm_no_bias", [node("Gemm", ["f", "W"], ["y"], transB=1)], [tensor("W", W)])
    mlp("gemm_beta_zero", [node("Gemm", ["f", "W", "b"], ["y"], transB=1, beta=0.0)],
        [tensor("W", W), tensor("b", B)])
    mlp("gemm_bias_row", [node("Gemm", ["f", "W", "b"], ["y"], transB=1)],
        [tensor("W", W), tensor("b", B[None])])
    mlp("gemm_bias_scalar", [node("Gemm", ["f", "W", "b"], ["y"], transB=1)],
        [tensor("W", W), tensor("b", B[:1])])
    mlp("gemm_trans_a", [node("Transpose", ["f"], ["ft"], perm=[1, 0]),
            node("Gemm", ["ft", "W", "b"], ["y"], transA=1, transB=1)],
        [tensor("W", W), tensor("b", B)])
    mlp("matmul", [node("MatMul", ["f", "W"], ["y"])], [tensor("W", W.T)])
    mlp("matmul_add", [node("MatMul", ["f", "W"], ["z"]), node("Add", ["z", "b"], ["y"])],
        [tensor("W", W.T), tensor("b", B)], value_info=[out("z")])
    mlp("add_matmul", [node("MatMul", ["f", "W"], ["z"]), node("Add", ["b", "z"], ["y"])],
        [tensor("W", W.T), tensor("b", B)])
    mlp("matmul_add_row", [node("MatMul", ["f", "W"], ["z"]), node("Add", ["z", "b"], ["y"])],
        [tensor("W", W.T), tensor("b", B[None])])
    mlp("matmul_less_bias", [node("MatMul", ["f", "W"], ["z"]), node("Sub", ["z", "b"], ["y"])],
        [tensor("W", W.T), tensor("b", -B)])
    # A scale between product and bias: of the layer, if it is one positive number. The first of
    # them is exact.
    scaled = lambda op, inputs: [node("MatMul", ["f", "W"], ["z"]), node(op, inputs, ["zs"]),
        node("Add", ["zs", "b"], ["y"])]
    mlp("matmul_scaled", scaled("Mul", ["z", "s"]),
        [tensor("W", W.T / 4), tensor("s", 4.0), tensor("b", B)], value_info=[out("z"), out("zs")])
    mlp("matmul_scaled_first", scaled("Mul", ["s", "z"]),
        [tensor("W", W.T / 3), tensor("s", [[3.0]]), tensor("b", B[None])])
    mlp("matmul_divided", scaled("Div", ["z", "s"]),
        [tensor("W", W.T * 3), tensor("s", [3.0]), tensor("b", B)])
    mlp("matmul_scaled_less_bias",
        scaled("Mul", ["z", "s"])[:2] + [node("Sub", ["zs", "b"], ["y"])],
        [tensor("W", W.T * 10), tensor("s", 0.1), tensor("b", -B)])
    mlp("matmul_left", [node("Transpose", ["f"], ["ft"], perm=[1, 0]),
            node("MatMul", ["W", "ft"], ["z"]), node("Add", ["z", "b"], ["zb"]),
            node("Transpose", ["zb"], ["y"], perm=[1, 0])],
        [tensor("W", W), tensor("b", B[:, None])])
    # --- where the numbers are
    mlp("typed_data", [node("Gemm", ["f", "W", "b"], ["y"], transB=1)],
        [tensor("W", W, typed=True), tensor("b", B, typed=True)])
    mlp("constant_nodes", [node("Constant", [], ["W"], value=tensor("", W)),
            node("Constant", [], ["b"], value_floats=B.tolist()),
            node("Gemm", ["f", "W", "b"], ["y"], transB=1)], [])
    mlp("reshape_of_initializer",
        [node("Reshape", ["W_flat", "W_shape"], ["W"]), node("MatMul", ["f", "W"], ["z"]),
            node("Add", ["z", "b"], ["y"])],
        [tensor("W_flat", W.T.reshape(P, K, 1)), ints("W_shape", [P, K]), tensor("b", B)])
    mlp("transpose_of_initializer",
        [node("Transpose", ["W0"], ["W"], perm=[1, 0]), node("MatMul", ["f", "W"], ["y"])],
        [tensor("W0", W)])
    mlp("identity_of_initializer",
        [node("Identity", ["W0"], ["W"]), node("Identity", ["b0"], ["b"]),
            node("Gemm", ["f", "W", "b"], ["y"], transB=1)], [tensor("W0", W), tensor("b0", B)])
    mlp("cast_of_initializer",
        [node("Cast", ["W0"], ["W"], to=TensorProto.FLOAT),
            node("Gemm", ["f", "W", "b"], ["y"], transB=1)],
        [tensor("W0", W, "f16"), tensor("b", B)])
    mlp("external", [node("Gemm", ["f", "W", "b"], ["y"], transB=1)],
        [tensor("W", W), tensor("b", B)], external=True)
    mlp("tied", [node("Gemm", ["f", "W", "b"], ["y"], transB=1),
            node("ReduceSum", ["W"], ["norm"], keepdims=0)], [tensor("W", W), tensor("b", B)],
        [out(), out("norm", [])], tied=True)
    mlp("tied_behind_transpose",
        [node("Transpose", ["W0"], ["W"], perm=[1, 0]), node("MatMul", ["f", "W"], ["y"]),
            node("ReduceSum", ["W0"], ["norm"], keepdims=0)], [tensor("W0", W)],
        [out(), out("norm", [])], tied=True)
    mlp("unused_copy", [node("Gemm", ["f", "W", "b"], ["y"], transB=1)],
        [tensor("W", W), tensor("b", B), tensor("old_W", W, "f16")])
    # --- number types
    for kind in ("f64", "f16", "bf16"):
        knodes, kinits = body(kind)
        for typed in (False, True):
            m.add(kind + ("_typed" if typed else ""),
                knodes + [node("Gemm", ["f", "W", "b"], ["y"], transB=1)],
                kinits + [tensor("W", W, kind, typed), tensor("b", B, kind, typed)],
                [out(kind=kind)], kind=kind)
        m.add(kind + "_external", knodes + [node("Gemm", ["f", "W", "b"], ["y"], transB=1)],
            kinits + [tensor("W", W, kind), tensor("b", B, kind)], [out(kind=kind)], kind=kind,
            external=True)
    # bfloat16 in constants alone, from and to float32
    weights = [node("Constant", [], [name], value=tensor("", array, "bf16")) for name,
        array in (("W", W), ("b", B))]
    mlp("bf16_constants", weights
        + [node("Cast", ["f"], ["f16"], to=TensorProto.BFLOAT16),
            node("Gemm", ["f16", "W", "b"], ["l"], transB=1),
            node("Cast", ["l"], ["y"], to=TensorProto.FLOAT)], [], kind="bf16",
        inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", D])])
    # --- convolutions
    kernel = W.reshape(K, P, 1, 1)
    pool_vi = [out("z", ["n", K, 4, 4])]
    m.add("conv_pool", imnodes
        + [node("Conv", ["m", "W", "b"], ["z"]), node("GlobalAveragePool", ["z"], ["g"]),
            node("Flatten", ["g"], ["l"]), node("Softmax", ["l"], ["y"], axis=1)],
        iminits + [tensor("W", kernel), tensor("b", B)], [out()], image=True, value_info=pool_vi)
    m.add("conv_reduce_mean", imnodes
        + [node("Conv", ["m", "W"], ["z"]),
            node("ReduceMean", ["z"], ["y"], axes=[2, 3], keepdims=0)],
        iminits + [tensor("W", kernel)], [out()], image=True)
    m.add("conv_on_one", imnodes
        + [node("GlobalAveragePool", ["m"], ["a"]), node("Conv", ["a", "W", "b"], ["z"]),
            node("Squeeze", ["z", "axes"], ["y"])],
        iminits + [tensor("W", kernel), tensor("b", B), ints("axes", [2, 3])], [out()], image=True)
    kb = [tensor("W", kernel), tensor("b", B)]

    def conv(name, tail, more=(), outputs=None, first=(), **how):
        """A convolution of the map m, or of what `first` makes of it (a), to z; `tail` makes y."""
        layer = node("Conv", ["a" if first else "m", "W", "b"], ["z"])
        m.add(name, imnodes + list(first) + [layer] + tail, iminits + kb + list(more),
            outputs or [out()], image=True, **how)

    average = [node("GlobalAveragePool", ["m"], ["a"])]
    conv("conv_squeeze_all", [node("Squeeze", ["z"], ["y"])], first=average)
    conv("conv_indexed", [node("Gather", ["z", "zero"], ["z3"], axis=3),
            node("Gather", ["z3", "zero"], ["y"], axis=2)],
        [numpy_helper.from_array(np.int64(0), "zero")], first=average)
    conv("conv_mean_twice", [node("ReduceMean", ["z"], ["r"], axes=[3], keepdims=0),
            node("ReduceMean", ["r"], ["y"], axes=[2], keepdims=0)])
    conv("conv_flat_mean", [node("Reshape", ["z", "s"], ["r"]),
            node("ReduceMean", ["r"], ["y"], axes=[2], keepdims=0)], [ints("s", [0, 0, -1])])
    conv("conv_counted_mean", [node("Reshape", ["z", "s"], ["r"]),
            node("ReduceMean", ["r"], ["y"], axes=[2], keepdims=0)], [ints("s", [0, K, 16])])
    conv("conv_whole_window", [node("AveragePool", ["z"], ["g"], kernel_shape=[4, 4]),
            node("Flatten", ["g"], ["y"])])
    conv("conv_padded_by_nothing",
        [node("Pad", ["z", "pads"], ["q"]), node("AveragePool", ["q"], ["g"], kernel_shape=[4, 4]),
            node("Flatten", ["g"], ["y"])], [ints("pads", [0] * 8)])
    conv("conv_scaled_pool", [node("Mul", ["z", "t"], ["q"]),
            node("GlobalAveragePool", ["q"], ["g"]), node("Flatten", ["g"], ["y"])],
        [tensor("t", 2.0)])
    conv("conv_last_pool", [node("Transpose", ["z"], ["t"], perm=[0, 2, 3, 1]),
            node("ReduceMean", ["t"], ["y"], axes=[1, 2], keepdims=0)])
    # --- what follows
    gemm = [node("Gemm", ["f", "W", "b"], ["l"], transB=1)]
    wb = [tensor("W", W), tensor("b", B)]
    mlp("softmax", gemm + [node("Softmax", ["l"], ["y"])], wb, value_info=[out("l")])
    mlp("log_softmax", gemm + [node("LogSoftmax", ["l"], ["y"], axis=-1)], wb)
    mlp("softmax_old", gemm + [node("Softmax", ["l"], ["y"])], wb, opset=11)
    mlp("softmax_spelled_out",
        gemm + [node("ReduceMax", ["l"], ["mx"], axes=[1]), node("Sub", ["l", "mx"], ["s"]),
            node("Exp", ["s"], ["e"]), node("ReduceSum", ["e", "axes"], ["sum"]),
            node("Div", ["e", "sum"], ["y"])], wb + [ints("axes", [-1])],
        value_info=[out("s"), out("e"), out("mx", ["n", 1])])
    mlp("temperature", gemm + [node("Div", ["l", "t"], ["s"]), node("Softmax", ["s"], ["y"])],
        wb + [tensor("t", 2.0)])
    mlp("chain", gemm + [node("Identity", ["l"], ["a"]), node("Dropout", ["a"], ["d"]),
            node("Cast", ["d"], ["c"], to=TensorProto.DOUBLE), node("Flatten", ["c"], ["fl"]),
            node("Cast", ["fl"], ["y"], to=TensorProto.FLOAT)], wb)
    mlp("reshape_count", gemm + [node("Reshape", ["l", "shape"], ["y"])],
        wb + [ints("shape", [-1, K])])
    m.add("reshape_shared", nodes + gemm
        + [node("Reshape", ["l", "shape"], ["l3"]), node("Reshape", ["aux", "shape"], ["aux2"]),
            node("Softmax", ["l3"], ["y"], axis=2)],
        inits + wb + [ints("shape", [-1, 1, K]), tensor("aux", np.ones(K))],
        [out(shape=["n", 1, K]), out("aux2", [1, 1, K])])
    mlp("unsqueeze", gemm + [node("Unsqueeze", ["l", "axes"], ["y"])], wb + [ints("axes", [1])],
        [out(shape=["n", 1, K])])
    mlp("reshape_copies", gemm
        + [node("Reshape", ["l", "shape"], ["r"]), node("Squeeze", ["r", "last"], ["s"]),
            node("Softmax", ["s"], ["y"])], wb + [ints("shape", [0, 0, -1]), ints("last", [2])])
    mlp("reshape_copies_out", gemm + [node("Reshape", ["l", "shape"], ["y"])],
        wb + [ints("shape", [0, 0, -1])], [out(shape=["n", K, 1])])
    two = [node("Reshape", ["l", "shape"], ["y"]), node("Reshape", ["l", "shape"], ["y2"])]
    mlp("reshape_twice", gemm + two, wb + [ints("shape", [-1, K])], [out(), out("y2")])
    size = lambda value: [node("Shape", [value], ["size"]),
        node("Gather", ["size", "first"], ["n0"], axis=0),
        node("Unsqueeze", ["n0", "front"], ["n1"])]
    of_size = [numpy_helper.from_array(np.int64(0), "first"), ints("front", [0])]
    mlp("view", gemm + size("l")
        + [node("Concat", ["n1", "rest"], ["shape"], axis=0),
            node("Reshape", ["l", "shape"], ["y"])], wb + of_size + [ints("rest", [-1])])
    mlp("view_of_input", gemm + size("x")
        + [node("Concat", ["n1", "rest"], ["shape"], axis=0),
            node("Reshape", ["l", "shape"], ["v"]), node("Softmax", ["v"], ["y"])],
        wb + of_size + [ints("rest", [-1])])
    mlp("view_counted", gemm + size("l")
        + [node("Concat", ["n1", "one", "rest"], ["shape"], axis=0),
            node("Reshape", ["l", "shape"], ["y"])],
        wb + of_size + [ints("one", [1]), ints("rest", [K])], [out(shape=["n", 1, K])])
    mlp("view_fixed", gemm + [node("Reshape", ["l", "shape"], ["y"])],
        wb + [ints("shape", [4, -1])], [out(shape=[4, K])],
        inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, D])])
    lifted = [node("Unsqueeze", ["f", "middle"], ["f3"]), node("MatMul", ["f3", "W"], ["z"]),
        node("Add", ["z", "b"], ["l3"])]
    wb3 = [tensor("W", W.T), tensor("b", B), ints("middle", [1])]
    mlp("matmul_lifted", lifted + [node("Softmax", ["l3"], ["y"], axis=-1)], wb3,
        [out(shape=["n", 1, K])])
    mlp("matmul_lifted_mean", lifted + [node("ReduceMean", ["l3"], ["y"], axes=[1], keepdims=0)],
        wb3)
    mlp("matmul_lifted_squeezed",
        lifted + [node("Softmax", ["l3"], ["s"], axis=2), node("Squeeze", ["s", "middle"], ["y"])],
        wb3)
    mlp("bias_of_rank_three", [node("MatMul", ["f", "W"], ["z"]), node("Add", ["z", "b"], ["l3"]),
            node("Softmax", ["l3"], ["y"])], [tensor("W", W.T), tensor("b", B[None, None])],
        [out(shape=[1, "n", K])])
    m.add("single_bias_of_rank_three",
        imnodes + average + [node("Flatten", ["a"], ["f"]), node("MatMul", ["f", "W"], ["z"]),
            node("Add", ["z", "b"], ["y"])],
        iminits + [tensor("W", W.T), tensor("b", np.full((1, 1, 1), 0.1))],
        [out(shape=[1, "n", K])], image=True)
    mlp("scalar_of_rank_three", gemm + [node("Div", ["l", "t"], ["y"])],
        wb + [tensor("t", np.full((1, 1, 1), 2.0))], [out(shape=[1, "n", K])])
    # A body that no shape can be followed through: the declared output tells that there are two
    # axes.
    hidden = [node("Shape", ["f"], ["fs"]), node("Div", ["fs", "fs"], ["once"]),
        node("Tile", ["f", "once"], ["fe"]), node("MatMul", ["fe", "W"], ["z"]),
        node("Add", ["z", "b"], ["l"])]
    mlp("rank_from_output", hidden + [node("Softmax", ["l"], ["y"])], wb3[:2])
    mlp("two_outputs", gemm + [node("Softmax", ["l"], ["y"])], wb, [out("l"), out()])
    mlp("features_out", gemm + [node("Softmax", ["l"], ["y"])], wb, [out(), out("f", ["n", P])])
    mlp("relu_after", gemm + [node("Relu", ["l"], ["y"])], wb, nonlinear=True)
    mlp("sigmoid_after", gemm + [node("Sigmoid", ["l"], ["y"])], wb, nonlinear=True)
    hundred = numpy_helper.from_array(np.float32(100), "hundred")
    whole = helper.make_tensor_value_info("y", TensorProto.INT32, ["n", K])
    rounded = [node("Mul", ["s", "hundred"], ["m"]),
        node("Cast", ["m"], ["y"], to=TensorProto.INT32)]
    mlp("rounded_logits", gemm + [node("Identity", ["l"], ["s"])] + rounded, wb + [hundred],
        [whole], nonlinear=True)
    mlp("rounded_softmax", gemm + [node("Softmax", ["l"], ["s"])] + rounded, wb + [hundred],
        [whole])
    mlp("relu_softmax", gemm + [node("Relu", ["l"], ["r"]), node("Softmax", ["r"], ["y"])], wb,
        nonlinear=True)
    # A sigmoid spelled out stays one, and so does a softmax of anything but logits.
    one, over = tensor("one", 1.0), ints("over", [1])
    logistic = [node("Neg", ["l"], ["nl"]), node("Exp", ["nl"], ["e"]),
        node("Add", ["e", "one"], ["e1"]), node("Reciprocal", ["e1"], ["s"])]
    mlp("sigmoid_spelled_out", gemm + logistic[:3] + [node("Reciprocal", ["e1"], ["y"])],
        wb + [one], nonlinear=True)
    mlp("sigmoid_normalised", gemm + logistic
        + [node("ReduceSum", ["s", "over"], ["sum"]), node("Div", ["s", "sum"], ["y"])],
        wb + [one, over], nonlinear=True)
    mlp("softmax_of_exp", gemm + [node("Exp", ["l"], ["e"]), node("Softmax", ["e"], ["y"])], wb,
        nonlinear=True)
    mlp("exp_and_one", gemm + [node("Exp", ["l"], ["e"]), node("Add", ["e", "one"], ["e1"]),
            node("ReduceSum", ["e1", "over"], ["sum"]), node("Div", ["e1", "sum"], ["y"])],
        wb + [one, over], nonlinear=True)
    mlp("exp_over_sum", gemm + [node("Exp", ["l"], ["e"]),
            node("ReduceSum", ["e", "over"], ["sum"]), node("Div", ["e", "sum"], ["y"])],
        wb + [over])
    mlp("exp_times_reciprocal",
        gemm + [node("Exp", ["l"], ["e"]), node("ReduceSum", ["e", "over"], ["sum"]),
            node("Reciprocal", ["sum"], ["r"]), node("Mul", ["e", "r"], ["y"])], wb + [over])
    mlp("exp_times_sum", gemm + [node("Exp", ["l"], ["e"]),
            node("ReduceSum", ["e", "over"], ["sum"]), node("Mul", ["e", "sum"], ["y"])],
        wb + [over], nonlinear=True)
    mlp("less_log_sum_exp", gemm
        + [node("ReduceLogSumExp", ["l"], ["lse"], axes=[1]), node("Sub", ["l", "lse"], ["y"])], wb)
    mlp("probability_times_maximum",
        gemm + [node("Softmax", ["l"], ["p"]), node("ReduceMax", ["l"], ["mx"], axes=[1]),
            node("Mul", ["p", "mx"], ["y"])], wb, nonlinear=True)
    mode = lambda on: [tensor("ratio", 0.5), numpy_helper.from_array(np.array(on), "mode")]
    mlp("dropout_off", gemm + [node("Dropout", ["l", "ratio", "mode"], ["y"])], wb + mode(False))
    labels = helper.make_tensor("labels", TensorProto.STRING, [K], [n.encode() for n in NAMES])
    mlp("labels", gemm + [node("ArgMax", ["l"], ["i"], axis=1, keepdims=0),
            node("Gather", ["labels", "i"], ["label"]), node("Softmax", ["l"], ["y"])],
        wb + [labels], [helper.make_tensor_value_info("label", TensorProto.STRING, ["n"]), out()])
    best = gemm + [node("ArgMax", ["l"], ["i"], axis=1, keepdims=0),
        node("Gather", ["labels", "i"], ["label"]), node("Softmax", ["l"], ["y"])]
    label_out = helper.make_tensor_value_info("label", TensorProto.STRING, ["n"])
    mlp("labels_constant", [node("Constant", [], ["labels"], value=labels)] + best, wb,
        [label_out, out()])
    mlp("labels_twice", best + [node("TopK", ["l", "k"], ["v", "j"]),
            node("Gather", ["labels", "j"], ["label2"])], wb + [labels, ints("k", [2])],
        [label_out, out(), helper.make_tensor_value_info("label2", TensorProto.STRING, ["n", 2])])
    mlp("top_k", gemm + [node("TopK", ["l", "k"], ["v", "i"])], wb + [ints("k", [3])],
        [out("v", ["n", 3]), helper.make_tensor_value_info("i", TensorProto.INT64, ["n", 3])],
        nonlinear=True)
    # --- names
    mlp("names_json", gemm + [node("Softmax", ["l"], ["y"])], wb,
        metadata={"class_names": json.dumps(NAMES), "author": "somebody"})
    mlp("names_python", gemm + [node("Softmax", ["l"], ["y"])], wb,
        metadata={"names": str(dict(enumerate(NAMES))), "stride": "32"})
    mlp("names_config", gemm + [node("Softmax", ["l"], ["y"])], wb,
        metadata={"config": json.dumps({"id2label": dict(enumerate(NAMES)),
            "label2id": {n: i for i, n in enumerate(NAMES)}})})
    # --- inputs
    m.add("batch_one", nodes + gemm + [node("Softmax", ["l"], ["y"])], inits + wb,
        [out(shape=[1, K])], inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, D])])
    for kind, number in (("u8", TensorProto.UINT8), ("i32", TensorProto.INT32),
                         ("i8", TensorProto.INT8), ("f16_in", TensorProto.FLOAT16)):
        m.add("input_" + kind, [node("Cast", ["x", ], ["xf"], to=TensorProto.FLOAT),
                node("MatMul", ["xf", "body.w"], ["h0"])] + nodes[1:] + gemm
            + [node("Softmax", ["l"], ["y"])], inits + wb, [out()],
            inputs=[helper.make_tensor_value_info("x", number, ["n", D])])
    # Three rows for each input, which only running it tells.
    m.add("rows_for_positions",
        [node("Reshape", ["x3", "rows"], ["x"])] + nodes
        + [node("Gemm", ["f", "W", "b"], ["y"], transB=1)], inits + wb + [ints("rows", [-1, D])],
        [out(shape=["rows", K])], run=False, image=True,
        inputs=[helper.make_tensor_value_info("x3", TensorProto.FLOAT, ["n", 3, D])])
    # --- every IR version, with the opset of its time
    for ir, opset in ((3, 8), (4, 9), (5, 10), (6, 11), (7, 12), (8, 17), (9, 19), (10, 21)):
        mlp("ir%d" % ir, gemm + [node("Softmax", ["l"], ["y"], axis=1)], wb, ir=ir, opset=opset,
            value_info=[out("l")])
    mlp("ir3_behind_transpose",
        [node("Transpose", ["W0"], ["W"], perm=[1, 0]), node("MatMul", ["f", "W"], ["y"])],
        [tensor("W0", W)], ir=3, opset=8)

    # --- to be refused
    def no(name, head, weights, reason, outputs=None, **more):
        mlp(name, head, weights, outputs, ok=False, reason=reason, **more)

    no("two_classes", [node("Gemm", ["f", "W", "b"], ["y"], transB=1)],
        [tensor("W", W[:2]), tensor("b", B[:2])], "at least three", [out(shape=["n", 2])])
    m.add("squeezenet", imnodes
        + [node("Conv", ["m", "W", "b"], ["z"]), node("Relu", ["z"], ["r"]),
            node("GlobalAveragePool", ["r"], ["g"]), node("Flatten", ["g"], ["y"])],
        iminits + [tensor("W", kernel), tensor("b", B)], [out()], image=True, ok=False,
        reason="non-linear step stands between the last layer and the pooling")
    m.add("conv_3x3", imnodes + [node("Conv", ["m", "W"], ["z"], pads=[1, 1, 1, 1]),
            node("GlobalAveragePool", ["z"], ["g"]), node("Flatten", ["g"], ["y"])],
        iminits + [tensor("W", np.tile(kernel, (1, 1, 3, 3)))], [out()], image=True, ok=False,
        reason="1x1")
    softmax_last = node("Softmax", ["r"], ["y"], axis=-1)
    # The axis of the classes taken apart, as where there are several boxes at every place.
    conv("detector", [node("Transpose", ["z"], ["t"], perm=[0, 2, 3, 1]),
            node("Reshape", ["t", "s"], ["r"]), softmax_last], [ints("s", [0, -1, K // 2])],
        [out(shape=["n", 40, K // 2])], ok=False, reason="does not show where the 5 classes go")
    conv("positions_flattened", [node("Flatten", ["z"], ["y"])], outputs=[out(shape=["n", K * 16])],
        ok=False, reason="mixes the classes with positions")
    conv("one_position", [node("Gather", ["z", "zero"], ["y"], axis=3)],
        [numpy_helper.from_array(np.int64(0), "zero")], [out(shape=["n", K, 4])], ok=False,
        reason="one of several positions")
    conv("half_window", [node("AveragePool", ["z"], ["g"], kernel_shape=[2, 2], strides=[4, 4]),
            node("Flatten", ["g"], ["y"])], ok=False, reason="not known to be one value per class")
    nothing = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    no("rank_unknown", hidden[:4] + [node("Softmax", ["z"], ["y"])], wb3[:1], "how many axes",
        [nothing])
    no("rank_contradicted", gemm + [node("Softmax", ["l"], ["y"])], wb, "shape inference",
        [out(shape=["n", 1, K])])
    scale = [tensor("s", 0.1), numpy_helper.from_array(np.int8(0), "zp")]
    m.add("qlinear_conv", imnodes + [node("QuantizeLinear", ["m", "s", "zp"], ["mq"]),
            node("QLinearConv", ["mq", "s", "zp", "Wq", "s", "zp", "s", "zp"], ["zq"]),
            node("DequantizeLinear", ["zq", "s", "zp"], ["z"]),
            node("GlobalAveragePool", ["z"], ["g"]), node("Flatten", ["g"], ["y"])],
        iminits + [numpy_helper.from_array((kernel * 10).astype(np.int8), "Wq")] + scale, [out()],
        image=True, ok=False, reason="quantised")
    no("qdq_reshaped", [node("DequantizeLinear", ["Wq", "s", "zp"], ["W1"]),
            node("Reshape", ["W1", "shape"], ["W"]), node("Gemm", ["f", "W"], ["y"], transB=1)],
        [numpy_helper.from_array((W * 10).astype(np.int8).flatten(), "Wq"), ints("shape", [K, -1])]
        + scale, "stands between the quantised weights and the layer")
    no("two_heads", [node("Gemm", ["f", "W", "b"], ["y"], transB=1),
            node("Gemm", ["f", "V"], ["boxes"], transB=1)],
        wb + [tensor("V", np.roll(W, 1, 1)[:4])],
        "several last layers", [out(), out("boxes", ["n", 4])], code=2)
    second = [node("Softmax", ["l"], ["y"]), node("Gemm", ["f", "V"], ["e"], transB=1)]
    weights2 = wb + [tensor("V", np.roll(W, 1, 1)[:4])]
    no("second_head_normalised", gemm + second + [node("LpNormalization", ["e"], ["e2"])], weights2,
        "several last layers", [out(), out("e2", ["n", 4])], code=2)
    no("second_head_joined", gemm + second + [node("Concat", ["e", "e"], ["e2"], axis=1)], weights2,
        "several last layers", [out("e2", ["n", 8]), out()], code=2)
    mlp("normalised_features_out",
        gemm + [node("Softmax", ["l"], ["y"]), node("LpNormalization", ["f"], ["unit"])], wb,
        [out(), out("unit", ["n", P])])
    column = [tensor("W", W.T), tensor("b", B[:, None])]
    no("gemm_bias_column", [node("Gemm", ["f", "W", "b"], ["y"])], column,
        "one value for each sample", [out(shape=[K, K])],
        inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, [K, D])])
    no("matmul_bias_column", [node("MatMul", ["f", "W"], ["z"]), node("Add", ["z", "b"], ["y"])],
        column, "one value for each sample", [out(shape=[K, K])],
        inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, D])])
    # One scale and shift for every class: they become part of the new layer.
    spread = np.linspace(0.5, 2, K)
    drawn = [tensor("W", W / spread[:, None]), tensor("b", B), tensor("v", spread)]
    mlp("batch_norm_after", gemm + [node("BatchNormalization", ["l", "v", "b", "b", "one"], ["y"])],
        drawn + [tensor("one", np.ones(K))])
    mlp("per_class_scale", gemm + [node("Mul", ["l", "v"], ["y"])],
        [drawn[0], tensor("b", B / spread), drawn[2]])
    mlp("per_class_scale_bias",
        gemm + [node("Div", ["l", "v"], ["d"]), node("Sub", ["u", "d"], ["y"])],
        [tensor("W", -W * spread[:, None]), tensor("b", B), drawn[2], tensor("u", B + B / spread)])
    for name, factor in (("negative", -1.0), ("per_class", spread)):
        mlp("matmul_scale_" + name, scaled("Mul", ["z", "s"]),
            [tensor("W", W.T / factor), tensor("s", factor), tensor("b", B)])
    no("batch_norm_trained", gemm + [node("BatchNormalization", ["l", "b", "b", "b", "v"],
            ["y", "m1", "v1"], training_mode=1)], wb + [tensor("v", np.ones(K))], "normalisation")
    for name, op, inputs, factor, reason in (
            ("zero", "Mul", ["z", "s"], 0.0, "the same"),
            ("infinite", "Div", ["z", "s"], np.inf, "the same"),
            ("not_a_number", "Mul", ["z", "s"], np.nan, "not finite"),
            ("reciprocal", "Div", ["s", "z"], 1.0, "one by one"),
            ("high_rank", "Mul", ["z", "s"], [[[2.0]]], "one by one")):
        no("matmul_scale_" + name, scaled(op, inputs),
            [tensor("W", W.T), tensor("s", factor), tensor("b", B)], reason,
            [out(shape=[1, "n", K])] if name == "high_rank" else None)
    no("matmul_scaled_shown", scaled("Mul", ["z", "s"]),
        [tensor("W", W.T), tensor("s", 2.0), tensor("b", B)], "read before the bias is added",
        [out(), out("zs")])
    no("matmul_product_shown", scaled("Mul", ["z", "s"]),
        [tensor("W", W.T), tensor("s", 2.0), tensor("b", B)], "read before the bias is added",
        [out(), out("z")])
    no("slice_after", gemm + [node("Slice", ["l", "from", "to", "ax"], ["y"])],
        wb + [ints("from", [0]), ints("to", [3]), ints("ax", [1])], "several parts",
        [out(shape=["n", 3])])
    no("top_all", gemm + [node("TopK", ["l", "k"], ["v", "i"])], wb + [ints("k", [K])], "TopK",
        [out("v")])
    branch = lambda op: helper.make_graph([node(op, ["l"], [op])], op, [], [out(op)])
    no("control_flow", gemm + [node("ReduceMax", ["l"], ["mx"], keepdims=0),
            node("Greater", ["mx", "zero"], ["cond"]),
            node("If", ["cond"], ["y"], then_branch=branch("Relu"), else_branch=branch("Sigmoid"))],
        wb + [tensor("zero", 0.0)], "control flow")
    ml = "ai.onnx.ml"
    text = lambda name: helper.make_tensor_value_info(name, TensorProto.STRING, ["n"])
    for transform in ("SOFTMAX", "LOGISTIC", "NONE"):
        mlp("linear_classifier_" + transform.lower(),
            [node("LinearClassifier", ["f"], ["label", "y"], domain=ml,
                coefficients=W.flatten().tolist(), intercepts=B.tolist(),
                classlabels_strings=NAMES, post_transform=transform)], [], [text("label"), out()],
            domains=[ml], nonlinear=transform != "SOFTMAX")
    m.add("trees", [node("TreeEnsembleClassifier", ["x"], ["label", "p"], domain=ml)], [],
        [out("p")], ok=False, reason="tree", domains=[ml], checker=False)
    no("dropout_on", gemm + [node("Dropout", ["l", "ratio", "mode"], ["y"])], wb + mode(True),
        "at random")
    no("labels_shown", best + [node("Identity", ["labels"], ["all"])], wb + [labels],
        "used elsewhere", [label_out, out(),
            helper.make_tensor_value_info("all", TensorProto.STRING, [K])])
    no("labels_output", best, wb + [labels], "used elsewhere",
        [label_out, out(), helper.make_tensor_value_info("labels", TensorProto.STRING, [K])])
    no("labels_by_number", best + [node("Gather", ["labels", "last"], ["l4"])],
        wb + [labels, ints("last", [K - 1])], "used elsewhere",
        [label_out, out(), helper.make_tensor_value_info("l4", TensorProto.STRING, [1])])
    no("labels_listed", [node("Constant", [], ["labels"], value_strings=NAMES)] + best, wb,
        "wanted a stored tensor", [label_out, out()])
    no("labels_behind_identity", [node("Identity", ["labels0"], ["labels"])] + best,
        wb + [helper.make_tensor("labels0", TensorProto.STRING, [K], [n.encode() for n in NAMES])],
        "wanted a stored tensor", [label_out, out()])
    no("labels_in_pairs", best, wb + [ints("labels", [[10 * i, i] for i in range(K)])],
        "not one per class", [helper.make_tensor_value_info("label", TensorProto.INT64, ["n", 2]),
            out()])
    no("computed_weights", [node("Relu", ["W"], ["W2"]),
            node("Gemm", ["f", "W2", "b"], ["y"], transB=1)], wb, "computed")
    with open(os.path.join(folder, "manifest.json"), "w") as file:
        json.dump(m.manifest, file, indent=1)


# fmt: on
if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    make(sys.argv[1])
