#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "oubli/audit/figure.h"
#include "oubli/base/text_table.h"
#include "oubli/inversion/sheet.h"
#include "oubli/inversion/study.h"

namespace oubli {

// The paper's figure, from the first network: a column per class; rows are a training image, the
// reconstruction before deletion, and that after each method took `forgotten` out (framed).
[[nodiscard]] Sheet figure_sheet(const InversionResult& result, const ImageSet& data,
                                 std::uint32_t forgotten);
// The paper's full figure: a row per forgotten class, a block of columns per method.
[[nodiscard]] Sheet full_sheet(const InversionResult& result, const ImageSet& data);
// What the ghost logit gives: a column per forgotten class, a row per method.
[[nodiscard]] Sheet ghost_sheet(const InversionResult& result, const ImageSet& data);

// Mean and standard deviation over networks (of the mean over a network's classes).
struct LikenessSummary {
  std::string state;
  std::string target;  // "every class", "forgotten, guessed logit", "forgotten, ghost logit",
                       // "retained"
  std::size_t networks = 0;
  std::size_t pictures = 0;  // reconstructions of all networks together
  MeanStd correlation, ssim, own, recognised, unchanged;
};
[[nodiscard]] std::vector<LikenessSummary> summarise(const InversionResult& result);

// For terminals and documents.
[[nodiscard]] TextTable to_table(const std::vector<LikenessSummary>& summaries);

struct NamedSheet {
  std::string file;
  std::string title;
  std::string description;
};
// "format": "oubli-inversion", "version": 1: what was done, the pictures beside it, the figures,
// and the table as the report shows it.
[[nodiscard]] nlohmann::json to_json(const InversionStudy& study, const ImageSet& data,
                                     const InversionResult& result,
                                     const std::vector<LikenessSummary>& summaries,
                                     const std::vector<NamedSheet>& sheets);

}  // namespace oubli
