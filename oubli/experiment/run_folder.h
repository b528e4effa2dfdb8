#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "oubli/experiment/run_config.h"
#include "oubli/experiment/treatment.h"

namespace oubli {

// A run folder: what an experiment is to hold, and what of it is there. Every file is written to a
// temporary and renamed, so a killed run loses only the trials under way.
//
//   run.json            format, version, the RunConfig, which builds worked on it
//   run.lock            held by the process that fills the folder; freed by its death
//   trials/ID.json      a finished trial: done (its files and their sizes) or failed (the reason)
//   logits/ID.npy       float32, test samples x classes, before unlearning
//   means/ID.npy        float64: mean logits of the training data, one column per class
//   refit/ID.npy        float32, test samples x retained classes: fresh head on frozen features
//   explained/ID-RHO.npy, ID-RHO-train.npy  float64: see explained_logits.h
//   models/ID.onnx      if asked for
//   underway/ID         which process is at it; left behind only by one that died
//   audits/*.json       the audit of one method, with what it was computed from
//   results.json        everything, without times: see results.h
class RunFolder {
 public:
  // Reads run.json. Error{missing} if there is none, Error{bad_input} if it is of a newer version.
  [[nodiscard]] static RunFolder open(std::filesystem::path path);
  // Creates the folder or merges `wanted` into the one that is there, and takes the lock for the
  // object's life; Error{usage} naming the process that has it, if another one does.
  [[nodiscard]] static RunFolder open_for_writing(std::filesystem::path path,
                                                  const RunConfig& wanted);
  // For the other processes of a job, whose main process holds the lock and says what is in it.
  [[nodiscard]] static RunFolder attach(std::filesystem::path path, RunConfig config);
  ~RunFolder();
  RunFolder(RunFolder&&) noexcept;
  RunFolder& operator=(RunFolder&&) noexcept;
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const RunConfig& config() const { return config_; }

  [[nodiscard]] std::filesystem::path logits(const std::string& id) const;
  [[nodiscard]] std::filesystem::path means(const std::string& id) const;
  [[nodiscard]] std::filesystem::path refit(const std::string& id) const;
  [[nodiscard]] std::filesystem::path explained(const std::string& id, double rho,
                                                MeansSource source) const;
  [[nodiscard]] std::filesystem::path model(const std::string& id) const;
  [[nodiscard]] std::filesystem::path audit(const std::string& name) const;
  [[nodiscard]] std::filesystem::path results() const { return path_ / "results.json"; }

  struct Record {
    bool done = false;
    std::string reason;  // if not done
    double seconds = 0;
  };
  // nullopt: not run yet, or its files are not all there whole.
  [[nodiscard]] std::optional<Record> record(const std::string& id) const;
  // Called last, after the trial's files are in place.
  void record_done(const std::string& id, const std::vector<std::filesystem::path>& files,
                   double seconds) const;
  void record_failed(const std::string& id, const std::string& reason, double seconds) const;

  // Marks a trial as being worked on by `who`; the mark goes with the object.
  class Mark {
   public:
    explicit Mark(std::filesystem::path path) : path_(std::move(path)) {}
    ~Mark();
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

   private:
    std::filesystem::path path_;
  };
  [[nodiscard]] Mark mark_underway(const std::string& id, const std::string& who) const;
  // id -> who, now.
  [[nodiscard]] std::map<std::string, std::string> underway() const;
  // Whether a process holds the lock now, and which ("process 123 on host").
  [[nodiscard]] std::optional<std::string> holder() const;

 private:
  struct Lock;
  RunFolder(std::filesystem::path path, RunConfig config, std::unique_ptr<Lock> lock);

  std::filesystem::path path_;
  RunConfig config_;
  std::unique_ptr<Lock> lock_;
};

// "process 123 on host".
[[nodiscard]] std::string this_process();

}  // namespace oubli
