#include "oubli/experiment/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/into_place.h"
#include "oubli/base/json_fields.h"
#include "oubli/base/progress.h"
#include "oubli/base/version.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kRunVersion = 1;
constexpr std::size_t kTrialVersion = 1;
constexpr std::array<const char*, 8> kFolders = {"trials", "logits",    "means",    "refit",
                                                 "models", "explained", "underway", "audits"};

json read_json(const fs::path& path, std::string_view format, std::size_t version) {
  json file = parse_document(read_text_file(path), path.string());
  if (!file.is_object() || file.value("format", json()) != format) {
    fail(ErrorCode::bad_input, "{}: not a file of format '{}'", path.string(), format);
  }
  if (const json& found = member(file, "version");
      !found.is_number_integer() || found < 1 || found > version) {
    fail(ErrorCode::bad_input, "{}: version {}, this program reads up to {}: use a newer program",
         path.string(), to_text(found, -1), version);
  }
  return file;
}

// The program that did the work: results are the same for the same build and instruction set only.
std::string build_name() {
  return fmt::format("{} {} {}", kVersion, kCompiler,
                     *kArchitecture != '\0' ? kArchitecture : "portable");
}

// run.json
struct RunFile {
  RunConfig config;
  std::vector<std::string> builds;  // that worked on it
};

void from_json(const json& in, RunFile& file) {
  require_field(in, "config", file.config);
  read_field(in, "builds", file.builds);
}

RunFile read_run_file(const fs::path& path) {
  return read_document<RunFile>(read_json(path, "oubli-run", kRunVersion), path.string());
}

// trials/ID.json
struct TrialFile {
  RunFolder::Record record;
  std::vector<std::pair<std::string, std::uint64_t>> files;  // and their sizes
};

void from_json(const json& in, TrialFile& file) {
  std::string state;
  read_field(in, "state", state);
  file.record.done = state == "done";
  read_field(in, "reason", file.record.reason);
  read_field(in, "seconds", file.record.seconds);
  if (!file.record.done) return;
  at_place("files", [&] {
    const json& files = member(in, "files");
    if (!files.is_object()) refuse_value(files, "an object");
    for (const auto& entry : files.items())
      at_place(entry.key(),
               [&] { read_value(entry.value(), file.files.emplace_back(entry.key(), 0).second); });
  });
}

}  // namespace

std::string this_process() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("process {} on {}", getpid(), host.data());
}

struct RunFolder::Lock {
  int descriptor = -1;
  ~Lock() {
    if (descriptor >= 0) close(descriptor);
  }
  // flock, not fcntl: it belongs to the open file, so two objects in one process exclude each other
  // as well. On NFS the kernel turns it into a byte-range lock, on Lustre it needs `-o flock`.
  static bool try_take(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0; }
};

RunFolder::RunFolder(fs::path path, RunConfig config, std::unique_ptr<Lock> lock)
    : path_(std::move(path)), config_(std::move(config)), lock_(std::move(lock)) {}
RunFolder::~RunFolder() = default;
RunFolder::RunFolder(RunFolder&&) noexcept = default;
RunFolder& RunFolder::operator=(RunFolder&&) noexcept = default;

RunFolder RunFolder::open(fs::path path) {
  const fs::path file = path / "run.json";
  if (!fs::exists(file)) {
    fail(ErrorCode::missing,
         "{}: no run.json in it, so it is not a run folder; 'oubli reproduce' makes one",
         path.string());
  }
  RunConfig config = read_run_file(file).config;
  return {std::move(path), std::move(config), nullptr};
}

