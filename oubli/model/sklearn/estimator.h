#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oubli/model/model_file.h"
#include "oubli/pickle/numpy.h"
#include "oubli/pickle/pickle.h"

namespace oubli::sklearn {

// What is left of two classes: one row, s = w . x + b. Their scores are 0 and s; or -s and s, where
// the model takes the softmax of these; or it is not known how they become probabilities.
enum class TwoClasses { unknown, difference, opposite };

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
  TwoClasses two = TwoClasses::unknown;
  bool own_classes = true;  // its labels are its own attribute
  std::vector<Finding> findings;

  // It tells two classes apart by one row.
  [[nodiscard]] bool one_row() const { return coef.shape[0] == 1 && classes.shape[0] == 2; }
};

// The only one in the pickle. Error{unfilterable} with what is there instead, if there is none, or
// several, or one that keeps copies of what it learned.
[[nodiscard]] Estimator find_estimator(const pickle::Pickle& pickle);

}  // namespace oubli::sklearn
