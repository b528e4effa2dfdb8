#include "oubli/experiment/method_files.h"

#include <fmt/format.h>

#include <cctype>
#include <new>

#include "oubli/array/npy.h"
#include "oubli/audit/tell_apart.h"
#include "oubli/base/digest.h"
#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/json_fields.h"
#include "oubli/base/progress.h"
#include "oubli/base/version.h"
#include "oubli/nn/network_file.h"

namespace oubli {

struct LeaksFile {
  std::string format = "oubli-method-audit";
  std::string inputs;
  Leaks leaks;
};
template <typename Fields>
void members(Fields& fields, LeaksFile& file) {
  fields.required("format", file.format);
  fields.required("inputs", file.inputs);
  fields.required("leaks", file.leaks);
}

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// "SSD, alpha 10" as a file's name: "ssd-alpha-10".
std::string file_name(const std::string& method) {
  std::string name;
  for (const char c : method) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  return name;
}

// A document that is there and whole, as a type; else nothing.
template <typename T>
std::optional<T> read_if_whole(const fs::path& path) {
  if (!fs::exists(path)) return std::nullopt;
  try {
    return read_document<T>(parse_document(read_text_file(path), path.string()), path.string());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) throw;
    return std::nullopt;
  }
}

// What leaks were computed from.
std::string fingerprint(const RunFolder& folder, const MethodAudit& audit) {
  const RunConfig& config = folder.config();
  const json all = {{"method", audit.method},   {"label", audit.label}, {"seen", audit.seen},
                    {"unseen", audit.unseen},   {"seed", config.seed},  {"epochs", config.epochs},
                    {"rivals", kRivalsVersion}, {"build", kVersion}};
  return sha256_hex(as_bytes(to_text(all, -1)));
}

bool all_there(const MethodFiles& files, const std::string& id, std::size_t label,
               const Rival& rival) {
  for (const std::string& name : rival.names)
    if (!files.read(label, name, id)) return false;
  return true;
}

void save(const fs::path& path, const Matrix<float>& values) {
  write_npy(path, to_tensor<float>(values.view()).view(path.string()));
}

}  // namespace

template <typename Fields>
void members(Fields& fields, UnlearnedRecord& record) {
  fields.required("format", record.format);
  fields.required("version", record.version);
  fields.required("method", record.method);
  fields.required("network", record.network);
  fields("gradients", record.gradients);
  fields("seconds", record.seconds);
  fields("accuracy", record.accuracy);
  fields.unless_empty("reason", record.reason);
}

fs::path MethodFiles::of(std::size_t label, const std::string& method) const {
  return root_ / std::to_string(label) / file_name(method);
}
fs::path MethodFiles::logits(std::size_t label, const std::string& method,
                             const std::string& id) const {
  return of(label, method) / (id + ".npy");
}
fs::path MethodFiles::record(std::size_t label, const std::string& method,
                             const std::string& id) const {
  return of(label, method) / (id + ".json");
}
fs::path MethodFiles::leaks(std::size_t label, const std::string& method) const {
  return root_ / std::to_string(label) / (file_name(method) + ".json");
}

std::optional<UnlearnedRecord> MethodFiles::read(std::size_t label, const std::string& method,
                                                 const std::string& id) const {
  auto found = read_if_whole<UnlearnedRecord>(record(label, method, id));
  if (!found || found->version != kRivalsVersion || found->method != method) return std::nullopt;
  if (found->reason.empty() && !fs::exists(logits(label, method, id))) return std::nullopt;
  return found;
}

bool is_unlearned(const RunFolder& folder, const std::string& id, std::size_t label,
                  std::span<const Rival> rivals) {
  const MethodFiles files(folder);
  for (const Rival& rival : rivals)
    if (!all_there(files, id, label, rival)) return false;
  return true;
}

