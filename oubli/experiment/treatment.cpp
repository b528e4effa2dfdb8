#include "oubli/experiment/treatment.h"

#include <charconv>

#include "oubli/base/error.h"
#include "oubli/filtration/explained.h"

namespace oubli {

std::string name_of(const Treatment& treatment) {
  if (std::holds_alternative<Floor>(treatment)) return "floor";
  if (std::holds_alternative<Refit>(treatment)) return "refit";
  if (const auto* explained = std::get_if<Explained>(&treatment))
    return fmt::format("{}-{}", name_of(Method::explained), explained->rho);
  return std::string(name_of(std::get<Method>(treatment)));
}

Treatment treatment_of(const std::string& name) {
  if (name == "floor") return Floor{};
  if (name == "refit") return Refit{};
  if (const std::string begin = std::string(name_of(Method::explained)) + "-";
      name.starts_with(begin)) {
    Explained explained;
    const char* const end = name.data() + name.size();
    const auto [read, error] = std::from_chars(name.data() + begin.size(), end, explained.rho);
    if (error == std::errc() && read == end) {
      check_share(explained.rho);
      return explained;
    }
  }
  if (const auto method = find_named<Method>(name)) return *method;
  fail(ErrorCode::usage, "there is no method '{}'", name);
}

std::string name_of(MeansSource source) { return source == MeansSource::test ? "test" : "train"; }

MeansSource means_source_of(const std::string& name) {
  for (const MeansSource source : kMeansSources)
    if (name == name_of(source)) return source;
  fail(ErrorCode::usage, "class means are of 'test' or 'train', not of '{}'", name);
}

}  // namespace oubli
