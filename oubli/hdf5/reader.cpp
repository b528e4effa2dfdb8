#include "oubli/hdf5/reader.h"

#include <algorithm>
#include <iterator>

#include "oubli/base/byte_reader.h"
#include "oubli/base/error.h"
#include "oubli/hdf5/checksum.h"

namespace oubli {
namespace {

// Keras nests a handful of groups; names are those of layers.
constexpr std::size_t kDeepest = 32;
constexpr std::size_t kLongestName = 1024;

constexpr unsigned kLinkInfo = 0x02, kExternalFiles = 0x07, kLink = 0x06, kLayout = 0x08,
                   kAttribute = 0x0c, kContinuation = 0x10, kSymbolTable = 0x11,
                   kAttributeInfo = 0x15;

}  // namespace

void Hdf5Reader::damaged(std::uint64_t at, const std::string& why) const {
  fail(ErrorCode::bad_input, "{}: damaged at byte {}: {}", file_.what_, at, why);
}

void Hdf5Reader::foreign(const std::string& what) const {
  fail(ErrorCode::bad_input,
       "{}: {}, which Keras does not write and is not followed here; copy it into a plain file "
       "first: h5repack -l CONTI -f NONE OLD.h5 NEW.h5",
       file_.what_, what);
}

std::span<const std::byte> Hdf5Reader::span(std::uint64_t at, std::uint64_t count) const {
  if (at > file_.bytes_.size() || count > file_.bytes_.size() - at)
    damaged(at, fmt::format("{} bytes wanted, the file has {}: cut short?", count,
                            file_.bytes_.size()));
  return file_.bytes_.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count));
}

std::string_view Hdf5Reader::text(std::uint64_t at, std::uint64_t count) const {
  return as_text(span(at, count));
}

std::uint64_t Hdf5Reader::number(std::uint64_t at, unsigned count) const {
  std::uint64_t value = 0;
  const auto bytes = span(at, count);
  for (unsigned i = 0; i < count; ++i)
    value |= std::uint64_t{std::to_integer<std::uint8_t>(bytes[i])} << (8 * i);
  return value;
}

void Hdf5Reader::claim(std::uint64_t at, std::uint64_t count, const char* what) {
  (void)span(at, count);
  if (count == 0) return;
  const auto next = extents_.lower_bound(at);
  const auto overlap = [&](const Extent& other) {
    damaged(at, fmt::format("{} overlaps {}", what, other.what));
  };
  if (next != extents_.end() && next->first < at + count) overlap(next->second);
  if (next != extents_.begin() && std::prev(next)->second.end > at)
    overlap(std::prev(next)->second);
  extents_.emplace_hint(next, at, Extent{at + count, what});
}

void Hdf5Reader::require_signature(std::uint64_t at, std::string_view signature) const {
  if (text(at, signature.size()) != signature)
    damaged(at, fmt::format("wanted the structure {}", signature));
}

void Hdf5Reader::require_sum(std::uint64_t at, std::uint64_t count, bool may_be_patched) {
  if (number(at + count, 4) != hdf5_checksum(span(at, count)))
    damaged(at, "its check sum does not agree");
  if (may_be_patched) file_.summed_.push_back({at, at + count});
}

std::uint64_t Hdf5Reader::read_superblock() {
  require_signature(0, "\x89HDF\r\n\x1a\n");
  const std::uint64_t version = number(8, 1);
  if (version > 3) foreign(fmt::format("HDF5 superblock version {}", version));
  const bool old = version < 2;
  const std::uint64_t sizes = old ? 13 : 9;
  if (number(sizes, 1) != 8 || number(sizes + 1, 1) != 8)
    foreign("addresses of other than 8 bytes");
  const std::uint64_t base = old ? (version == 1 ? 28 : 24) : 12;
  const std::uint64_t end = old ? base + 16 : 28;
  if (address(base) != 0) foreign("a block of other data in front");
  if (address(end) > file_.bytes_.size())
    fail(ErrorCode::bad_input,
         "{}: cut short: {} bytes, it says that it has {}; if it was downloaded or copied, do so "
         "again",
         file_.what_, file_.bytes_.size(), address(end));
  if (!old) {
    claim(0, 48, "the superblock");
    require_sum(0, 44, false);
    return address(36);
  }
  claim(0, base + 72, "the superblock");
  if (address(base + 24) != kNowhere) foreign("a driver of several files");
  return address(base + 40);
}