void unlearn(const RunFolder& folder, const Trial& trial, std::size_t label,
             std::span<const Rival> rivals, const TrialData& data, const std::stop_token& stop) {
  const RunConfig& config = folder.config();
  const Recipe& recipe = recipe_of(config.experiment);
  const MethodFiles files(folder);
  const nn::NamedNetwork loaded = nn::load_network(folder.model(trial.id));
  const std::vector<std::size_t> forget{label};
  const RivalInput input{.network = loaded.network,
                         .train = data.train,
                         .split = split_for_deletion(data.train.classes(), forget),
                         .recipe = {.epochs = config.epochs != 0 ? config.epochs : recipe.epochs,
                                    .batch = recipe.batch,
                                    .optimizer = {},
                                    .seed = config.seed,
                                    .model = trial_number(trial),
                                    .without = {}},
                         .stop = stop};
  const ImageSet retained = without_classes(data.test, forget);
  for (const Rival& rival : rivals) {
    if (all_there(files, trial.id, label, rival)) continue;
    std::vector<Unlearned> results;
    std::string reason;
    try {
      results = rival.apply(input);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::interrupted) throw;
      reason = error.what();
    } catch (const std::bad_alloc&) {
      reason = "out of memory";
    }
    for (std::size_t i = 0; i < rival.names.size(); ++i) {
      const std::string& name = rival.names[i];
      UnlearnedRecord record;
      record.method = name;
      record.network = trial.id;
      record.reason = reason;
      const fs::path path = files.record(label, name, trial.id);
      fs::create_directories(path.parent_path());
      if (reason.empty()) {
        record.gradients = results[i].gradients;
        record.seconds = results[i].seconds;
        record.accuracy = nn::score(results[i].network.logits(retained), retained.labels).accuracy;
        save(files.logits(label, name, trial.id), results[i].network.logits(data.test));
      } else {
        say(fmt::format("{}, class {}, {}: {}", trial.id, label, name, reason));
      }
      write_file(path, to_text(json(record), -1) + "\n");
    }
  }
}

MethodAudit method_audit(const RunFolder& folder, const MethodsPlan& plan, std::size_t label,
                         const std::string& method) {
  const RunConfig& config = folder.config();
  const MethodFiles files(folder);
  MethodAudit audit{.label = label, .method = method, .seen = {}, .unseen = {}};
  const bool floor = method == kFloorMethod;
  for (const Trial& trial : trials_of(plan, config)) {
    const auto record = folder.record(trial.id);
    if (!record || !record->done) continue;
    if (trial.role == Role::seen) {
      const auto unlearned = floor ? std::nullopt : files.read(label, method, trial.id);
      if (unlearned && unlearned->reason.empty()) audit.seen.push_back(trial.id);
    } else if (trial.without == std::vector{label}) {
      (floor && trial.model % 2 == 0 ? audit.seen : audit.unseen).push_back(trial.id);
    }
  }
  return audit;
}

void run_audit(const RunFolder& folder, const MethodAudit& audit, const ImageSet& test,
               const std::stop_token& stop) {
  const RunConfig& config = folder.config();
  const MethodFiles files(folder);
  std::vector<SharedTensor> loaded;
  const auto population = [&](const std::vector<std::string>& ids, bool unlearned,
                              const std::string& name) {
    std::vector<TensorView> tensors;
    for (const std::string& id : ids) {
      const fs::path path =
          unlearned ? files.logits(audit.label, audit.method, id) : folder.logits(id);
      tensors.push_back(loaded.emplace_back(load_array(path.string())));
    }
    return population_of(std::move(tensors), name);
  };
  LeaksFile file;
  file.inputs = fingerprint(folder, audit);
  if (audit.seen.size() >= 2 && audit.unseen.size() >= 2) {
    const bool floor = audit.method == kFloorMethod;
    const Population seen = population(audit.seen, !floor, audit.method);
    const Population unseen = population(audit.unseen, false, "retrained");
    file.leaks =
        tell_apart(seen, unseen,
                   {.labels = test.labels, .classes = test.classes(), .forgotten = {audit.label}},
                   {.images_forgotten = recipe_of(config.experiment).attack_images,
                    .retained = false,
                    .directions = 0,
                    .seed = config.seed,
                    .workers = 1,
                    .stop = stop});
  }
  const fs::path path = files.leaks(audit.label, audit.method);
  fs::create_directories(path.parent_path());
  write_file(path, to_text(json(file), -1) + "\n");
}

std::optional<Leaks> read_leaks(const RunFolder& folder, const MethodAudit& audit) {
  auto file = read_if_whole<LeaksFile>(MethodFiles(folder).leaks(audit.label, audit.method));
  if (!file || file->inputs != fingerprint(folder, audit)) return std::nullopt;
  return std::move(file->leaks);
}

}  // namespace oubli
