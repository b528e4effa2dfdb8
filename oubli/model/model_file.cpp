#include "oubli/model/model_file.h"

namespace oubli {

void StagedModel::commit() {
  // The model last: once it is there, so is all that belongs to it.
  std::vector<AtomicFile*> all;
  for (const auto& file : files) all.push_back(file.get());
  AtomicFile::commit(all);
}

}  // namespace oubli
