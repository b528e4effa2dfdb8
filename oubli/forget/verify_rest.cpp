#include "oubli/forget/verify_rest.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "oubli/base/class_split.h"
#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/temporary_folder.h"
#include "oubli/filtration/filter.h"
#include "oubli/forget/claims.h"
#include "oubli/forget/self_check.h"
#include "oubli/model/residue.h"

namespace oubli {

namespace fs = std::filesystem;

namespace {

Tensor copy_of(const TensorView& view) {
  return {view.dtype, view.shape, {view.bytes.begin(), view.bytes.end()}};
}

// Where each file that the edit makes belongs, and where it is now.
std::vector<std::pair<fs::path, fs::path>> made_by(const StagedModel& staged,
                                                   const fs::path& folder, const fs::path& model) {
  std::vector<std::pair<fs::path, fs::path>> made;
  for (const auto& file : staged.files)  // the model itself may be called otherwise by now
    made.emplace_back(file == staged.files.back()
                          ? model
                          : model.parent_path() / file->path().lexically_relative(folder),
                      file->temporary_path());
  if (!staged.folder) return made;
  const fs::path& whole = staged.folder->temporary_path();
  for (const auto& entry : fs::recursive_directory_iterator(whole))
    if (entry.is_regular_file())
      made.emplace_back(model / entry.path().lexically_relative(whole), entry.path());
  return made;
}

RestCheck compare(const std::vector<std::pair<fs::path, fs::path>>& made, const fs::path& model) {
  std::set<fs::path> places;
  for (const auto& [place, path] : made) {
    places.insert(place);
    if (!fs::is_regular_file(place))
      return {false, fmt::format("{}: is not there", place.string())};
    const MappedFile wanted(path), found(place);
    const auto difference = std::ranges::mismatch(wanted.bytes(), found.bytes());
    if (difference.in1 != wanted.bytes().end() || difference.in2 != found.bytes().end())
      return {false,
              fmt::format("{}: is not what the edit makes of the original, from byte {} on",
                          place.filename().string(), difference.in1 - wanted.bytes().begin())};
  }
  if (fs::is_directory(model))
    for (const auto& entry : fs::recursive_directory_iterator(model))
      if ((entry.is_symlink() || !entry.is_directory()) && !places.contains(entry.path()))
        return {false, fmt::format("{}: the edit does not make it, and it is in the folder",
                                   entry.path().lexically_relative(model).string())};
  return {!made.empty(), "byte for byte what the edit makes of the original"};
}

}  // namespace

RestCheck check_rest(const ModelFile& original, const ModelFile& model,
                     std::span<const std::size_t> forget, const std::string& name) {
  const HeadView& head = model.head();
  NewHead new_head{copy_of(head.weights), std::nullopt,
                   head.bias.has_value() && !original.head().bias.has_value()};
  if (head.bias) new_head.bias = copy_of(*head.bias);
  const std::vector<std::size_t> retained =
      split_classes(original.head().classes(), forget).retained;
  if (retained.size() != head.classes())
    return {false, fmt::format("{} classes, {} should be left", head.classes(), retained.size())};
  // Files of external data are named after the model, and named in it.
  std::vector<fs::path> names{model.path()};
  if (is_plain_name(name) && model.path().filename() != name)
    names.push_back(model.path().parent_path() / name);
  RestCheck result;
  for (const fs::path& called : names) {
    const TemporaryFolder folder;
    const StagedModel staged = original.stage_again(new_head, retained, called, folder.path());
    const RestCheck found = compare(made_by(staged, folder.path(), model.path()), model.path());
    if (found.passed) return found;
    if (result.detail.empty()) result = found;
  }
  return result;
}

RestCheck check_old_rows(const ModelFile& original, const ModelFile& model,
                         std::span<const std::size_t> forget) {
  const RowScan scan(original.head(), forget);
  for (const auto& path : model.files())
    for (const RowResidue& row : scan.scan_file(path, 1))
      return {false,
              fmt::format("{}: the weights of forgotten class {} are in it (byte {}, {})",
                          path.filename().string(), row.class_index, row.offset, describe(row))};
  RestCheck result{true,
                   scan.unrecognisable().empty()
                       ? "no row of a forgotten class is in its files"
                       : "rows of some forgotten classes have too little in them to be found"};
  model.for_each_packed([&](const std::string& where, std::span<const std::byte> content) {
    for (const RowResidue& row : scan.scan(content, 1))
      result = {false, fmt::format("{}: the weights of forgotten class {} are in it ({})", where,
                                   row.class_index, describe(row))};
    return result.passed;
  });
  return result;
}

RestCheck check_old_layer(const TensorView& old_layer, const TensorView& new_layer,
                          const ModelFile& model) {
  const Matrix<float> stretches = changed_stretches(old_layer, new_layer);
  if (stretches.rows() == 0) return {false, "is where it was: nothing of it changed"};
  std::vector<std::size_t> rows(stretches.rows());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  const RowScan scan(HeadView{.weights = tensor_view<float>(stretches.view(), "the old layer")},
                     rows);
  for (const auto& path : model.files())
    for (const RowResidue& row : scan.scan_file(path, 1))
      return {false, fmt::format("{}: is still in it (byte {}, {})", path.filename().string(),
                                 row.offset, describe(row))};
  return {true, stretches.rows() == old_layer.shape[0]
                    ? "no row of it is in the new file"
                    : fmt::format("of {} rows none is in the new file; {} others hardly moved",
                                  stretches.rows(), old_layer.shape[0] - stretches.rows())};
}

}  // namespace oubli
