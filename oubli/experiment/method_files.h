#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "oubli/audit/leaks.h"
#include "oubli/experiment/methods.h"
#include "oubli/experiment/run_folder.h"
#include "oubli/experiment/run_trial.h"
#include "oubli/rivals/rival.h"

namespace oubli {

// What `reproduce methods` keeps in a run folder:
//
//   methods/CLASS/METHOD/ID.npy   float32, test samples x retained classes: the network's answers
//   methods/CLASS/METHOD/ID.json  what that cost, or why there are none
//   methods/CLASS/METHOD.json     the leaks of all of them, with what they were computed from

// Grows when rivals give other networks: what is there is then made again.
inline constexpr std::uint32_t kRivalsVersion = 1;

// One network that one method unlearned.
struct UnlearnedRecord {
  std::string format = "oubli-unlearned";
  std::uint32_t version = kRivalsVersion;
  std::string method, network;
  double gradients = 0, seconds = 0;
  double accuracy = 0;  // on test images of retained classes
  std::string reason;   // why there is no network; empty if there is
};

class MethodFiles {
 public:
  explicit MethodFiles(const RunFolder& folder) : root_(folder.path() / "methods") {}
  [[nodiscard]] std::filesystem::path logits(std::size_t label, const std::string& method,
                                             const std::string& id) const;
  [[nodiscard]] std::filesystem::path record(std::size_t label, const std::string& method,
                                             const std::string& id) const;
  [[nodiscard]] std::filesystem::path leaks(std::size_t label, const std::string& method) const;
  // Nothing if it is not there, of an older version or damaged.
  [[nodiscard]] std::optional<UnlearnedRecord> read(std::size_t label, const std::string& method,
                                                    const std::string& id) const;

 private:
  [[nodiscard]] std::filesystem::path of(std::size_t label, const std::string& method) const;
  std::filesystem::path root_;
};

// Applies what is missing of `rivals` to the network of a seen trial and saves it. A rival that
// fails is recorded with its reason; only interruptions are thrown.
void unlearn(const RunFolder& folder, const Trial& trial, std::size_t label,
             std::span<const Rival> rivals, const TrialData& data, const std::stop_token& stop);
// Whether nothing is missing.
[[nodiscard]] bool is_unlearned(const RunFolder& folder, const std::string& id, std::size_t label,
                                std::span<const Rival> rivals);

// The name of the floor: the even retrained networks against the odd ones.
inline constexpr const char* kFloorMethod = "floor";

// One method's networks for one class against retrained ones, from the files.
struct MethodAudit {
  std::size_t label = 0;
  std::string method;
  std::vector<std::string> seen, unseen;  // ids, of those that are there
};
[[nodiscard]] MethodAudit method_audit(const RunFolder& folder, const MethodsPlan& plan,
                                       std::size_t label, const std::string& method);
void run_audit(const RunFolder& folder, const MethodAudit& audit, const ImageSet& test,
               const std::stop_token& stop);
// The leaks, if they are there and of these networks.
[[nodiscard]] std::optional<Leaks> read_leaks(const RunFolder& folder, const MethodAudit& audit);

}  // namespace oubli
