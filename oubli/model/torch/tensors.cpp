#include "oubli/model/torch/tensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>

#include "oubli/base/error.h"

namespace oubli::torch {
namespace {

using pickle::Kind;
using pickle::kNothing;
using pickle::Part;
using pickle::Pickle;
using pickle::Ref;

struct ElementType {
  std::string_view storage;  // "torch." + this + "Storage"
  std::string_view name;     // "torch." + this as a dtype
  std::size_t size;
  std::optional<DType> dtype;
};

constexpr std::array<ElementType, 20> kElementTypes{{
    {"Float", "float32", 4, DType::f32},
    {"Double", "float64", 8, DType::f64},
    {"Half", "float16", 2, DType::f16},
    {"BFloat16", "bfloat16", 2, DType::bf16},
    {"Long", "int64", 8, DType::i64},
    {"Int", "int32", 4, DType::i32},
    {"Short", "int16", 2, DType::i16},
    {"Char", "int8", 1, DType::i8},
    {"Byte", "uint8", 1, DType::u8},
    {"Bool", "bool", 1, DType::boolean},
    {"ComplexFloat", "complex64", 8, std::nullopt},
    {"ComplexDouble", "complex128", 16, std::nullopt},
    {"QInt8", "qint8", 1, std::nullopt},
    {"QUInt8", "quint8", 1, std::nullopt},
    {"QInt32", "qint32", 4, std::nullopt},
    {"", "uint16", 2, DType::u16},
    {"", "uint32", 4, DType::u32},
    {"", "uint64", 8, DType::u64},
    {"", "float8_e4m3fn", 1, std::nullopt},
    {"", "float8_e5m2", 1, std::nullopt},
}};

const ElementType* type_of_storage(std::string_view global) {
  constexpr std::string_view kEnd = "Storage";
  const std::size_t dot = global.rfind('.');
  if (!global.starts_with("torch.") || !global.ends_with(kEnd)) return nullptr;
  const std::string_view name = global.substr(dot + 1, global.size() - dot - 1 - kEnd.size());
  const auto found = std::ranges::find_if(kElementTypes, [&](const ElementType& type) {
    return !type.storage.empty() && type.storage == name;
  });
  return found == kElementTypes.end() ? nullptr : &*found;
}

const ElementType* type_of_name(std::string_view global) {
  if (!global.starts_with("torch.")) return nullptr;
  const auto found = std::ranges::find(kElementTypes, global.substr(6), &ElementType::name);
  return found == kElementTypes.end() ? nullptr : &*found;
}

bool is_untyped(std::string_view global) { return global.ends_with(".UntypedStorage"); }

// What a persistent id says: ('storage', type, key, location, elements[, view]).
struct StorageId {
  std::string type;
  std::string key;
  Ref count = kNothing;
};

std::optional<StorageId> storage_id(const Pickle& pickle, Ref persistent) {
  if (!pickle.is(persistent, Kind::persistent)) return std::nullopt;
  const Ref id = pickle.child(persistent, Part::arguments, 0);
  if (!pickle.is(id, Kind::tuple)) return std::nullopt;
  const auto part = [&](std::size_t n) { return pickle.child(id, Part::items, n); };
  constexpr std::size_t kLongestKey = 256;
  if (!pickle.is_text(part(0), "storage") || !pickle.is(part(2), Kind::text) ||
      pickle.text(part(2)).size() > kLongestKey || !pickle.is(part(4), Kind::integer) ||
      (part(5) != kNothing && !pickle.is(part(5), Kind::none)))
    return std::nullopt;
  return StorageId{pickle.global_name(part(1)), std::string(pickle.text(part(2))), part(4)};
}

// Walks from the root to every tensor, with the names that lead there.
class Walk {
 public:
  Walk(const Archive& archive) : archive_(archive), pickle_(archive.pickle()) {}

  std::vector<Tensor> run() {
    steps_.push_back({pickle_.root(), kNoParent, {}, kNothing, 0});
    while (!steps_.empty()) {
      const Step step = steps_.back();
      steps_.pop_back();
      visit(step);
    }
    return std::move(tensors_);
  }

