#include "oubli/model/model_file.h"

namespace oubli {

void StagedModel::commit() {
  // The model last: once it is there, so is all that belongs to it.
  std::vector<AtomicFile*> all;
  for (const auto& file : files) all.push_back(file.get());
  AtomicFile::commit(all);
  if (folder) folder->commit();
}

std::vector<StagedModel::Output> StagedModel::outputs() const {
  std::vector<Output> all;
  for (const auto& file : files)
    all.push_back({file->path().filename().string(), file->temporary_path()});
  if (folder)
    for (const auto& path : written->files()) all.push_back({path.filename().string(), path});
  return all;
}

}  // namespace oubli
