#include "oubli/pickle/calls.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

namespace oubli::pickle {
namespace {

bool is_function_of_saving(std::string_view name) {
  static constexpr std::array<std::string_view, 29> kNames{"collections.OrderedDict",
                                                           "collections.defaultdict",
                                                           "collections.Counter",
                                                           "collections.deque",
                                                           "builtins.set",
                                                           "builtins.frozenset",
                                                           "builtins.dict",
                                                           "builtins.list",
                                                           "builtins.bytearray",
                                                           "builtins.complex",
                                                           "builtins.slice",
                                                           "builtins.range",
                                                           "__builtin__.set",
                                                           "__builtin__.frozenset",
                                                           "__builtin__.bytearray",
                                                           "_codecs.encode",
                                                           "copyreg._reconstructor",
                                                           "copy_reg._reconstructor",
                                                           "numpy.dtype",
                                                           "numpy.ndarray",
                                                           "numpy.core.multiarray._reconstruct",
                                                           "numpy.core.multiarray.scalar",
                                                           "numpy._core.multiarray._reconstruct",
                                                           "numpy._core.multiarray.scalar",
                                                           "numpy.core.numeric._frombuffer",
                                                           "numpy._core.numeric._frombuffer",
                                                           "torch.Size",
                                                           "torch.device",
                                                           "argparse.Namespace"};
  return std::ranges::find(kNames, name) != kNames.end() ||
         name.starts_with("torch._utils._rebuild_");
}

// A class of a library that saves models: module and name apart, since a name with dots in it may
// lead anywhere from the module.
bool is_class_of_a_library(std::string_view module, std::string_view name) {
  static constexpr std::array<std::string_view, 7> kModules{
      "torch.nn.modules.", "torch.nn.parameter", "sklearn.",     "joblib.numpy_pickle",
      "numpy.random.",     "numpy.random._",     "scipy.sparse."};
  const auto known = [&](std::string_view start) { return module.starts_with(start); };
  return std::ranges::any_of(kModules, known) && !name.empty() &&
         name.find('.') == std::string_view::npos &&
         std::isupper(static_cast<unsigned char>(name[name.starts_with('_') ? 1 : 0])) != 0;
}

}  // namespace

std::vector<std::string> foreign_calls(const Pickle& pickle) {
  std::set<std::string> own;
  for (Ref ref = 0; ref < pickle.size(); ++ref) {
    if (!pickle.is(ref, Kind::global)) continue;
    const std::vector<Ref> parts = pickle.children(ref, Part::arguments);
    const std::string name = pickle.global_name(ref);
    if (pickle.state(ref) != kNothing) continue;  // a class or module that is changed
    const std::string_view last = pickle.text(parts[1]);
    if ((is_function_of_saving(name) && last.find('.') == std::string_view::npos) ||
        is_class_of_a_library(pickle.text(parts[0]), last))
      own.insert(name);
  }
  std::vector<std::string> foreign = pickle.called_names();
  std::erase_if(foreign, [&](const std::string& name) { return own.contains(name); });
  return foreign;
}

}  // namespace oubli::pickle
