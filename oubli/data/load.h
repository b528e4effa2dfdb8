#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/data/image_set.h"

namespace oubli {

// Readers of data set files. All check every length against the bytes there are; Error{bad_input}
// names the file.

// A pair of idx files (MNIST's format: big-endian magic number and sizes, then bytes), plain or,
// with the ending .gz, compressed. Class names are "0", "1", ... up to the largest label.
[[nodiscard]] ImageSet load_idx(const std::filesystem::path& images,
                                const std::filesystem::path& labels);

// CIFAR-10's binary form: per image one label byte, then 3 x 32 x 32 bytes.
[[nodiscard]] ImageSet load_cifar(std::span<const std::filesystem::path> batches);

// A folder with one folder per class, each with binary PGM images (8 bits, all of one size).
// Classes and images are in natural order (s2 before s10); the folders' names are the class names.
[[nodiscard]] ImageSet load_pgm_folder(const std::filesystem::path& folder);

// a before b where runs of digits compare as numbers.
[[nodiscard]] bool natural_less(std::string_view a, std::string_view b);

enum class Split { train, test };

[[nodiscard]] const std::vector<std::string>& data_set_names();
// $OUBLI_DATA, else the user's cache folder: $XDG_CACHE_HOME/oubli or ~/.cache/oubli.
[[nodiscard]] std::filesystem::path data_folder();
// fashion-mnist, mnist, cifar10 or faces, as tools/get-data stored it. Error{missing} says how
// to get it. The faces are one set: its 400 images are both splits.
[[nodiscard]] ImageSet load_data_set(const std::string& name, Split split);

}  // namespace oubli
