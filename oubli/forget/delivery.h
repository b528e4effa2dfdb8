#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "oubli/base/file.h"
#include "oubli/forget/forget.h"

namespace oubli {

// A new model on its way to disk, with all that stands beside it: everything is there under
// temporary names before the first of it appears.
class Delivery {
 public:
  // All must outlive it. `digests` are of what the request is answered from.
  Delivery(const ForgetInputs& inputs, const ForgetRequest& request, const InputDigests& digests,
           const ForgetOutputs& outputs, const std::stop_token& stop)
      : inputs_(inputs), request_(request), digests_(digests), outputs_(outputs), stop_(stop) {}

  // Error{usage} if what is to be written is in the way of what is read, or is there already.
  void check_places() const;
  void take(StagedModel staged) { staged_ = std::move(staged); }
  [[nodiscard]] StagedModel& staged() { return staged_; }

  // A file beside the model, and its digest under the name that it will have.
  AtomicFile& add(const std::filesystem::path& path);
  [[nodiscard]] static FileDigest digest(std::string role, AtomicFile& file);
  // Of the model's files.
  [[nodiscard]] std::vector<FileDigest> digest_model() const;
  // If they are to have a file of their own: the names of the classes that stay.
  [[nodiscard]] std::vector<FileDigest> write_class_names(std::span<const std::size_t> retained);
  // The names of the forgotten classes must not be in the new file: adds findings of what could not
  // be cut out.
  void look_for_names();
  // The receipt, and the statement about it.
  void write_receipt(const std::string& receipt);
  // All into place, the model last. Error{bad_input} if something that was read has changed since.
  void commit();

 private:
  void write_evidence(const std::string& receipt);

  const ForgetInputs& inputs_;
  const ForgetRequest& request_;
  const InputDigests& digests_;
  const ForgetOutputs& outputs_;
  const std::stop_token& stop_;
  StagedModel staged_;
  std::vector<std::unique_ptr<AtomicFile>> beside_;  // the new model
};

}  // namespace oubli
