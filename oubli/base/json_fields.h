#pragma once

#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/base/error.h"
#include "oubli/base/json.h"

// Documents from outside as types, for the from_json() of those. What has the wrong type is
// Error{bad_input} whose message begins with the place: "leaks.forgotten[0].ks.low: a string where
// a number is wanted". For .cpp files only.
namespace oubli {

// The end of such a message. `found` is the value in the place of what is wanted.
[[noreturn]] void refuse_value(const nlohmann::json& found, std::string_view wanted);

// Calls `read`; an error of it is thrown again as one at `place`: a key, or "[3]".
template <typename Read>
void at_place(const std::string& place, Read&& read) {
  const auto again = [&](const std::string& message) {
    const bool follows = message.starts_with(':') || message.starts_with('[');
    throw Error(ErrorCode::bad_input, place + (follows ? "" : ".") + message);
  };
  try {
    read();
  } catch (const Error& error) {
    again(error.what());
  }
}

// Every kind of value that a document may hold; types of ours through their from_json().
template <typename T>
void read_value(const nlohmann::json& value, T& into) {
  from_json(value, into);
}
void read_value(const nlohmann::json& value, std::string& into);
void read_value(const nlohmann::json& value, double& into);
void read_value(const nlohmann::json& value, bool& into);

template <std::unsigned_integral T>
void read_value(const nlohmann::json& value, T& into) {
  try {
    into = whole_number<T>(value);
  } catch (const nlohmann::json::exception&) {
    refuse_value(value, fmt::format("a whole number from 0 to {}", std::numeric_limits<T>::max()));
  }
}

template <typename T>
void read_value(const nlohmann::json& value, std::optional<T>& into) {
  into.reset();
  if (!value.is_null()) read_value(value, into.emplace());
}

template <typename T>
void read_value(const nlohmann::json& value, std::vector<T>& into) {
  if (!value.is_array()) refuse_value(value, "a list");
  into.clear();
  into.reserve(value.size());
  for (const nlohmann::json& entry : value)
    at_place(fmt::format("[{}]", into.size()), [&] { read_value(entry, into.emplace_back()); });
}

// The member `key`; null if there is none. What is not an object is refused.
[[nodiscard]] const nlohmann::json& member(const nlohmann::json& object, const char* key);

// A member into `into`, which stays as it is where the member is absent or null.
template <typename T>
void read_field(const nlohmann::json& object, const char* key, T& into) {
  if (const nlohmann::json& found = member(object, key); !found.is_null())
    at_place(key, [&] { read_value(found, into); });
}

// The same for a member that must be there.
template <typename T>
void require_field(const nlohmann::json& object, const char* key, T& into) {
  const nlohmann::json& found = member(object, key);
  at_place(key, [&] { read_value(found, into); });
}

// A whole document; its name begins the message.
template <typename T>
[[nodiscard]] T read_document(const nlohmann::json& document, const std::string& what) {
  try {
    T into;
    read_value(document, into);
    return into;
  } catch (const Error& error) {
    const bool follows = std::string_view(error.what()).starts_with(':');
    fail(ErrorCode::bad_input, "{}{}{}", what, follows ? "" : ": ", error.what());
  }
}

// A member that must be there and is a name; `named` throws Error if there is none of that name.
template <typename T, typename Named>
void require_named(const nlohmann::json& object, const char* key, T& into, const Named& named) {
  std::string name;
  require_field(object, key, name);
  at_place(key, [&] {
    try {
      into = named(name);
    } catch (const Error& error) {
      fail(ErrorCode::bad_input, ": {}", error.what());
    }
  });
}

// A type lists its members once, for reading and for writing, in its namespace:
//
//   template <typename Fields>
//   void members(Fields& fields, MeanStd& of) {
//     fields.required("mean", of.mean);
//     fields.required("std", of.std);
//   }
//
// to_json() and from_json() below do the rest. Written members are those of an object.
class JsonWriter {
 public:
  explicit JsonWriter(nlohmann::json& out) : out_(out) { out_ = nlohmann::json::object(); }

  template <typename T>
  void operator()(const char* key, const T& value) {
    out_[key] = value;
  }
  template <typename T>
  void operator()(const char* key, const std::optional<T>& value) {
    out_[key] = value ? nlohmann::json(*value) : nlohmann::json(nullptr);
  }
  template <typename T>
  void required(const char* key, const T& value) {
    (*this)(key, value);
  }
  void unless_empty(const char* key, const std::string& text) {
    if (!text.empty()) out_[key] = text;
  }
  template <typename T>
  void unless_empty(const char* key, const std::optional<T>& value) {
    if (value) out_[key] = *value;
  }
  template <typename T, typename Named>
  void named(const char* key, const T& value, const Named&) {
    out_[key] = name_of(value);
  }
  template <typename T>
  void written(const char* key, const T& value) {
    out_[key] = value;
  }
  template <typename Members>
  void object(const char* key, const Members& list) {
    JsonWriter inner(out_[key]);
    list(inner);
  }

 private:
  nlohmann::json& out_;
};

class JsonReader {
 public:
  explicit JsonReader(const nlohmann::json& in) : in_(in) {}

  // What is absent or null leaves the member as it is.
  template <typename T>
  void operator()(const char* key, T& into) {
    read_field(in_, key, into);
  }
  template <typename T>
  void required(const char* key, T& into) {
    require_field(in_, key, into);
  }
  // Not written where it is empty.
  template <typename T>
  void unless_empty(const char* key, T& into) {
    read_field(in_, key, into);
  }
  // Written by name_of(); `named` as in require_named().
  template <typename T, typename Named>
  void named(const char* key, T& into, const Named& named) {
    require_named(in_, key, into, named);
  }
  // Follows from the other members.
  template <typename T>
  void written(const char*, const T&) {}
  // Members that are in an object of their own.
  template <typename Members>
  void object(const char* key, const Members& list) {
    const nlohmann::json& found = member(in_, key);
    if (found.is_null()) return;
    at_place(key, [&] {
      JsonReader inner(found);
      list(inner);
    });
  }

 private:
  const nlohmann::json& in_;
};

template <typename T>
concept ListsMembers = requires(JsonWriter& writer, T& of) {
  members(writer, of);
};

template <ListsMembers T>
void to_json(nlohmann::json& out, const T& of) {
  JsonWriter writer(out);
  members(writer, const_cast<T&>(of));  // the list serves both ways; a writer changes nothing
}

template <ListsMembers T>
void from_json(const nlohmann::json& in, T& of) {
  JsonReader reader(in);
  members(reader, of);
}

}  // namespace oubli
