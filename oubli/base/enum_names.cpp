#include "oubli/base/enum_names.h"

#include "oubli/base/error.h"
#include "oubli/base/names.h"

namespace oubli {

void fail_unnamed(std::string_view what, std::string_view name,
                  std::span<const std::string> names) {
  fail(ErrorCode::usage, "no {} is named '{}'; did you mean {}? (there are {})", what, name,
       nearest_names(name, names, 1)[0], or_list(names));
}

std::string or_list(std::span<const std::string> words) {
  std::string list;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) list += i + 1 < words.size() ? ", " : " or ";
    list += words[i];
  }
  return list;
}

}  // namespace oubli