void Hdf5Reader::messages_in(std::uint64_t begin, std::uint64_t end, unsigned version, bool ordered,
                             std::vector<Message>& messages) const {
  const std::uint64_t header = version == 1 ? 8 : ordered ? 6 : 4;
  for (std::uint64_t at = begin; end - at >= header;) {
    Message message;
    message.type = static_cast<unsigned>(number(at, version == 1 ? 2 : 1));
    message.size = number(at + (version == 1 ? 2 : 1), 2);
    message.flags = static_cast<unsigned>(number(at + (version == 1 ? 4 : 3), 1));
    message.at = at + header;
    if (message.size > end - message.at) damaged(at, "a message is longer than its header");
    messages.push_back(message);
    at = message.at + message.size;
  }
}

// "OHDR"; returns its flags.
std::uint64_t Hdf5Reader::second_header(std::uint64_t at, std::vector<Message>& messages) {
  if (number(at + 4, 1) != 2) damaged(at, "an unknown version of object headers");
  const std::uint64_t flags = number(at + 5, 1);
  const std::uint64_t size_at =
      at + 6 + ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0);
  const unsigned width = 1U << (flags & 3);
  const std::uint64_t begin = size_at + width;
  const std::uint64_t size = number(size_at, width);
  (void)span(begin, size);
  claim(at, begin - at + size + 4, "an object header");
  require_sum(at, begin - at + size, true);
  messages_in(begin, begin + size, 2, (flags & 4) != 0, messages);
  return flags;
}

std::vector<Hdf5Reader::Message> Hdf5Reader::messages_of(std::uint64_t at) {
  std::vector<Message> messages;
  const bool second = text(at, 4) == "OHDR";
  std::uint64_t flags = 0;
  if (second) {
    flags = second_header(at, messages);
  } else {
    if (number(at, 1) != 1) damaged(at, "wanted an object header");
    const std::uint64_t size = number(at + 8, 4);
    claim(at, 16 + size, "an object header");
    messages_in(at + 16, at + 16 + size, 1, false, messages);
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].type != kContinuation) continue;
    if (messages[i].size < 16) damaged(messages[i].at, "a continuation that leads nowhere");
    const std::uint64_t begin = address(messages[i].at);
    const std::uint64_t size = number(messages[i].at + 8, 8);
    claim(begin, size, "an object header's continuation");
    if (!second) {
      messages_in(begin, begin + size, 1, false, messages);
      continue;
    }
    if (size < 8) damaged(begin, "a continuation that is too short");
    require_signature(begin, "OCHK");
    require_sum(begin, size - 4, true);
    messages_in(begin + 4, begin + size - 4, 2, (flags & 4) != 0, messages);
  }
  return messages;
}

void Hdf5Reader::symbol_table(std::uint64_t tree, std::uint64_t heap, std::vector<Link>& links) {
  require_signature(heap, "HEAP");
  claim(heap, 32, "a local heap");
  const std::uint64_t names_size = number(heap + 8, 8);
  const std::uint64_t names = address(heap + 24);
  claim(names, names_size, "names in a local heap");
  std::vector<std::uint64_t> nodes{tree};
  while (!nodes.empty()) {
    const std::uint64_t at = nodes.back();
    nodes.pop_back();
    if (text(at, 4) == "TREE") {
      const std::uint64_t used = number(at + 6, 2);
      if (number(at + 4, 1) != 0) damaged(at, "wanted a tree of names");
      claim(at, 24 + used * 16 + 8, "a tree of names");
      for (std::uint64_t i = used; i-- > 0;) nodes.push_back(address(at + 32 + 16 * i));
      continue;
    }
    require_signature(at, "SNOD");
    const std::uint64_t used = number(at + 6, 2);
    claim(at, 8 + used * 40, "a table of names");
    for (std::uint64_t i = 0; i < used; ++i) {
      const std::uint64_t entry = at + 8 + 40 * i;
      const std::uint64_t offset = address(entry);
      if (offset >= names_size) damaged(entry, "a name outside of its heap");
      const std::string_view rest =
          text(names + offset, std::min<std::uint64_t>(names_size - offset, kLongestName));
      const std::size_t end = rest.find('\0');
      if (end == 0 || end == std::string_view::npos) damaged(names + offset, "a name without end");
      const std::uint64_t kind = number(entry + 16, 4);
      if (kind > 1) foreign(fmt::format("a soft link ({})", rest.substr(0, end)));
      links.push_back({rest.substr(0, end), address(entry + 8)});
    }
  }
}

