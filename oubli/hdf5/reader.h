#pragma once

#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "oubli/hdf5/file.h"

namespace oubli {

// Fills an Hdf5File. Addresses are offsets in the file; every read is checked.
class Hdf5Reader {
 public:
  explicit Hdf5Reader(Hdf5File& file) : file_(file) {}
  void read();

  // A message of an object header.
  struct Message {
    unsigned type = 0;
    unsigned flags = 0;
    std::uint64_t at = 0;
    std::uint64_t size = 0;
  };
  struct Link {
    std::string_view name;
    std::uint64_t address = 0;
  };

 private:
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

  [[noreturn]] void damaged(std::uint64_t at, const std::string& why) const;
  [[noreturn]] void foreign(const std::string& what) const;
  // Numbers of 1 to 8 bytes.
  [[nodiscard]] std::uint64_t number(std::uint64_t at, unsigned bytes) const;
  [[nodiscard]] std::uint64_t address(std::uint64_t at) const { return number(at, 8); }
  [[nodiscard]] std::span<const std::byte> span(std::uint64_t at, std::uint64_t count) const;
  [[nodiscard]] std::string_view text(std::uint64_t at, std::uint64_t count) const;
  // Notes that a structure lies there. None may overlap another, so that all that is read
  // together is no more than the file.
  void claim(std::uint64_t at, std::uint64_t count, const char* what);
  void require_signature(std::uint64_t at, std::string_view signature) const;
  // The four bytes behind [at, at + count) must be its check sum.
  void require_sum(std::uint64_t at, std::uint64_t count, bool may_be_patched);

  // reader.cpp
  [[nodiscard]] std::uint64_t read_superblock();
  void visit(std::size_t index, std::uint64_t at);
  void add_members(std::size_t index, const std::vector<Link>& links);
  void symbol_table(std::uint64_t tree, std::uint64_t heap, std::vector<Link>& links);
  [[nodiscard]] Link link_message(std::uint64_t at, std::uint64_t size) const;
  [[nodiscard]] std::vector<Message> messages_of(std::uint64_t at);
  void messages_in(std::uint64_t begin, std::uint64_t end, unsigned version, bool ordered,
                   std::vector<Message>& messages) const;
  [[nodiscard]] std::uint64_t second_header(std::uint64_t at, std::vector<Message>& messages);

  // messages.cpp
  struct Space {
    std::vector<std::size_t> shape;
    std::uint64_t dims_at = 0;
    std::optional<std::uint64_t> max_dims_at;
    std::uint64_t size = 0;  // of the message
  };
  [[nodiscard]] Space dataspace(std::uint64_t at, std::uint64_t size) const;
  [[nodiscard]] Hdf5Type datatype(std::uint64_t at, std::uint64_t size) const;
  void layout(const Message& message, Hdf5Dataset& dataset) const;
  [[nodiscard]] Hdf5Attribute attribute(std::uint64_t at, std::uint64_t size);
  [[nodiscard]] Hdf5Dataset dataset(const std::vector<Message>& messages);
  void note_heap(const Hdf5Attribute& attribute);
  void global_heap(std::uint64_t at);

  // dense.cpp: objects in a fractal heap, listed by a version 2 B-tree
  struct Dense {
    std::uint64_t heap = kNowhere;
    std::uint64_t tree = kNowhere;
    std::size_t id_at = 0;  // of the heap's id in a record
  };
  struct Block {
    std::uint64_t offset, size, at;  // in the heap; in the file
  };
  struct FractalHeap {
    std::uint64_t at = 0;
    std::size_t id_size = 0, offset_size = 0;
    std::uint64_t width = 0, first_size = 0, largest_direct = 0;
    std::vector<Block> blocks;  // by offset
  };
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> dense_objects(
      const Dense& dense);
  [[nodiscard]] FractalHeap fractal_heap(std::uint64_t at);
  void direct_block(FractalHeap& heap, std::uint64_t at, std::uint64_t offset, std::uint64_t size);
  void indirect_block(FractalHeap& heap, std::uint64_t at, std::uint64_t offset, std::uint64_t rows,
                      unsigned depth);
  [[nodiscard]] std::vector<std::uint64_t> tree_records(std::uint64_t at);

  Hdf5File& file_;
  struct Extent {
    std::uint64_t end;
    const char* what;
  };
  std::map<std::uint64_t, Extent> extents_;  // by where they begin
  std::unordered_map<std::uint64_t, std::size_t> by_address_;
  std::vector<std::pair<std::size_t, std::uint64_t>> to_visit_;
  std::vector<std::size_t> depth_;           // of objects
  std::unordered_set<std::uint64_t> heaps_;  // global ones
  std::uint64_t path_bytes_ = 0;
};

}  // namespace oubli
