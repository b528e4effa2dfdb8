#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oubli/model/model_file.h"
#include "oubli/pickle/numpy.h"
#include "oubli/pickle/pickle.h"

namespace oubli::sklearn {

// A linear classifier of scikit-learn in a pickle: what it learned, one row or number per class.
struct Estimator {
  std::string type;  // "LogisticRegression"
  pickle::Ref object = pickle::kNothing;
  pickle::NumpyArray coef;
  std::optional<pickle::NumpyArray> intercept;
  pickle::NumpyArray classes;
  struct Companion {
    std::string name;
    pickle::NumpyArray array;
  };
  std::vector<Companion> companions;  // other attributes whose rows go with the class
  bool shift_shows = true;            // no softmax follows the scores
  bool own_classes = true;            // its labels are its own attribute
  std::vector<Finding> findings;
};

// The only one in the pickle. Error{unfilterable} with what is there instead, if there is none, or
// several, or one that keeps copies of what it learned.
[[nodiscard]] Estimator find_estimator(const pickle::Pickle& pickle);

}  // namespace oubli::sklearn