RunFolder RunFolder::open_for_writing(fs::path path, const RunConfig& wanted) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(ErrorCode::io, "{}: {}", path.string(), error.message());

  const fs::path lock_path = path / "run.lock";
  auto lock = std::make_unique<Lock>();
  lock->descriptor = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock->descriptor < 0) fail(ErrorCode::io, "{}: {}", lock_path.string(), std::strerror(errno));
  if (!Lock::try_take(lock->descriptor)) {
    if (errno != EWOULDBLOCK) {
      fail(ErrorCode::io, "{}: cannot be locked: {}", lock_path.string(), std::strerror(errno));
    }
    fail(ErrorCode::usage,
         "{}: {} is working in this run folder; wait for it ('oubli status {}' shows how far it "
         "is) or use another folder (--run)",
         path.string(), read_text_file(lock_path), path.string());
  }
  const std::string self = this_process();
  if (ftruncate(lock->descriptor, 0) != 0 ||
      pwrite(lock->descriptor, self.data(), self.size(), 0) != static_cast<ssize_t>(self.size())) {
    fail(ErrorCode::io, "{}: {}", lock_path.string(), std::strerror(errno));
  }

  for (const char* folder : kFolders) {
    fs::create_directory(path / folder, error);
    if (error) fail(ErrorCode::io, "{}: {}", (path / folder).string(), error.message());
    remove_stale_temporaries(path / folder);
  }
  remove_stale_temporaries(path);

  const fs::path file = path / "run.json";
  RunConfig config = merge(wanted, wanted);  // sorted
  std::vector<std::string> builds;
  if (fs::exists(file)) {
    RunFile stored = read_run_file(file);
    config = merge(stored.config, wanted);
    builds = std::move(stored.builds);
  }
  if (std::ranges::find(builds, build_name()) == builds.end()) {
    if (!builds.empty()) {
      say(
          fmt::format("{}: begun by another build ({}); results are byte for byte the same only "
                      "within one build",
                      path.string(), builds.back()));
    }
    builds.push_back(build_name());
  }
  const json content = {
      {"format", "oubli-run"}, {"version", kRunVersion}, {"config", config}, {"builds", builds}};
  write_file(file, to_text(content, 2) + "\n");

  RunFolder folder(std::move(path), std::move(config), std::move(lock));
  for (const auto& [id, who] : folder.underway()) {
    say(fmt::format("{} was under way on {}, which ended before it was done: it runs again", id,
                    who));
    fs::remove(folder.path_ / "underway" / id, error);
  }
  return folder;
}

RunFolder RunFolder::attach(fs::path path, RunConfig config) {
  return {std::move(path), std::move(config), nullptr};
}

fs::path RunFolder::logits(const std::string& id) const { return path_ / "logits" / (id + ".npy"); }
fs::path RunFolder::means(const std::string& id) const { return path_ / "means" / (id + ".npy"); }
fs::path RunFolder::refit(const std::string& id) const { return path_ / "refit" / (id + ".npy"); }
fs::path RunFolder::explained(const std::string& id, double rho, MeansSource source) const {
  return path_ / "explained" /
         fmt::format("{}-{}{}.npy", id, rho, source == MeansSource::train ? "-train" : "");
}
fs::path RunFolder::model(const std::string& id) const { return path_ / "models" / (id + ".onnx"); }
fs::path RunFolder::audit(const std::string& name) const {
  return path_ / "audits" / (name + ".json");
}

std::optional<RunFolder::Record> RunFolder::record(const std::string& id) const {
  const fs::path path = path_ / "trials" / (id + ".json");
  if (!fs::exists(path)) return std::nullopt;
  const auto file =
      read_document<TrialFile>(read_json(path, "oubli-trial", kTrialVersion), path.string());
  for (const auto& [name, size] : file.files) {
    std::error_code error;
    if (fs::file_size(path_ / name, error) != size || error)
      return std::nullopt;  // somebody took a file away: run it again
  }
  return file.record;
}

void RunFolder::record_done(const std::string& id, const std::vector<fs::path>& files,
                            double seconds) const {
  json sizes = json::object();
  for (const fs::path& file : files) {
    sizes[fs::relative(file, path_).generic_string()] = fs::file_size(file);
  }
  const json content = {
      {"format", "oubli-trial"}, {"version", kTrialVersion}, {"id", id},
      {"state", "done"},         {"files", sizes},           {"seconds", seconds}};
  write_file(path_ / "trials" / (id + ".json"), to_text(content, 2) + "\n");
}

void RunFolder::record_failed(const std::string& id, const std::string& reason,
                              double seconds) const {
  const json content = {
      {"format", "oubli-trial"}, {"version", kTrialVersion}, {"id", id},
      {"state", "failed"},       {"reason", reason},         {"seconds", seconds}};
  write_file(path_ / "trials" / (id + ".json"), to_text(content, 2) + "\n");
}

RunFolder::Mark::~Mark() {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

RunFolder::Mark RunFolder::mark_underway(const std::string& id, const std::string& who) const {
  fs::path path = path_ / "underway" / id;
  write_file(path, who);
  return Mark(std::move(path));
}

std::map<std::string, std::string> RunFolder::underway() const {
  std::map<std::string, std::string> result;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path_ / "underway", error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(".") || name.find(".tmp") != std::string::npos) continue;
    try {
      result.emplace(name, read_text_file(entry.path()));
    } catch (const Error&) {
      // Its trial ended between the listing and the reading.
    }
  }
  return result;
}

std::optional<std::string> RunFolder::holder() const {
  const fs::path path = path_ / "run.lock";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  // A shared lock is refused while somebody fills the folder.
  const bool is_free = flock(fd, LOCK_SH | LOCK_NB) == 0;
  close(fd);
  if (is_free) return std::nullopt;
  return read_text_file(path);
}

}  // namespace oubli