Hdf5Reader::Link Hdf5Reader::link_message(std::uint64_t at, std::uint64_t size) const {
  const auto limit = at + size;
  if (size < 4 || number(at, 1) != 1) damaged(at, "an unknown version of links");
  const std::uint64_t flags = number(at + 1, 1);
  std::uint64_t next = at + 2;
  const std::uint64_t kind = (flags & 8) != 0 ? number(next++, 1) : 0;
  if ((flags & 4) != 0) next += 8;
  if ((flags & 16) != 0) next += 1;
  const unsigned width = 1U << (flags & 3);
  const std::uint64_t length = number(next, width);
  next += width;
  if (length == 0 || length > kLongestName || next + length > limit)
    damaged(at, "a link's name is longer than the link");
  const std::string_view name = text(next, length);
  if (kind != 0) foreign(fmt::format("{} link ({})", kind == 1 ? "a soft" : "an external", name));
  if (limit - next - length < 8) damaged(at, "a link that leads nowhere");
  return {name, address(next + length)};
}

void Hdf5Reader::add_members(std::size_t index, const std::vector<Link>& links) {
  if (!links.empty() && depth_[index] == kDeepest)
    damaged(links[0].address, fmt::format("groups nested more than {} deep", kDeepest));
  for (const Link& link : links) {
    if (link.name.find('/') != std::string_view::npos)
      damaged(link.address, fmt::format("a name with a slash in it ({})", link.name));
    const auto [known, is_new] = by_address_.emplace(link.address, file_.objects_.size());
    if (is_new) {
      Hdf5Object object;
      const std::string& parent = file_.objects_[index].path;
      object.path = fmt::format("{}/{}", parent == "/" ? "" : parent, link.name);
      path_bytes_ += object.path.size();
      if (path_bytes_ > 4 * file_.bytes_.size() + 65536) damaged(link.address, "too many names");
      file_.objects_.push_back(std::move(object));
      depth_.push_back(depth_[index] + 1);
      to_visit_.emplace_back(known->second, link.address);
    }
    file_.objects_[known->second].links += 1;
    file_.objects_[index].members.emplace_back(link.name, known->second);
  }
}

void Hdf5Reader::visit(std::size_t index, std::uint64_t at) {
  const std::vector<Message> messages = messages_of(at);
  std::vector<Link> links;
  std::vector<Hdf5Attribute> attributes;
  bool group = false;
  bool data = false;
  for (const Message& message : messages) {
    const bool shared = (message.flags & 2) != 0;
    if (message.type == kSymbolTable) {
      group = true;
      if (message.size < 16) damaged(message.at, "a group without its table");
      symbol_table(address(message.at), address(message.at + 8), links);
    } else if (message.type == kLink) {
      group = true;
      links.push_back(link_message(message.at, message.size));
    } else if (message.type == kLinkInfo) {
      group = true;
      const std::uint64_t flags = number(message.at + 1, 1);
      const std::uint64_t heap = message.at + 2 + ((flags & 1) != 0 ? 8 : 0);
      for (const auto& [object, size] : dense_objects({address(heap), address(heap + 8), 4}))
        links.push_back(link_message(object, size));
    } else if (message.type == kAttribute) {
      if (shared) foreign("an attribute that is stored elsewhere");
      attributes.push_back(attribute(message.at, message.size));
    } else if (message.type == kAttributeInfo) {
      const std::uint64_t flags = number(message.at + 1, 1);
      const std::uint64_t heap = message.at + 2 + ((flags & 1) != 0 ? 2 : 0);
      for (const auto& [object, size] : dense_objects({address(heap), address(heap + 8), 0}))
        attributes.push_back(attribute(object, size));
    } else if (message.type == kExternalFiles) {
      foreign("data in another file");
    } else if (message.type == kLayout) {
      data = true;
    }
  }
  if (group && data) damaged(at, "a group that is a dataset, too");
  if (data) file_.objects_[index].dataset = dataset(messages);
  for (const Hdf5Attribute& each : attributes) note_heap(each);
  file_.objects_[index].attributes = std::move(attributes);
  file_.objects_[index].group = group;
  add_members(index, links);
}

void Hdf5Reader::read() {
  const std::uint64_t root = read_superblock();
  file_.objects_.emplace_back();
  file_.objects_[0].path = "/";
  file_.objects_[0].links = 1;
  depth_.push_back(0);
  by_address_.emplace(root, 0);
  to_visit_.emplace_back(0, root);
  while (!to_visit_.empty()) {
    const auto [index, at] = to_visit_.back();
    to_visit_.pop_back();
    visit(index, at);
  }
  if (!file_.objects_[0].group) damaged(root, "its root is not a group");
  for (const Hdf5Object& object : file_.objects_)
    if (object.group && object.links != 1)
      foreign(fmt::format("a group with several names ({})", object.path));
}

}  // namespace oubli
