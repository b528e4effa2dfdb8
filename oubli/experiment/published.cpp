#include "oubli/experiment/published.h"

#include <nlohmann/json.hpp>

namespace oubli {
namespace {

using nlohmann::json;

PublishedRow row_from(const json& entry, const std::string& experiment) {
  return {.experiment = entry.value("experiment", experiment),
          .group = entry.value("group", ""),
          .method = entry.at("method"),
          .hidden = entry.at("p"),
          .samples = entry.value("s", ""),
          .values = entry.at("values")};
}

PublishedTable table_from(const json& entry) {
  PublishedTable table{.number = entry.at("table"),
                       .label = entry.at("label"),
                       .place = entry.at("place"),
                       .kind = entry.at("kind"),
                       .title = entry.at("title"),
                       .note = entry.value("note", ""),
                       .command = entry.at("command"),
                       .rows = {}};
  for (const json& row : entry.at("rows")) {
    table.rows.push_back(row_from(row, entry.value("experiment", "")));
  }
  return table;
}

Published parse() {
  const json file = json::parse(published_json());
  Published result{
      .source = file.at("source"), .networks = file.at("networks"), .tables = {}, .figures = {}};
  for (const json& table : file.at("tables")) result.tables.push_back(table_from(table));
  for (const json& figure : file.at("figures")) {
    const json& command = figure.at("command");
    result.figures.push_back({.number = figure.at("figure"),
                              .label = figure.at("label"),
                              .title = figure.at("title"),
                              .command = command.is_null() ? "" : command.get<std::string>()});
  }
  return result;
}

}  // namespace

const Published& published() {
  static const Published all = parse();
  return all;
}

}  // namespace oubli