 private:
  static constexpr std::size_t kNoParent = static_cast<std::size_t>(-1);
  static constexpr std::size_t kDeepest = 300;
  static constexpr std::size_t kMostSides = 64;
  struct Step {
    Ref value;
    std::size_t parent;  // of trail_
    std::string_view word;
    Ref module;
    std::size_t number;  // the word, if that is empty: of a list's item
  };
  struct Trail {
    std::size_t parent;
    std::string_view word;
    std::size_t number;  // as in Step
    std::size_t depth;
  };

  void visit(const Step& step) {
    if (step.value == kNothing) return;
    if (const auto known = known_.find(step.value); known != known_.end()) {
      if (known->second != kNoParent) tensors_[known->second].aliases.push_back(name_of(step));
      return;
    }
    if (is_wrapper(step.value)) {  // nn.Parameter around its tensor, under one name
      known_.emplace(step.value, kNoParent);
      Step inner = step;
      inner.value = pickle_.argument(step.value, 0);
      visit_tensor_or_inside(inner);
      if (const auto made = known_.find(inner.value); made != known_.end())
        known_[step.value] = made->second;
      return;
    }
    visit_tensor_or_inside(step);
  }

  void visit_tensor_or_inside(const Step& step) {
    if (step.value == kNothing || known_.contains(step.value)) return;
    if (is_rebuild(step.value)) {
      known_.emplace(step.value, tensors_.size());
      tensors_.push_back(read(step));
      return;
    }
    known_.emplace(step.value, kNoParent);
    descend(step);
  }

  [[nodiscard]] bool is_wrapper(Ref ref) const {
    const std::string callee = pickle_.callee(ref);
    return callee == "torch._utils._rebuild_parameter" ||
           callee == "torch._utils._rebuild_parameter_with_state";
  }
  [[nodiscard]] bool is_rebuild(Ref ref) const {
    const std::string callee = pickle_.callee(ref);
    return callee == "torch._utils._rebuild_tensor" ||
           callee == "torch._utils._rebuild_tensor_v2" ||
           callee == "torch._utils._rebuild_tensor_v3";
  }

  void descend(const Step& step) {
    const Kind kind = pickle_.kind(step.value);
    if (kind != Kind::tuple && kind != Kind::list && kind != Kind::dict && kind != Kind::object)
      return;
    // The modules and parameters of a module go by their own names.
    const bool hidden =
        step.word == "_modules" || step.word == "_parameters" || step.word == "_buffers";
    std::size_t here = step.parent;
    if (!hidden && !(step.parent == kNoParent && step.value == pickle_.root())) {
      const std::size_t depth = step.parent == kNoParent ? 0 : trail_[step.parent].depth + 1;
      trail_.push_back({step.parent, step.word, step.number, depth});
      here = trail_.size() - 1;
    }
    std::vector<Step> inside;
    for (const pickle::Pair& pair : pickle_.pairs(step.value))
      inside.push_back(named(pair, here, step));
    std::size_t number = 0;
    for (const Ref item : pickle_.children(step.value, Part::items))
      inside.push_back({item, here, {}, step.module, number++});
    if (kind == Kind::object) {
      for (const Ref argument : pickle_.children(step.value, Part::arguments))
        inside.push_back({argument, here, {}, step.module, number++});
      for (const Ref state : pickle_.children(step.value, Part::state)) {
        const bool module = pickle_.find(state, "_parameters") != kNothing;
        if (!pickle_.is(state, Kind::dict)) {
          inside.push_back({state, here, {}, step.module, number++});
          continue;
        }
        if (!known_.emplace(state, kNoParent).second) continue;
        for (const pickle::Pair& pair : pickle_.pairs(state)) {
          inside.push_back(named(pair, here, step));
          if (module) inside.back().module = step.value;
        }
      }
    }
    steps_.insert(steps_.end(), inside.rbegin(), inside.rend());
  }

  [[nodiscard]] Step named(const pickle::Pair& pair, std::size_t here, const Step& step) const {
    Step next{pair.value, here, {}, step.word == "_modules" ? kNothing : step.module, 0};
    if (pickle_.is(pair.key, Kind::text)) next.word = pickle_.text(pair.key);
    if (pickle_.is(pair.key, Kind::integer))
      next.number = static_cast<std::size_t>(pickle_.integer(pair.key));
    return next;
  }

