#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "oubli/data/image_set.h"
#include "oubli/filtration/methods.h"
#include "oubli/inversion/invert.h"
#include "oubli/nn/network.h"
#include "oubli/nn/train.h"

namespace oubli {

// Model inversion put to the test: networks are trained, every class is reconstructed, each class
// is forgotten in turn, every class is reconstructed again; and likewise from networks retrained
// without the class, which show what an attacker gets where there is nothing to find.
struct InversionStudy {
  nn::NetworkSpec spec;
  nn::TrainOptions training;  // seed; `model` counts the networks
  std::size_t networks = 1;
  std::vector<std::uint32_t> forget;  // classes forgotten in turn, one at a time
  std::vector<Method> methods{Method::naive, Method::normalization};
  bool retrained = true;
  std::vector<float> start;  // the image every descent starts from
  InversionOptions descent;
  double guess = 1;  // the logit an attacker puts where an output is missing
  unsigned workers = 1;
  std::stop_token stop = {};
};

// How like its class a reconstruction is.
struct Likeness {
  double correlation = 0;  // with the class's mean image
  double ssim = 0;         // of the two, both scaled to [0, 1]
  // Correlation with what distinguishes the class: its mean image minus the mean of all classes'.
  double own = 0;
  bool recognised = false;  // `own` is larger than for every other class
  double unchanged = 1;     // correlation with the reconstruction before deletion
};

struct Reconstruction {
  std::size_t network = 0;
  std::string state;                       // "before", "naive", "normalization", ..., "retrained"
  std::optional<std::uint32_t> forgotten;  // none before deletion
  std::uint32_t target = 0;                // the class attacked, original numbering
  bool ghost = false;                      // by the ghost logit, not by a guessed one
  std::vector<float> image;
  Likeness likeness;
};

struct InversionResult {
  std::vector<std::vector<float>> class_means;   // in [0, 1]
  std::vector<std::vector<float>> first_images;  // of each class
  std::vector<Reconstruction> reconstructions;   // by network; images are kept of the first alone
  double accuracy = 0;                           // of the networks on their training data, mean
};

// Each network depends on (seed, its number) alone. `given`: a trained network to attack instead of
// training some; nothing is then retrained.
[[nodiscard]] InversionResult run_inversion(const InversionStudy& study, const ImageSet& data,
                                            const nn::Network* given = nullptr);

// The images of each class averaged, classes x pixels, in [0, 1].
[[nodiscard]] std::vector<std::vector<float>> class_mean_images(const ImageSet& data);

// The network with one class taken out of its head by `method`; means are those of `data`.
[[nodiscard]] nn::Network without_class(const nn::Network& network, const ImageSet& data,
                                        std::uint32_t forgotten, const Target& target);

}  // namespace oubli
