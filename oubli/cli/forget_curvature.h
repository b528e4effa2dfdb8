#pragma once

#include "oubli/cli/model_options.h"

namespace oubli::cli {

struct CurvaturePrinting {
  bool dry_run = false, json = false, full = false;
};
// `forget --method curvature`, from a model that was run on its data.
void forget_by_curvature(const LoadedModel& loaded, const ForgetRequest& request,
                         const ForgetOutputs& outputs, const CurvaturePrinting& how);

}  // namespace oubli::cli