  template <typename Named>
  static std::string word_of(const Named& step) {
    return step.word.empty() ? std::to_string(step.number) : std::string(step.word);
  }
  [[nodiscard]] std::string name_of(const Step& step) const {
    constexpr std::size_t kLongestName = 4096;
    std::vector<std::string> words;
    std::size_t length = step.word.size();
    if (length <= kLongestName) words.push_back(word_of(step));
    for (std::size_t at = step.parent; at != kNoParent && length <= kLongestName;
         at = trail_[at].parent) {
      length += trail_[at].word.size() + (trail_[at].depth > kDeepest ? kLongestName : 0);
      if (length <= kLongestName) words.push_back(word_of(trail_[at]));
    }
    if (length > kLongestName)
      fail(ErrorCode::bad_input,
           "{}: a tensor with a name of more than {} letters, or more than {} "
           "levels deep",
           archive_.what(), kLongestName, kDeepest);
    std::ranges::reverse(words);
    return fmt::format("{}", fmt::join(words, "."));
  }

  [[noreturn]] void refuse(const Tensor& tensor, std::string_view why) const {
    fail(ErrorCode::bad_input, "{}: tensor {}: {}", archive_.what(), tensor.name, why);
  }
  std::size_t read_number(const Tensor& tensor, Ref ref) const {
    if (!pickle_.is(ref, Kind::integer) || pickle_.integer(ref) < 0)
      refuse(tensor, "a size that is no whole number");
    return static_cast<std::size_t>(pickle_.integer(ref));
  }
  std::vector<std::size_t> read_numbers(const Tensor& tensor, Ref tuple) const {
    if (!pickle_.is(tuple, Kind::tuple) || !pickle_.has_at_most(tuple, Part::items, kMostSides))
      refuse(tensor, "sizes that are no tuple, or of too many sides");
    std::vector<std::size_t> numbers;
    for (const Ref ref : pickle_.children(tuple, Part::items))
      numbers.push_back(read_number(tensor, ref));
    return numbers;
  }

  Tensor read(const Step& step) const {
    Tensor tensor;
    tensor.name = name_of(step);
    tensor.object = step.value;
    tensor.module = step.module;
    const auto id = storage_id(pickle_, pickle_.argument(step.value, 0));
    if (!id) refuse(tensor, "its storage is nothing that PyTorch writes");
    const ElementType* type = type_of_storage(id->type);
    if (is_untyped(id->type))
      type = type_of_name(pickle_.global_name(pickle_.argument(step.value, 6)));
    if (type == nullptr) refuse(tensor, fmt::format("its type ({}) is not known", id->type));
    tensor.key = id->key;
    tensor.dtype = type->dtype;
    tensor.dtype_name = type->name;
    tensor.item_size = type->size;
    tensor.offset = read_number(tensor, pickle_.argument(step.value, 1));
    tensor.size_tuple = pickle_.argument(step.value, 2);
    tensor.shape = read_numbers(tensor, tensor.size_tuple);
    tensor.sizes = pickle_.children(tensor.size_tuple, Part::items);
    tensor.strides = read_numbers(tensor, pickle_.argument(step.value, 3));
    tensor.storage_size = id->count;
    tensor.storage_count = read_number(tensor, id->count);
    if (is_untyped(id->type)) tensor.storage_count /= type->size;
    check(tensor, is_untyped(id->type) ? 1 : type->size);
    return tensor;
  }

  void check(const Tensor& tensor, std::size_t storage_item) const {
    if (tensor.shape.size() != tensor.strides.size())
      refuse(tensor, "sizes and strides do not match");
    const auto storage = archive_.storage(tensor.key);
    if (!storage) refuse(tensor, fmt::format("its storage {} is not in the file", tensor.key));
    const auto said = static_cast<std::uint64_t>(pickle_.integer(tensor.storage_size));
    if (storage->size() % storage_item != 0 || storage->size() / storage_item != said)
      refuse(tensor, fmt::format("storage {} has {} bytes, wanted {} elements of {}", tensor.key,
                                 storage->size(), said, storage_item));
    (void)element_count(tensor.shape, tensor.name);
    std::size_t last = tensor.offset;
    bool empty = false;
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      if (tensor.shape[i] == 0) empty = true;
      std::size_t step = 0;
      if (tensor.shape[i] > 1 &&
          (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &step) ||
           __builtin_add_overflow(last, step, &last)))
        refuse(tensor, "goes beyond its storage");
    }
    if (!empty && last >= tensor.storage_count)
      refuse(tensor, fmt::format("element {} of a storage of {}", last, tensor.storage_count));
    if (empty && tensor.offset > tensor.storage_count) refuse(tensor, "goes beyond its storage");
  }

