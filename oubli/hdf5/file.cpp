#include "oubli/hdf5/file.h"

#include <algorithm>
#include <cstring>

#include "oubli/base/byte_reader.h"
#include "oubli/base/error.h"
#include "oubli/hdf5/checksum.h"
#include "oubli/hdf5/reader.h"

namespace oubli {

Hdf5File::Hdf5File(std::span<const std::byte> bytes, std::string what)
    : bytes_(bytes), what_(std::move(what)) {
  Hdf5Reader(*this).read();
}

const Hdf5Object* Hdf5File::find(std::string_view path) const { return find(objects_[0], path); }

const Hdf5Object* Hdf5File::find(const Hdf5Object& group, std::string_view path) const {
  const Hdf5Object* at = &group;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, end);
    path.remove_prefix(std::min(path.size(), end + 1));
    if (name.empty()) continue;
    const auto found =
        std::ranges::find_if(at->members, [&](const auto& m) { return m.first == name; });
    if (found == at->members.end()) return nullptr;
    at = &objects_[found->second];
  }
  return at;
}

const Hdf5Attribute* Hdf5File::attribute(const Hdf5Object& object, std::string_view name) const {
  const auto found = std::ranges::find(object.attributes, name, &Hdf5Attribute::name);
  return found == object.attributes.end() ? nullptr : &*found;
}

std::vector<std::string_view> Hdf5File::texts(const Hdf5Attribute& attribute) const {
  const std::size_t size = attribute.type.size;
  std::vector<std::string_view> found;
  if (attribute.type.kind == Hdf5Type::Class::fixed_text) {
    for (std::size_t at = 0; at < attribute.value.size(); at += size) {
      const std::string_view text = as_text(attribute.value.subspan(at, size));
      found.push_back(text.substr(0, text.find('\0')));
    }
    return found;
  }
  if (attribute.type.kind != Hdf5Type::Class::variable_text)
    fail(ErrorCode::bad_input, "{}: attribute {} is {}, wanted text", what_, attribute.name,
         attribute.type.name);
  for (std::size_t at = 0; at < attribute.value.size(); at += size) {
    const auto length = load_le<std::uint32_t>(attribute.value, at);
    const auto heap = load_le<std::uint64_t>(attribute.value, at + 4);
    const auto index = load_le<std::uint32_t>(attribute.value, at + 12);
    if (heap == 0) {  // empty; it stands where its place is told
      found.push_back(as_text(attribute.value.subspan(at, 0)));
      continue;
    }
    const auto object = heap_objects_.find({heap, index});
    if (object == heap_objects_.end() || length > object->second.size())
      fail(ErrorCode::bad_input, "{}: attribute {} has a text that is not there", what_,
           attribute.name);
    const std::string_view text = as_text(object->second.first(length));
    found.push_back(text.substr(0, text.find('\0')));
  }
  return found;
}

TensorView Hdf5File::tensor(const Hdf5Object& object) const {
  const std::string what = fmt::format("{}:{}", what_, object.path);
  if (!object.dataset) fail(ErrorCode::bad_input, "{}: not a dataset", what);
  const Hdf5Dataset& dataset = *object.dataset;
  if (!dataset.unreadable.empty())
    fail(ErrorCode::bad_input,
         "{}: {}, wanted plain storage; make it so: h5repack -l CONTI -f NONE OLD.h5 NEW.h5", what,
         dataset.unreadable);
  if (!dataset.type.dtype)
    fail(ErrorCode::bad_input, "{}: {}, wanted floats", what, dataset.type.name);
  return {*dataset.type.dtype, dataset.shape, dataset.bytes, what};
}

std::uint64_t Hdf5File::offset_of(std::string_view text) const {
  const auto* const begin = reinterpret_cast<const char*>(bytes_.data());
  OUBLI_ASSERT(text.data() >= begin && text.data() + text.size() <= begin + bytes_.size());
  return static_cast<std::uint64_t>(text.data() - begin);
}

void Hdf5File::shrink(Patches& patches, const Hdf5Object& object, const TensorView& values) const {
  const Hdf5Dataset& dataset = *object.dataset;
  OUBLI_ASSERT(values.dtype == dataset.type.dtype && values.rank() == dataset.shape.size() &&
               values.bytes.size() <= dataset.bytes.size());
  const auto put = [&](std::uint64_t at, std::uint64_t number) {
    patches.put(at, std::as_bytes(std::span(&number, 1)));
  };
  for (std::size_t i = 0; i < values.rank(); ++i) {
    if (values.shape[i] == dataset.shape[i]) continue;
    put(dataset.dims_at + 8 * i, values.shape[i]);
    if (dataset.max_dims_at) put(*dataset.max_dims_at + 8 * i, values.shape[i]);
  }
  if (values.bytes.size() != dataset.bytes.size()) put(dataset.size_at, values.bytes.size());
  patches.put_view(dataset.bytes_at, values.bytes);
  patches.zero(dataset.bytes_at + values.bytes.size(), dataset.bytes.size() - values.bytes.size());
}

void Hdf5File::finish(Patches& patches) const {
  for (const Summed& block : blocks_)
    if (patches.touch(block.begin, block.end - block.begin))
      fail(ErrorCode::unfilterable,
           "{}: what has to be changed is in a list of attributes that cannot be patched; write it "
           "anew: h5repack OLD.h5 NEW.h5",
           what_);
  for (const Summed& part : summed_) {
    if (!patches.touch(part.begin, part.end - part.begin)) continue;
    const std::uint32_t sum =
        hdf5_checksum(patches.read(bytes_, part.begin, part.end - part.begin));
    patches.put(part.end, std::as_bytes(std::span(&sum, 1)));
  }
}

}  // namespace oubli
