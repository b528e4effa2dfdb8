#include "oubli/base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "oubli/base/error.h"

namespace oubli {
namespace {

// Makes a document of the parser's events, in n log n: the library itself looks through all keys of
// an ordered object for each further one.
template <typename Json>
class Builder {
 public:
  explicit Builder(const std::string& what) : what_(what) {}

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(std::int64_t value) { return put(value); }
  bool number_unsigned(std::uint64_t value) { return put(value); }
  bool number_float(double value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(typename Json::binary_t& value) { return put(std::move(value)); }
  bool start_object(std::size_t) {
    keys_.emplace_back();
    return open(Json::object());
  }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool key(std::string& value) {
    if (!keys_.back().insert(value).second)
      fail(ErrorCode::bad_input, "{}: the key '{}' is there twice", what_, value);
    auto& members = open_.back()->template get_ref<typename Json::object_t&>();
    if constexpr (std::is_same_v<Json, nlohmann::ordered_json>)
      member_ = &members.emplace_back(std::move(value), Json()).second;
    else
      member_ = &members[std::move(value)];
    return true;
  }
  bool end_object() {
    keys_.pop_back();
    return end_array();
  }
  bool end_array() {
    open_.pop_back();
    return true;
  }
  template <typename Problem>
  bool parse_error(std::size_t, const std::string&, const Problem& problem) {
    throw problem;
  }

  Json document;

 private:
  // The place of the next value: at the end of the container that is open.
  Json& place() {
    if (static_cast<int>(open_.size()) > kJsonDepth)
      fail(ErrorCode::bad_input, "{}: JSON nested more than {} deep", what_, kJsonDepth);
    if (open_.empty()) return document;
    return open_.back()->is_object() ? *member_ : open_.back()->emplace_back();
  }
  template <typename Value>
  bool put(Value&& value) {
    place() = std::forward<Value>(value);
    return true;
  }
  bool open(Json container) {
    Json& where = place();
    where = std::move(container);
    open_.push_back(&where);
    return true;
  }

  const std::string& what_;
  std::vector<Json*> open_;
  Json* member_ = nullptr;                   // of the innermost object, whose key was just read
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

template <typename Json>
Json parse_checked(std::string_view text, const std::string& what) {
  // The library takes it for the end.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos)
    fail(ErrorCode::bad_input, "{}: not valid JSON: a NUL byte at {}", what, nul);
  Builder<Json> builder(what);
  try {
    Json::sax_parse(text, &builder);
  } catch (const typename Json::exception& error) {  // also out_of_range: 1e999 is no double
    std::string_view reason = error.what();          // after the library's own name for it
    reason.remove_prefix(std::min(reason.size(), reason.find("] ") + 2));
    fail(ErrorCode::bad_input, "{}: not valid JSON: {}", what, reason);
  }
  return std::move(builder.document);
}

}  // namespace

nlohmann::ordered_json parse_json(std::string_view text, const std::string& what) {
  return parse_checked<nlohmann::ordered_json>(text, what);
}

nlohmann::json parse_document(std::string_view text, const std::string& what) {
  return parse_checked<nlohmann::json>(text, what);
}

std::string to_text(const nlohmann::ordered_json& document, int indent) {
  return document.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string to_text(const nlohmann::json& document, int indent) {
  return document.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool is_utf8(std::string_view text) try {
  (void)nlohmann::json(text).dump();
  return true;
} catch (const nlohmann::json::type_error&) {
  return false;
}

}  // namespace oubli