  const Archive& archive_;
  const Pickle& pickle_;
  std::vector<Step> steps_;
  std::vector<Trail> trail_;
  std::unordered_map<Ref, std::size_t> known_;  // visited; the tensor's number, or kNoParent
  std::vector<Tensor> tensors_;
};

// The elements of a row, in row-major order: calls visit(element of the storage, how many of them
// stand side by side).
template <typename Visit>
void for_each_run(const Tensor& tensor, std::size_t row, Visit visit) {
  const std::size_t rank = tensor.shape.size();
  std::size_t count = 1;
  for (std::size_t i = 1; i < rank; ++i) count *= tensor.shape[i];
  if (count == 0) return;
  const std::size_t begin = tensor.offset + row * tensor.strides[0];
  std::size_t run = 1;  // elements side by side
  std::size_t side = rank;
  while (side > 1 && (tensor.strides[side - 1] == run || tensor.shape[side - 1] == 1))
    run *= tensor.shape[--side];
  std::vector<std::size_t> index(rank, 0);
  for (std::size_t done = 0; done < count; done += run) {
    std::size_t at = begin;
    for (std::size_t i = 1; i < side; ++i) at += index[i] * tensor.strides[i];
    visit(at, run);
    for (std::size_t i = side; i-- > 1;) {
      if (++index[i] < tensor.shape[i]) break;
      index[i] = 0;
    }
  }
}

}  // namespace

std::size_t Tensor::count() const {
  std::size_t product = 1;
  for (const std::size_t side : shape) product *= side;
  return product;
}

bool Tensor::contiguous() const {
  std::size_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

bool Tensor::apart() const {
  std::vector<std::pair<std::size_t, std::size_t>> sides;  // stride, extent
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] > 1) sides.emplace_back(strides[i], shape[i]);
  std::ranges::sort(sides);
  std::size_t reach = 0;  // of all shorter strides together
  for (const auto& [stride, extent] : sides) {
    if (stride <= reach) return false;
    reach += stride * (extent - 1);
  }
  return true;
}

std::size_t Tensor::end() const {
  std::size_t last = offset;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return offset;
    last += (shape[i] - 1) * strides[i];
  }
  return last + 1;
}

std::vector<Tensor> find_tensors(const Archive& archive) { return Walk(archive).run(); }

std::map<std::string, std::size_t, std::less<>> storage_item_sizes(const Pickle& pickle) {
  std::map<std::string, std::size_t, std::less<>> sizes;
  for (Ref ref = 0; ref < pickle.size(); ++ref) {
    const auto id = storage_id(pickle, ref);
    if (!id) continue;
    const ElementType* const type = type_of_storage(id->type);
    if (type == nullptr && !is_untyped(id->type))
      fail(ErrorCode::bad_input, "{}: storage {} of a type ({}) that is not known", pickle.what(),
           id->key, id->type);
    sizes[id->key] = type == nullptr ? 1 : type->size;
  }
  return sizes;
}

void copy_row(const Tensor& tensor, std::span<const std::byte> storage, std::size_t row,
              std::span<std::byte> out) {
  std::byte* to = out.data();
  for_each_run(tensor, row, [&](std::size_t at, std::size_t run) {
    std::memcpy(to, storage.data() + at * tensor.item_size, run * tensor.item_size);
    to += run * tensor.item_size;
  });
}

void place_row(const Tensor& tensor, std::size_t row, std::span<const std::byte> row_bytes,
               std::size_t begin, std::span<std::byte> part) {
  const std::byte* from = row_bytes.data();
  for_each_run(tensor, row, [&](std::size_t at, std::size_t run) {
    std::byte* const to = part.data() + (at - begin) * tensor.item_size;
    if (row_bytes.empty()) {
      std::memset(to, 0, run * tensor.item_size);
    } else {
      std::memcpy(to, from, run * tensor.item_size);
      from += run * tensor.item_size;
    }
  });
}

}  // namespace oubli::torch
