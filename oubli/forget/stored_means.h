#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "oubli/array/tensor.h"
#include "oubli/base/file.h"
#include "oubli/filtration/class_means.h"
#include "oubli/filtration/filtration.h"

namespace oubli {

// Class means with what a later deletion needs to know about them, so that it needs no data.
//
// On disk: an .npz file with
//     about.json   {"format": "oubli-means", "version": 2, "space", "head_sha256", "class_names"}
//     means        float64, classes x (features or classes)
//     counts       uint64, samples per class
//     scatter      float64, per class the sum of squared distances from its mean; NaN if unknown
//     feature_scatter  float32, classes x features: the same per feature. Not for means of logits,
//                  nor in files of version 1.
// It can be read with numpy.load. A means file holds what is to be forgotten: after a deletion the
// old one must go, as the old model must.
struct StoredMeans {
  Space space = Space::features;
  SharedTensor means;
  std::vector<std::uint64_t> counts;
  std::vector<double> scatter;
  SharedTensor feature_scatter = {};     // of rank 0 if there is none
  std::vector<std::string> class_names;  // empty, or one per class
  std::string head_sha256;               // head_digest() of the head they belong to; may be empty

  [[nodiscard]] std::size_t classes() const { return counts.size(); }
  // As ClassMeans::within_variance().
  [[nodiscard]] double within_variance() const;
};

// SHA-256 over what a head is: type, shape, layout, scales, weights and bias.
[[nodiscard]] std::string head_digest(const HeadView& head);

[[nodiscard]] StoredMeans store_means(Space space, ClassMeans means,
                                      std::vector<std::string> class_names,
                                      std::string head_sha256);
[[nodiscard]] StoredMeans read_means(const std::filesystem::path& path);
void write_means(AtomicFile& out, const StoredMeans& means);

// What remains after a deletion: the rows of the retained classes, and for means of logits what the
// filter makes of them. Nothing of the forgotten classes is left in it. Error{unfilterable} for
// means of logits if the filter works on features.
[[nodiscard]] StoredMeans shrink_means(const StoredMeans& means, const FiltrationPlan& plan,
                                       std::string new_head_sha256);

}  // namespace oubli
