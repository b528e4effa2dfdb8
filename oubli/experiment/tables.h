#pragma once

#include <nlohmann/json_fwd.hpp>

namespace oubli {

// The "tables" of results.json (see results.h) from its other parts: every table of the paper that
// this experiment fills, then what the paper does not have.
[[nodiscard]] nlohmann::json make_tables(const nlohmann::json& results);

}  // namespace oubli
