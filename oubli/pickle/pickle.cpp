#include "oubli/pickle/pickle.h"

#include <algorithm>
#include <bit>
#include <set>

#include "oubli/base/file.h"

namespace oubli::pickle {

template <typename Visit>
void Pickle::for_each_batch(Ref ref, Part part, Visit visit) const {
  if (ref == kNothing) return;
  for (std::uint32_t at = values_[ref].batch; at != kNoBatch; at = batches_[at].next)
    if (batches_[at].part == part) visit(batches_[at]);
}

double Pickle::real(Ref ref) const { return std::bit_cast<double>(values_[ref].first); }

Extent Pickle::payload(Ref ref) const { return {values_[ref].first, values_[ref].second}; }

std::string_view Pickle::text(Ref ref) const {
  const Extent extent = payload(ref);
  return as_text(bytes_.subspan(extent.begin, extent.end - extent.begin));
}

std::string Pickle::global_name(Ref ref) const {
  if (!is(ref, Kind::global)) return {};
  const std::vector<Ref> parts = children(ref, Part::arguments);
  return std::string(text(parts[0])) + "." + std::string(text(parts[1]));
}

Extent Pickle::operation(Ref ref) const { return {values_[ref].begin, values_[ref].second}; }

std::vector<Ref> Pickle::children(Ref ref, Part part) const {
  std::vector<Ref> found;
  for_each_batch(ref, part, [&](const Batch& batch) {
    for (std::uint32_t i = 0; i < batch.count; ++i)
      found.push_back(children_[batch.first + i].value);
  });
  return found;
}

Ref Pickle::child(Ref ref, Part part, std::size_t n) const {
  if (ref == kNothing) return kNothing;
  for (std::uint32_t at = values_[ref].batch; at != kNoBatch; at = batches_[at].next) {
    if (batches_[at].part != part) continue;
    if (n < batches_[at].count) return children_[batches_[at].first + n].value;
    n -= batches_[at].count;
  }
  return kNothing;
}

bool Pickle::has_at_most(Ref ref, Part part, std::size_t n) const {
  if (ref == kNothing) return true;
  for (std::uint32_t at = values_[ref].batch; at != kNoBatch; at = batches_[at].next) {
    if (batches_[at].part != part) continue;
    if (n < batches_[at].count) return false;
    n -= batches_[at].count;
  }
  return true;
}

std::vector<Item> Pickle::items(Ref ref) const {
  std::vector<Item> found;
  for_each_batch(ref, Part::items, [&](const Batch& batch) {
    for (std::uint32_t i = 0; i < batch.count; ++i) {
      const Child& child = children_[batch.first + i];
      const std::uint64_t end =
          i + 1 < batch.count ? children_[batch.first + i + 1].from : batch.end;
      found.push_back({child.value, {child.from, end + (batch.alone ? 1 : 0)}, batch.alone});
    }
  });
  return found;
}

std::vector<Pair> Pickle::pairs(Ref ref) const {
  std::vector<Pair> found;
  for_each_batch(ref, Part::pairs, [&](const Batch& batch) {
    for (std::uint32_t i = 0; i + 1 < batch.count; i += 2) {
      const Child& key = children_[batch.first + i];
      const std::uint64_t end =
          i + 2 < batch.count ? children_[batch.first + i + 2].from : batch.end;
      found.push_back({key.value,
                       children_[batch.first + i + 1].value,
                       {key.from, end + (batch.alone ? 1 : 0)},
                       batch.alone});
    }
  });
  return found;
}

Ref Pickle::find(Ref dict, std::string_view key) const {
  Ref found = kNothing;
  for_each_batch(dict, Part::pairs, [&](const Batch& batch) {
    for (std::uint32_t i = 0; i + 1 < batch.count; i += 2)
      if (is_text(children_[batch.first + i].value, key))
        found = children_[batch.first + i + 1].value;
  });
  return found;
}

std::string Pickle::callee(Ref object) const {
  if (!is(object, Kind::object)) return {};
  const Ref called = children_[batches_[values_[object].batch].first].value;
  if (!is(called, Kind::persistent)) return global_name(called);
  // A class with its source code, as PyTorch saved modules before 1.6: ('module', class, ...)
  const Ref id = child(called, Part::arguments, 0);
  return is_text(child(id, Part::items, 0), "module") ? global_name(child(id, Part::items, 1))
                                                      : std::string();
}

Ref Pickle::argument(Ref object, std::size_t n) const {
  if (!is(object, Kind::object)) return kNothing;
  const Ref tuple = child(object, Part::arguments, 1);
  return is(tuple, Kind::tuple) ? child(tuple, Part::items, n) : kNothing;
}

Ref Pickle::state(Ref object) const {
  if (!is(object, Kind::object) && !is(object, Kind::global) && !is(object, Kind::persistent))
    return kNothing;
  return static_cast<Ref>(values_[object].second);
}

Ref Pickle::attribute(Ref object, std::string_view name) const {
  const Ref given = state(object);
  return is(given, Kind::dict) ? find(given, name) : kNothing;
}

std::vector<Ref> Pickle::reachable(Ref from) const {
  std::vector<Ref> order;
  std::vector<bool> seen(values_.size());
  std::vector<Ref> open{from};
  std::vector<Ref> next;
  while (!open.empty()) {
    const Ref ref = open.back();
    open.pop_back();
    if (ref == kNothing || seen[ref]) continue;
    seen[ref] = true;
    order.push_back(ref);
    next.clear();
    for (std::uint32_t at = values_[ref].batch; at != kNoBatch; at = batches_[at].next)
      for (std::uint32_t i = 0; i < batches_[at].count; ++i)
        next.push_back(children_[batches_[at].first + i].value);
    if (const StreamData* const data = stream_data(ref)) next.push_back(data->nested);
    open.insert(open.end(), next.rbegin(), next.rend());
  }
  return order;
}

std::vector<std::string> Pickle::called_names() const {
  std::vector<std::string> names;
  std::set<std::string> seen;
  const auto add = [&](std::string name) {
    if (name.empty()) name = "(something that is no name)";
    if (seen.insert(name).second) names.push_back(std::move(name));
  };
  for (Ref ref = 0; ref < values_.size(); ++ref) {
    if (is(ref, Kind::object)) add(callee(ref));
    // A class or function whose attributes are set
    if (is(ref, Kind::global) && state(ref) != kNothing) add(global_name(ref));
  }
  return names;
}

const Pickle::StreamData* Pickle::stream_data(Ref object) const {
  const auto found = std::ranges::lower_bound(stream_data_, object, {}, &StreamData::object);
  return found == stream_data_.end() || found->object != object ? nullptr : &*found;
}

}  // namespace oubli::pickle
