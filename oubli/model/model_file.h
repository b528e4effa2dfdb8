#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/base/atomic_folder.h"
#include "oubli/base/file.h"
#include "oubli/filtration/filter.h"
#include "oubli/filtration/head.h"

namespace oubli {

class ModelFile;

// Something noticed about a model file that the person asking for a deletion should know: a tensor
// that also has one entry per class, a second use of the weights, a label list left alone, ...
struct Finding {
  std::string where;  // tensor, node or property; may be empty
  std::string text;   // a sentence

  bool operator==(const Finding&) const = default;
};

// Which part of the file is the head. Whatever is left empty is found, if there is one answer only.
struct HeadChoice {
  std::string head = {};                     // of an ONNX graph: a node, or an output
  std::string weights = {};                  // name of the tensor W
  std::optional<std::string> bias = {};      // name of the tensor b; "" means that there is none
  std::optional<bool> transposed = {};       // W is features x classes
  std::optional<std::size_t> classes = {};   // known from class names, labels or means
  std::optional<std::size_t> features = {};  // known from data or means
  bool float_head = false;                   // a quantised head becomes one of floats
};

// What lies between a head and the whole numbers that it is stored in: for the weights and the bias
// of each class the distance between neighbours, so that the logit of class r of features f is off
// by weight_steps[r] / 2 |f|_1 + bias_steps[r] / 2 at most. Empty: nothing was rounded.
struct HeadRounding {
  std::vector<double> weight_steps = {}, bias_steps = {};
  double coarser = 1;  // the largest of weight_steps over that of the old head
};

// The head that a file holds once another one is written.
struct StoredHead {
  NewHead head;
  HeadRounding rounding = {};
};

// A new model on its way to disk: written in full, but nothing is at its final name before
// commit(). Destroyed without it, nothing remains.
struct StagedModel {
  std::vector<std::unique_ptr<AtomicFile>> files;  // side files first, the model itself last
  std::unique_ptr<AtomicFolder> folder;            // or a folder, with all its files in it
  std::unique_ptr<ModelFile> written;  // the temporaries opened as a model, to be checked
  std::vector<Finding> findings;       // about what was written
  // Something else in the file may rightly hold the forgotten rows: tied weights, other tensors.
  bool old_rows_may_remain = true;

  // What is written: its name in the end, and where it is now.
  struct Output {
    std::string name;
    std::filesystem::path path;
  };
  [[nodiscard]] std::vector<Output> outputs() const;
  void commit();
};

// A classifier in a file whose last layer can be replaced: .npz, .safetensors, .onnx, ... Each
// format has a folder here; formats.cpp lists them.
class ModelFile {
 public:
  // By content. Error{bad_input} if damaged, {usage} if the head is ambiguous (naming the
  // candidates), {unfilterable} if the model has no head that can be filtered.
  [[nodiscard]] static std::unique_ptr<ModelFile> open(const std::filesystem::path& path,
                                                       const HeadChoice& choice = {});
  virtual ~ModelFile() = default;
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // ".npz", ".safetensors", ".onnx"
  [[nodiscard]] virtual std::string_view format() const = 0;
  // Views into this object.
  [[nodiscard]] virtual const HeadView& head() const = 0;
  // What the file calls the head: "fc.weight", "fc.bias", a node's name.
  [[nodiscard]] virtual std::string head_name() const = 0;
  // If the file holds one name per class.
  [[nodiscard]] virtual std::optional<std::vector<std::string>> class_names() const = 0;
  [[nodiscard]] virtual std::vector<Finding> findings() const = 0;
  // Error{unfilterable} with the reason if the file cannot do with `left` classes.
  virtual void check_enough_left(std::size_t /*left*/) const {}
  // The head that the file holds once `head` is written, where that is another one: scikit-learn
  // keeps two classes as one row of differences, quantised models round.
  [[nodiscard]] virtual std::optional<StoredHead> stored_as(
      const NewHead& /*head*/, std::span<const std::size_t> /*retained*/) const {
    return std::nullopt;
  }
  // Whether the file holds the head in whole numbers, and head() is what these stand for; and
  // whether stage() makes floats of them.
  [[nodiscard]] virtual bool quantised() const { return false; }
  [[nodiscard]] virtual bool becomes_floats() const { return false; }
  // A common shift of all logits shows in what the model outputs: a non-linear step that is no
  // softmax follows them.
  [[nodiscard]] virtual bool shift_shows() const { return false; }
  // Where the file says `name`: properties, nodes, tensors.
  [[nodiscard]] virtual std::vector<std::string> places_with_name(std::string_view /*name*/) const {
    return {};
  }
  // Every file that the model consists of, the one that was opened first.
  [[nodiscard]] virtual std::vector<std::filesystem::path> files() const = 0;
  // What stage() may write for a model at `output`, besides that file itself.
  [[nodiscard]] virtual std::vector<std::filesystem::path> files_beside(
      const std::filesystem::path& /*output*/) const {
    return {};
  }
  // What is at path(), if all of it will be read in any case; else empty.
  [[nodiscard]] virtual std::span<const std::byte> bytes() const { return {}; }
  // Error{bad_input} if any of them changed since it was opened.
  virtual void check_unchanged() const = 0;

  // The same model with `head` in place of the old one, for a file at `path` (and side files named
  // after it). All else is kept byte for byte, except what counts classes: shapes and labels
  // along the head's output. retained[i] is the old index of the new class i.
  [[nodiscard]] virtual StagedModel stage(const NewHead& head,
                                          std::span<const std::size_t> retained,
                                          const std::filesystem::path& path,
                                          bool replace) const = 0;
  // The same for a model that is at `path` already, to be compared with: the files appear in
  // `folder`.
  [[nodiscard]] virtual StagedModel stage_again(const NewHead& head,
                                                std::span<const std::size_t> retained,
                                                const std::filesystem::path& path,
                                                const std::filesystem::path& folder) const {
    return stage(head, retained, folder / path.filename(), true);
  }
  // What the file holds compressed, one piece after another, for a search; until `visit` says
  // false.
  virtual void for_each_packed(
      const std::function<bool(const std::string& where, std::span<const std::byte>)>&) const {}

 protected:
  explicit ModelFile(std::filesystem::path path) : path_(std::move(path)) {}

 private:
  std::filesystem::path path_;
};

}  // namespace oubli
