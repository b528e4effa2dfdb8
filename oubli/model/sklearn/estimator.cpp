#include "oubli/model/sklearn/estimator.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "oubli/base/error.h"

namespace oubli::sklearn {
namespace {

using pickle::Kind;
using pickle::kNothing;
using pickle::NumpyArray;
using pickle::Pickle;
using pickle::Ref;

// The class of an object: "sklearn.linear_model._logistic.LogisticRegression".
std::string full_type(const Pickle& pickle, Ref ref) {
  const std::string callee = pickle.callee(ref);
  return callee.ends_with("._reconstructor") ? pickle.global_name(pickle.argument(ref, 0)) : callee;
}

std::string short_type(const Pickle& pickle, Ref ref) {
  const std::string type = full_type(pickle, ref);
  return type.substr(type.rfind('.') + 1);
}

bool is_float_array(const NumpyArray& array) {
  return array.kind == 'f' &&
         (array.item_size == 2 || array.item_size == 4 || array.item_size == 8);
}

// Attributes with one row or number per class, beside coef_, intercept_ and classes_.
bool goes_with_the_class(std::string_view name) {
  static constexpr std::array<std::string_view, 14> kNames{"means_",
                                                           "priors_",
                                                           "_expanded_class_weight",
                                                           "_standard_coef",
                                                           "_standard_intercept",
                                                           "_average_coef",
                                                           "_average_intercept",
                                                           "standard_coef_",
                                                           "standard_intercept_",
                                                           "average_coef_",
                                                           "average_intercept_",
                                                           "n_iter_",
                                                           "class_prior_",
                                                           "class_count_"};
  return std::ranges::find(kNames, name) != kNames.end();
}

// Whether predict_proba() is a softmax of the scores, so that adding the same to all shows nowhere
// else. Of several sigmoids (one-vs-rest) it is not.
bool ends_in_softmax(const Pickle& pickle, const Estimator& found) {
  if (found.type == "LinearDiscriminantAnalysis") return true;
  if (found.type != "LogisticRegression") return false;
  const Ref multi = pickle.attribute(found.object, "multi_class");
  const Ref solver = pickle.attribute(found.object, "solver");
  if (pickle.is_text(multi, "multinomial")) return true;
  const bool automatic =
      multi == kNothing || pickle.is_text(multi, "auto") || pickle.is_text(multi, "deprecated");
  return automatic && pickle.is(solver, Kind::text) && pickle.text(solver) != "liblinear" &&
         pickle.text(solver) != "newton-cholesky";
}

TwoClasses two_classes(const Pickle& pickle, const Estimator& found) {
  if (found.type == "LinearDiscriminantAnalysis" || found.type == "LinearSVC")
    return TwoClasses::difference;
  // Two sigmoids (one-vs-rest) are not one.
  if (found.type != "LogisticRegression" || (found.shift_shows && !found.one_row()))
    return TwoClasses::unknown;
  return pickle.is_text(pickle.attribute(found.object, "multi_class"), "multinomial")
             ? TwoClasses::opposite
             : TwoClasses::difference;
}

std::optional<Estimator> read_estimator(const Pickle& pickle, Ref ref) {
  const auto coef = pickle::read_array(pickle, pickle.attribute(ref, "coef_"));
  if (!coef || coef->shape.size() != 2 || !is_float_array(*coef)) return std::nullopt;
  Estimator found;
  found.object = ref;
  found.type = short_type(pickle, ref);
  found.coef = *coef;
  Ref classes = pickle.attribute(ref, "classes_");
  if (classes == kNothing) {  // RidgeClassifier
    classes = pickle.attribute(pickle.attribute(ref, "_label_binarizer"), "classes_");
    found.own_classes = false;
  }
  const auto labels = pickle::read_array(pickle, classes);
  if (!labels || labels->shape.size() != 1) return std::nullopt;
  found.classes = *labels;
  if (const auto intercept = pickle::read_array(pickle, pickle.attribute(ref, "intercept_")))
    found.intercept = *intercept;
  return found;
}

void check(const Pickle& pickle, const Estimator& found) {
  const std::size_t classes = found.coef.shape[0];
  if (found.classes.shape[0] != classes && !found.one_row())
    fail(ErrorCode::unfilterable,
         "{}: {} has {} rows of weights for {} classes: not one score per class", pickle.what(),
         found.type, classes, found.classes.shape[0]);
  if (found.intercept &&
      (found.intercept->shape.size() != 1 || found.intercept->shape[0] != classes ||
       !is_float_array(*found.intercept)))
    fail(ErrorCode::unfilterable, "{}: the intercept_ of {} is not one number per class",
         pickle.what(), found.type);
  if (!found.coef.little || (found.intercept && !found.intercept->little))
    fail(ErrorCode::unfilterable, "{}: saved on a big-endian machine", pickle.what());
  if (!pickle.pairs(pickle.attribute(found.object, "coefs_paths_")).empty())
    fail(ErrorCode::unfilterable,
         "{}: {} keeps the weights of all its trials; drop them and save again: "
         "model.coefs_paths_ = model.scores_ = {{}}",
         pickle.what(), found.type);
}

void look_around(const Pickle& pickle, Estimator& found) {
  const std::size_t classes = found.classes.shape[0];
  // The same array may be several attributes: average_coef_ and coef_, after training.
  std::set<Ref> seen{found.coef.object, found.classes.object};
  if (found.intercept) seen.insert(found.intercept->object);
  for (const pickle::Pair& pair : pickle.pairs(pickle.state(found.object))) {
    if (!pickle.is(pair.key, Kind::text) || !seen.insert(pair.value).second) continue;
    const std::string name(pickle.text(pair.key));
    const auto array = pickle::read_array(pickle, pair.value);
    if (!array || array->shape.empty() || array->shape[0] != classes || array->kind == 'O') {
      if (array && !array->shape.empty() && array->shape[0] == classes)
        found.findings.push_back({name, "also has one entry per class; it is left as it is"});
      continue;
    }
    if (goes_with_the_class(name))
      found.companions.push_back({name, *array});
    else
      found.findings.push_back({name, "also has one entry per class; it is left as it is"});
  }
  std::set<Ref> states;  // objects may share one
  for (const Ref ref : pickle.reachable(pickle.root())) {
    if (ref == found.object || !states.insert(pickle.state(ref)).second ||
        pickle.attribute(ref, "classes_") == kNothing)
      continue;
    const std::string type = short_type(pickle, ref);
    if (found.own_classes || type != "LabelBinarizer")
      found.findings.push_back(
          {type, "has a list of classes of its own; it is left as it is, and may name the class"});
  }
}

[[noreturn]] void refuse_without_one(const Pickle& pickle) {
  std::vector<std::string> types;
  for (const Ref ref : pickle.reachable(pickle.root())) {
    const std::string type = full_type(pickle, ref);
    if (!type.starts_with("sklearn.") && !(types.empty() && pickle.is(ref, Kind::object))) continue;
    const std::string name = short_type(pickle, ref);
    if (types.size() < 6 && std::ranges::find(types, name) == types.end()) types.push_back(name);
  }
  fail(ErrorCode::unfilterable,
       "{}: a pickle of {}: no linear classifier with one row of weights (coef_) per class. Trees, "
       "neighbours and kernels keep the class in every part of them",
       pickle.what(), types.empty() ? "no model" : fmt::format("{}", fmt::join(types, ", ")));
}

}  // namespace

Estimator find_estimator(const Pickle& pickle) {
  std::vector<Estimator> found;
  std::set<Ref> states;
  for (const Ref ref : pickle.reachable(pickle.root())) {
    if (!pickle.is(ref, Kind::object) || !states.insert(pickle.state(ref)).second) continue;
    if (auto estimator = read_estimator(pickle, ref)) found.push_back(std::move(*estimator));
    if (found.size() > 64) break;
  }
  if (found.empty()) refuse_without_one(pickle);
  if (found.size() > 1)
    fail(ErrorCode::unfilterable,
         "{}: {} linear classifiers ({}, ...), each of which knows the class; save the one that is "
         "used",
         pickle.what(), found.size(), found[0].type);
  check(pickle, found[0]);
  look_around(pickle, found[0]);
  found[0].shift_shows = !ends_in_softmax(pickle, found[0]);
  found[0].two = two_classes(pickle, found[0]);
  return std::move(found[0]);
}

}  // namespace oubli::sklearn
