#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace oubli {

// Where the model still says `name`, as "metadata 'description'", "node 'alice_score'", ...
[[nodiscard]] std::vector<std::string> places_with_name(std::span<const std::byte> model,
                                                        const std::string& what,
                                                        std::string_view name);

}  // namespace oubli
