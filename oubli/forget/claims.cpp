#include "oubli/forget/claims.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "oubli/forget/curvature.h"
#include "oubli/forget/receipt.h"

namespace oubli {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Claims::File> files_in(const ReceiptPart& list) {
  std::vector<Claims::File> files;
  for (const ReceiptPart& file : list.list())
    files.push_back({file["role"].text(), file["name"].text(), file["sha256"].text(),
                     file.has("files") ? file["files"].whole_number() : 1});
  return files;
}

Claims::Head head_in(const ReceiptPart& part) {
  return {part["classes"].whole_number(), part["sha256"].text()};
}

// What the method was carried out with.
void read_how(const ReceiptPart& whole, Claims& claims) {
  if (claims.request.curvature)
    for (const ReceiptPart& name : whole["curvature"]["tensors_changed"].list())
      claims.tensors_changed.push_back(name.text());
  if (claims.request.method == Method::explained) {
    const ReceiptPart explained = whole["explained"];
    claims.not_explained = !explained["carried_out"].flag();
    if (!claims.not_explained) {
      const auto from = find_named<SpreadFrom>(explained["spread_from"].text());
      if (!from || *from == SpreadFrom::automatic)
        explained["spread_from"].refuse("samples or means");
      claims.request.explain_from = *from;
    }
  }
}

}  // namespace

Claims claims_of(const Json& receipt) {
  const ReceiptPart whole(receipt);
  Claims claims;
  claims.request = request_of(receipt);
  if (const ReceiptPart solver = whole["solver"]; !solver.is_null()) {
    claims.chosen = find_named<Solver>(solver["chosen"].text());
    const Solver asked = claims.request.solver;
    if (!claims.chosen || *claims.chosen == Solver::automatic ||
        (asked != Solver::automatic && asked != *claims.chosen))
      solver["chosen"].refuse("a solver that this program knows, and the one asked for");
  }
  read_how(whole, claims);
  if (whole["request"].has("target_sha256"))
    claims.target_sha256 = whole["request"]["target_sha256"].text();
  if (whole["request"].has("seed_sha256"))
    claims.seed_sha256 = whole["request"]["seed_sha256"].text();
  // Versions before did not centre.
  claims.request.centring = whole.has("rows_centred") && whole["rows_centred"].flag()
                                ? Centring::always
                                : Centring::never;
  claims.before = files_in(whole["input"]["files"]);
  claims.after = files_in(whole["output"]["files"]);
  if (claims.before.empty()) whole["input"]["files"].refuse("at least one file");
  for (const char* const role : {"means", "class names"})
    if (std::ranges::count(claims.after, role, &Claims::File::role) > 1)
      whole["output"]["files"].refuse(fmt::format("one file of {}", role));
  claims.head_before = head_in(whole["input"]["head"]);
  claims.head_after = head_in(whole["output"]["head"]);
  const ReceiptPart calibration = whole["calibration"];
  claims.calibrated = !calibration.is_null();
  if (calibration.has("means_files")) claims.means = files_in(calibration["means_files"]);
  if (calibration.has("data_files")) claims.data = files_in(calibration["data_files"]);
  if (claims.calibrated && !claims.means && !claims.data) calibration.refuse("means or data");
  for (const ReceiptPart& entry : whole["classes"].list()) {
    claims.classes.push_back({entry["old"].whole_number(), std::nullopt});
    if (!entry["new"].is_null()) claims.classes.back().after = entry["new"].whole_number();
  }
  if (whole.has("run")) {
    const ReceiptPart run = whole["run"];
    claims.run = {run["inputs"].text(), run["labels"].text(), run["runtime"].text(),
                  run.has("instructions") ? run["instructions"].text() : ""};
  }
  claims.rows_absent = whole["self_check"]["forgotten_rows_absent"].flag();
  const ReceiptPart previous = whole["previous_receipt_sha256"];
  if (!previous.is_null()) claims.previous = previous.text();
  claims.version = whole["program"]["version"].text();
  claims.compiler = whole["program"]["compiler"].text();
  claims.architecture = whole["program"]["architecture"].text();
  return claims;
}

ForgetRequest request_of(const Json& receipt) {
  const ReceiptPart whole(receipt);
  const ReceiptPart asked = whole["request"];
  ForgetRequest request;
  const std::size_t classes = whole["input"]["head"]["classes"].whole_number();
  for (const ReceiptPart& number : asked["forget"].list()) {
    const std::size_t forgotten = number.whole_number();
    if (forgotten >= classes) number.refuse(fmt::format("one of {} classes", classes));
    if (!request.forget.empty() && forgotten <= request.forget.back())
      number.refuse("classes in ascending order");
    request.forget.push_back(forgotten);
  }
  if (request.forget.empty()) asked["forget"].refuse("at least one class");
  // Whoever made the receipt was asked; here it only matters whether the same comes out.
  request.allow_nonlinear_tail = true;
  request.ignore_accuracy = true;
  request.curvature = asked["method"].text() == kCurvature;
  if (request.curvature) {
    request.seed = asked["seed"].whole_number();
    return request;
  }
  const auto method = find_named<Method>(asked["method"].text());
  const auto solver = find_named<Solver>(asked["solver"].text());
  if (!method) asked["method"].refuse("a method that this program knows");
  if (!solver) asked["solver"].refuse("a solver that this program knows");
  request.method = *method;
  request.solver = *solver;
  if (*method == Method::explained) request.explain = asked["explain"].number();
  if (!asked.has("seed_sha256")) request.seed = asked["seed"].whole_number();
  const ReceiptPart calibration = whole["calibration"];
  if (calibration.has("samples_per_class")) {
    const ReceiptPart samples = calibration["samples_per_class"];
    if (!samples.is_text()) {
      request.samples.per_class = samples.whole_number();
      request.samples.random = calibration["samples_random"].flag();
      request.samples.seed = request.seed;
    } else if (samples.text() != "all") {
      samples.refuse("a number or all");
    }
  }
  return request;
}

bool is_plain_name(const std::string& name) {
  const std::filesystem::path path(name);
  return path.has_filename() && path.filename() == path && name != "." && name != "..";
}

}  // namespace oubli
