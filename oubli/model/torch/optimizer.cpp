#include "oubli/model/torch/optimizer.h"

#include <algorithm>
#include <map>

#include "oubli/base/error.h"

namespace oubli::torch {

using pickle::Kind;
using pickle::kNothing;
using pickle::Part;
using pickle::Pickle;
using pickle::Ref;

namespace {
constexpr std::size_t kMostOptimizers = 64;
}  // namespace

Optimizers::Optimizers(const Pickle& pickle, std::span<const Tensor> tensors)
    : tensors_(tensors), held_(tensors.size()) {
  std::map<Ref, std::size_t> by_object;
  for (std::size_t i = 0; i < tensors.size(); ++i) by_object[tensors[i].object] = i;
  for (const Ref ref : pickle.reachable(pickle.root())) {
    const Ref states = pickle.find(ref, "state");
    const Ref groups = pickle.find(ref, "param_groups");
    if (states == kNothing || groups == kNothing) continue;
    if (states_.size() == kMostOptimizers)
      fail(ErrorCode::bad_input, "{}: more than {} optimizers", pickle.what(), kMostOptimizers);
    for (const Ref inside : pickle.reachable(ref))
      if (const auto tensor = by_object.find(inside); tensor != by_object.end())
        held_[tensor->second] = true;
    State state;
    for (const Ref group : pickle.children(groups, Part::items))
      state.parameters += pickle.children(pickle.find(group, "params"), Part::items).size();
    for (const pickle::Pair& pair : pickle.pairs(states)) {
      if (!pickle.is(pair.key, Kind::integer)) continue;
      Entry entry{pickle.integer(pair.key), {}};
      state.flat = state.flat || pickle.find(pair.value, "old_dirs") != kNothing ||
                   pickle.find(pair.value, "prev_flat_grad") != kNothing;
      for (const pickle::Pair& moment : pickle.pairs(pair.value))
        if (const auto tensor = by_object.find(moment.value); tensor != by_object.end())
          entry.tensors.push_back(tensor->second);
      state.entries.push_back(std::move(entry));
    }
    states_.push_back(std::move(state));
  }
}

// A scalar, the parameter's own shape, or that without its last or last but one side (Adafactor).
bool Optimizers::fits(const Entry& entry, const Tensor& parameter) const {
  return std::ranges::all_of(entry.tensors, [&](std::size_t i) {
    const std::vector<std::size_t>& shape = tensors_[i].shape;
    if (tensors_[i].count() == 1 || shape == parameter.shape) return true;
    if (parameter.shape.size() < 2) return false;
    std::vector<std::size_t> rows = parameter.shape, cols = parameter.shape;
    rows.pop_back();
    cols.erase(cols.end() - 2);
    return shape == rows || shape == cols;
  });
}

const Optimizers::Entry* Optimizers::entry_of(const State& state, std::size_t parameter,
                                              std::span<const std::size_t> model,
                                              const std::string& what) const {
  const Tensor& wanted = tensors_[parameter];
  if (state.parameters == model.size()) {
    const bool in_order = std::ranges::all_of(state.entries, [&](const Entry& entry) {
      return entry.number >= 0 && static_cast<std::size_t>(entry.number) < model.size() &&
             fits(entry, tensors_[model[static_cast<std::size_t>(entry.number)]]);
    });
    const auto place = std::ranges::find(model, parameter) - model.begin();
    if (in_order) {
      const auto found = std::ranges::find(state.entries, place, &Entry::number);
      return found == state.entries.end() ? nullptr : &*found;
    }
  }
  const auto has_shape = [&](const Entry& entry) {
    return std::ranges::any_of(entry.tensors,
                               [&](std::size_t i) { return tensors_[i].shape == wanted.shape; });
  };
  const auto entries = std::ranges::count_if(state.entries, has_shape);
  const auto parameters = std::ranges::count_if(
      model, [&](std::size_t i) { return tensors_[i].shape == wanted.shape; });
  if (entries == 0 && !state.flat) return nullptr;
  if (entries != 1 || parameters != 1 || state.flat)
    fail(ErrorCode::unfilterable,
         "{}: which part of the optimizer's state belongs to {} cannot be told, and it knows the "
         "class; leave it out: c = torch.load('model.pth'); del c['optimizer']; torch.save(c, "
         "'model.pth')",
         what, wanted.name);
  return &*std::ranges::find_if(state.entries, has_shape);
}

std::vector<std::size_t> Optimizers::moments_of(std::size_t parameter,
                                                std::span<const std::size_t> model,
                                                const std::string& what) const {
  std::vector<std::size_t> moments;
  const std::vector<std::size_t>& shape = tensors_[parameter].shape;
  for (const State& state : states_) {
    const Entry* const entry = entry_of(state, parameter, model, what);
    if (entry == nullptr) continue;
    for (const std::size_t i : entry->tensors) {
      const std::vector<std::size_t>& its = tensors_[i].shape;
      if (its.empty() || its[0] != shape[0] || tensors_[i].count() == 1) continue;
      if (its != shape && shape.size() > 1 && shape[0] == shape[1])
        fail(ErrorCode::unfilterable,
             "{}: whether {} counts classes or features cannot be told: there are as many", what,
             tensors_[i].name);
      moments.push_back(i);
    }
  }
  return moments;
}

}  // namespace oubli::torch
