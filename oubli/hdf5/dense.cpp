// Groups and attribute lists of many entries in HDF5's newer layout: the entries are objects in a
// fractal heap, and a B-tree (version 2) lists where.
#include <algorithm>
#include <bit>

#include "oubli/base/error.h"
#include "oubli/hdf5/reader.h"

namespace oubli {
namespace {

// As many bytes as the largest of such numbers takes.
unsigned bytes_for(std::uint64_t largest) {
  return static_cast<unsigned>((std::bit_width(std::max<std::uint64_t>(largest, 1)) + 7) / 8);
}

}  // namespace

void Hdf5Reader::direct_block(FractalHeap& heap, std::uint64_t at, std::uint64_t offset,
                              std::uint64_t size) {
  if (at == kNowhere) return;
  require_signature(at, "FHDB");
  claim(at, size, "a block of a fractal heap");
  if (address(at + 5) != heap.at) damaged(at, "a block of another heap");
  heap.blocks.push_back({offset, size, at});
  file_.blocks_.push_back({at, at + size});
}

void Hdf5Reader::indirect_block(FractalHeap& heap, std::uint64_t at, std::uint64_t offset,
                                std::uint64_t rows, unsigned depth) {
  if (at == kNowhere) return;
  require_signature(at, "FHIB");
  if (depth > 4 || rows > 64) damaged(at, "a fractal heap that is too deep");
  const std::uint64_t header = 13 + heap.offset_size;
  claim(at, header + 8 * rows * heap.width + 4, "a table of a fractal heap");
  std::uint64_t child = at + header;
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::uint64_t size = heap.first_size << (row == 0 ? 0 : row - 1);
    for (std::uint64_t column = 0; column < heap.width; ++column, child += 8, offset += size) {
      if (size <= heap.largest_direct) {
        direct_block(heap, address(child), offset, size);
      } else {
        const auto its_rows =
            std::bit_width(size) - std::bit_width(heap.first_size * heap.width) + 1;
        indirect_block(heap, address(child), offset, static_cast<std::uint64_t>(its_rows),
                       depth + 1);
      }
    }
  }
}

Hdf5Reader::FractalHeap Hdf5Reader::fractal_heap(std::uint64_t at) {
  require_signature(at, "FRHP");
  claim(at, 146, "a fractal heap");
  FractalHeap heap;
  heap.at = at;
  if (number(at + 7, 2) != 0) foreign("a compressed list of names");
  require_sum(at, 142, false);
  heap.id_size = static_cast<std::size_t>(number(at + 5, 2));
  heap.offset_size = static_cast<std::size_t>((number(at + 128, 2) + 7) / 8);
  heap.width = number(at + 110, 2);
  heap.first_size = number(at + 112, 8);
  heap.largest_direct = number(at + 120, 8);
  const auto is_power = [](std::uint64_t n) { return std::has_single_bit(n) && n < 1U << 31; };
  if (!is_power(heap.width) || !is_power(heap.first_size) || !is_power(heap.largest_direct) ||
      heap.offset_size == 0 || heap.offset_size > 8 || heap.id_size < heap.offset_size + 2 ||
      heap.id_size > heap.offset_size + 9)
    damaged(at, "a fractal heap with impossible sizes");
  const std::uint64_t rows = number(at + 140, 2);
  if (rows == 0)
    direct_block(heap, address(at + 132), 0, heap.first_size);
  else
    indirect_block(heap, address(at + 132), 0, rows, 0);
  std::ranges::sort(heap.blocks, {}, &Block::offset);
  return heap;
}

// Where the records of a version 2 B-tree stand.
std::vector<std::uint64_t> Hdf5Reader::tree_records(std::uint64_t at) {
  require_signature(at, "BTHD");
  claim(at, 38, "a tree");
  require_sum(at, 34, false);
  const std::uint64_t node_size = number(at + 6, 4);
  const std::uint64_t record = number(at + 10, 2);
  const std::uint64_t depth = number(at + 12, 2);
  if (record == 0 || node_size < 64 || record > node_size || depth > 8)
    damaged(at, "a tree with impossible sizes");
  // How many records a node of each depth has room for, and the tree below it.
  std::vector<std::uint64_t> pointer{0}, together{(node_size - 10) / record};
  const unsigned count_size = bytes_for(together[0]);
  for (std::uint64_t level = 1; level <= depth; ++level) {
    pointer.push_back(8 + count_size + (level > 1 ? bytes_for(together.back()) : 0));
    const std::uint64_t most = (node_size - 10 - pointer.back()) / (record + pointer.back());
    if (together.back() > std::uint64_t{1} << 40) damaged(at, "a tree with impossible sizes");
    together.push_back((most + 1) * together.back() + most);
  }
  struct Node {
    std::uint64_t at, count, level;
  };
  std::vector<Node> nodes;
  if (address(at + 16) != kNowhere) nodes.push_back({address(at + 16), number(at + 24, 2), depth});
  std::vector<std::uint64_t> records;
  while (!nodes.empty()) {
    const Node node = nodes.back();
    nodes.pop_back();
    require_signature(node.at, node.level == 0 ? "BTLF" : "BTIN");
    const std::uint64_t children = node.at + 6 + node.count * record;
    const std::uint64_t used =
        6 + node.count * record + (node.level == 0 ? 0 : (node.count + 1) * pointer[node.level]);
    claim(node.at, used + 4, "a node of a tree");
    require_sum(node.at, used, false);
    for (std::uint64_t i = 0; i < node.count; ++i) records.push_back(node.at + 6 + i * record);
    for (std::uint64_t i = 0; node.level > 0 && i <= node.count; ++i) {
      const std::uint64_t child = children + i * pointer[node.level];
      nodes.push_back({address(child), number(child + 8, count_size), node.level - 1});
    }
  }
  return records;
}

// Where the objects stand, and their sizes.
std::vector<std::pair<std::uint64_t, std::uint64_t>> Hdf5Reader::dense_objects(const Dense& dense) {
  if (dense.heap == kNowhere || dense.tree == kNowhere) return {};
  const FractalHeap heap = fractal_heap(dense.heap);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> objects;
  for (const std::uint64_t record : tree_records(dense.tree)) {
    const std::uint64_t id = record + dense.id_at;
    if (number(id, 1) != 0) foreign("a name or attribute that is stored apart");
    const std::uint64_t offset = number(id + 1, static_cast<unsigned>(heap.offset_size));
    const std::uint64_t size = number(
        id + 1 + heap.offset_size,
        static_cast<unsigned>(std::min<std::size_t>(8, heap.id_size - 1 - heap.offset_size)));
    auto block = std::ranges::upper_bound(heap.blocks, offset, {}, &Block::offset);
    if (block == heap.blocks.begin()) damaged(id, "an object outside of its heap");
    --block;
    const std::uint64_t inside = offset - block->offset;
    if (inside >= block->size || size > block->size - inside)
      damaged(id, "an object outside of its heap");
    objects.emplace_back(block->at + inside, size);
  }
  return objects;
}

}  // namespace oubli
