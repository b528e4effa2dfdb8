#pragma once

// What other programs may use; everything that is installed is reached from here, and nothing else
// is promised to stay. HACKING.md has the map, examples/ short programs.

// Failures are exceptions of one type, oubli::Error, whose code is the program's exit code.
#include "oubli/base/error.h"

// Arrays: a matrix that owns its numbers, and views of arrays of any type in somebody else's
// memory.
#include "oubli/array/matrix.h"
#include "oubli/array/tensor.h"

// Forgetting in memory: class means of data, a filter for the last layer, and the check that it did
// what the theory says.
#include "oubli/filtration/class_means.h"
#include "oubli/filtration/filtration.h"
#include "oubli/filtration/mean_identity.h"

// Model files, the deletion request on them with its receipt, and whether a receipt is true.
#include "oubli/forget/forget.h"
#include "oubli/forget/verify.h"
#include "oubli/model/model_file.h"

// What logits still tell: of one model, and of populations of models.
#include "oubli/audit/audit.h"
#include "oubli/audit/recognition.h"

// Any of those files as a page.
#include "oubli/report/read_report.h"
