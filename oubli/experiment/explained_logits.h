#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/data/image_set.h"
#include "oubli/experiment/run_folder.h"
#include "oubli/nn/network.h"

namespace oubli {

// What method explained needs of a network beside its logits: W (P (m_c - m_R) + m_R) + b, from the
// features of some samples, for each class c forgotten alone and, below, for each class of `forget`
// if these are several, forgotten together. One row of k logits each; NaN where there are too few
// samples.
[[nodiscard]] Matrix<double> explained_logits(const nn::Network& network,
                                              MatrixView<const float> features,
                                              std::span<const std::uint32_t> labels,
                                              std::span<const std::size_t> forget, double rho);

// The images of one source.
using SamplesOf = std::function<const ImageSet&(MeansSource)>;
// Writes what is to be there of a seen network, of both sources and for every rho of the run; gives
// the names.
std::vector<std::filesystem::path> save_explained(const RunFolder& folder, const std::string& id,
                                                  const nn::Network& network,
                                                  const SamplesOf& samples);
// The rows of one file for the classes that an audit forgets. Error{missing} if there is no such
// file, and {unfilterable} if there were too few samples.
[[nodiscard]] Matrix<double> read_explained(const RunFolder& folder, const std::string& id,
                                            double rho, MeansSource source,
                                            std::span<const std::size_t> forget);

// Networks trained before there was the method, or its source, or before its rho was asked for:
// done, seen, and not all files there.
[[nodiscard]] std::vector<Trial> not_explained(const RunFolder& folder);
// Without training, if the network was kept as ONNX: the files that are missing, from the samples
// that they need.
void explain_kept(const RunFolder& folder, const std::string& id, const SamplesOf& samples);

}  // namespace oubli
