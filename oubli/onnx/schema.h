#pragma once

#include <cstdint>

// Field numbers of the ONNX messages this project reads or writes, from the ONNX specification
// (onnx.proto3). They never change: new versions only add numbers.
namespace oubli::onnx::schema {

namespace model {
inline constexpr std::uint32_t kIrVersion = 1, kProducerName = 2, kProducerVersion = 3,
                               kDocString = 6, kGraph = 7, kOpsetImport = 8, kMetadata = 14,
                               kTrainingInfo = 20, kFunctions = 25;
}
namespace opset {
inline constexpr std::uint32_t kDomain = 1, kVersion = 2;
}
namespace entry {  // StringStringEntryProto
inline constexpr std::uint32_t kKey = 1, kValue = 2;
}
namespace graph {
inline constexpr std::uint32_t kNode = 1, kName = 2, kInitializer = 5, kDocString = 10, kInput = 11,
                               kOutput = 12, kValueInfo = 13, kQuantization = 14,
                               kSparseInitializer = 15;
}
namespace node {
inline constexpr std::uint32_t kInput = 1, kOutput = 2, kName = 3, kOpType = 4, kAttribute = 5,
                               kDomain = 7;
}
namespace attribute {
inline constexpr std::uint32_t kName = 1, kFloat = 2, kInt = 3, kString = 4, kTensor = 5,
                               kGraph = 6, kFloats = 7, kInts = 8, kStrings = 9, kTensors = 10,
                               kGraphs = 11, kType = 20, kSparseTensor = 22, kSparseTensors = 23;
// AttributeProto.AttributeType
inline constexpr std::uint64_t kTypeFloat = 1, kTypeInt = 2, kTypeString = 3, kTypeTensor = 4,
                               kTypeFloats = 6, kTypeInts = 7, kTypeStrings = 8;
}  // namespace attribute
namespace tensor {
inline constexpr std::uint32_t kDims = 1, kDataType = 2, kSegment = 3, kFloatData = 4,
                               kInt32Data = 5, kStringData = 6, kInt64Data = 7, kName = 8,
                               kRawData = 9, kDoubleData = 10, kUint64Data = 11, kExternalData = 13,
                               kDataLocation = 14;
}
namespace sparse {  // SparseTensorProto
inline constexpr std::uint32_t kValues = 1, kIndices = 2, kDims = 3;
}
namespace training {  // TrainingInfoProto
inline constexpr std::uint32_t kInitialization = 1, kAlgorithm = 2;
}
namespace function {  // FunctionProto
inline constexpr std::uint32_t kNode = 7, kAttributeProto = 11;
}
namespace value_info {
inline constexpr std::uint32_t kName = 1, kType = 2;
}
namespace type {  // TypeProto, TypeProto.Tensor
inline constexpr std::uint32_t kTensorType = 1, kElemType = 1, kShape = 2;
}
namespace shape {  // TensorShapeProto, its Dimension
inline constexpr std::uint32_t kDim = 1, kDimValue = 1, kDimParam = 2;
}

}  // namespace oubli::onnx::schema
