#include "oubli/model/model_file.h"

namespace oubli {

void StagedModel::commit() {
  // The model last: once it is there, so is all that belongs to it.
  for (const auto& file : files) file->commit();
}

}  // namespace oubli
