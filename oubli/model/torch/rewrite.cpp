#include "oubli/model/torch/rewrite.h"

#include <algorithm>
#include <set>

#include "oubli/base/error.h"

namespace oubli::torch {
namespace {

bool fills_its_storage(const Tensor& tensor) {
  return tensor.offset == 0 && tensor.contiguous() && tensor.count() == tensor.storage_count;
}

std::size_t row_bytes(const Tensor& tensor) {
  return tensor.shape[0] == 0 ? 0 : tensor.count() / tensor.shape[0] * tensor.item_size;
}

}  // namespace

std::span<const std::byte> RowCut::own(std::vector<std::byte> bytes) {
  owned_.push_back(std::make_unique<std::vector<std::byte>>(std::move(bytes)));
  return *owned_.back();
}

void RowCut::set(std::size_t tensor, std::span<const std::byte> rows, std::size_t count) {
  const Tensor& its = tensors_[tensor];
  OUBLI_ASSERT(rows.size() == count * row_bytes(its));
  if (!its.apart())
    fail(ErrorCode::unfilterable,
         "{}: rows of tensor {} share numbers (an expanded view); save a copy of it (.clone())",
         archive_.what(), its.name);
  const pickle::Pickle& pickle = archive_.pickle();
  if (pickle.shared(its.size_tuple) ||
      pickle.shared(pickle.children(its.object, pickle::Part::arguments)[1]))
    fail(ErrorCode::unfilterable, "{}: the sizes of tensor {} are those of another one, too",
         archive_.what(), its.name);
  cuts_[its.key].push_back({tensor, count, rows});
  integers_[its.sizes[0]] = static_cast<std::int64_t>(count);
}

void RowCut::keep(std::size_t tensor, std::span<const std::size_t> retained) {
  const Tensor& its = tensors_[tensor];
  const std::size_t bytes = row_bytes(its);
  archive_.check_storage(its.key);
  std::vector<std::byte> rows(retained.size() * bytes);
  for (std::size_t i = 0; i < retained.size(); ++i)
    copy_row(its, *archive_.storage(its.key), retained[i],
             std::span(rows).subspan(i * bytes, bytes));
  set(tensor, own(std::move(rows)), retained.size());
}

// The storage's own count: elements, or bytes where its type is not said.
void RowCut::lower_count(const Tensor& tensor, std::size_t count) {
  const pickle::Pickle& pickle = archive_.pickle();
  const auto said = static_cast<std::size_t>(pickle.integer(tensor.storage_size));
  const std::size_t unit = tensor.storage_count == 0 ? 1 : said / tensor.storage_count;
  integers_[tensor.storage_size] = static_cast<std::int64_t>(count * unit);
}

void RowCut::shrink(const std::string& key, std::span<const Cut> cuts) {
  storages_[key] = {ZipPiece{cuts[0].rows}};
  for (const Cut& cut : cuts) {
    const Tensor& tensor = tensors_[cut.tensor];
    lower_count(tensor, tensor.count() / tensor.shape[0] * cut.count);
  }
}

void RowCut::close_up(const std::string& key, std::span<const Cut> cuts,
                      std::span<const std::size_t> users) {
  const std::span<const std::byte> storage = *archive_.storage(key);
  std::vector<Cut> ascending(cuts.begin(), cuts.end());
  std::ranges::sort(ascending, {}, [&](const Cut& cut) { return tensors_[cut.tensor].offset; });
  std::size_t at = 0;  // bytes of the storage that are dealt with
  for (const Cut& cut : ascending) {
    const Tensor& tensor = tensors_[cut.tensor];
    const std::size_t begin = tensor.offset * tensor.item_size;
    const std::size_t end = tensor.end() * tensor.item_size;
    if (begin < at && &cut != &ascending.front()) continue;  // the same view again
    for (const std::size_t user : users) {
      const Tensor& other = tensors_[user];
      if (other.same_view(tensor) || other.count() == 0) continue;
      if (other.offset * other.item_size < end && begin < other.end() * other.item_size)
        fail(ErrorCode::unfilterable,
             "{}: tensors {} and {} share a part of their numbers; save a copy of the first "
             "(.clone()) instead",
             archive_.what(), tensor.name, other.name);
    }
    std::vector<std::byte> part(storage.begin() + static_cast<std::ptrdiff_t>(begin),
                                storage.begin() + static_cast<std::ptrdiff_t>(end));
    const std::size_t bytes = row_bytes(tensor);
    for (std::size_t row = 0; row < tensor.shape[0]; ++row)
      place_row(
          tensor, row,
          row < cut.count ? cut.rows.subspan(row * bytes, bytes) : std::span<const std::byte>(),
          tensor.offset, part);
    std::vector<ZipPiece>& pieces = storages_[key];
    pieces.push_back({storage.subspan(at, begin - at), true});
    pieces.push_back({own(std::move(part))});
    at = end;
  }
  storages_[key].push_back({storage.subspan(at), true});
}

const StorageEdits& RowCut::finish() {
  std::map<std::string, std::vector<std::size_t>> users;
  for (std::size_t i = 0; i < tensors_.size(); ++i) users[tensors_[i].key].push_back(i);
  for (const auto& [key, cuts] : cuts_) {
    const std::vector<std::size_t>& all = users[key];
    const Tensor& first = tensors_[cuts[0].tensor];
    archive_.check_storage(key);
    std::set<std::size_t> cut_tensors;
    for (const Cut& cut : cuts) cut_tensors.insert(cut.tensor);
    const auto is_cut = [&](std::size_t user) { return cut_tensors.contains(user); };
    // A tensor of the same numbers that keeps its size would read beyond the storage.
    for (const std::size_t user : all)
      if (!is_cut(user) && tensors_[user].same_view(first))
        fail(ErrorCode::unfilterable, "{}: {} and {} are the same numbers, one of them kept",
             archive_.what(), first.name, tensors_[user].name);
    const bool alone = std::ranges::all_of(
        all, [&](std::size_t user) { return is_cut(user) && tensors_[user].same_view(first); });
    if (alone && fills_its_storage(first))
      shrink(key, cuts);
    else
      close_up(key, cuts, all);
  }
  for (const auto& [ref, value] : integers_) edits_.set_integer(ref, value);
  return storages_;
}

}  // namespace oubli::torch
