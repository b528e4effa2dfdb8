#include "oubli/inversion/study_output.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "oubli/base/error.h"
#include "oubli/inversion/similarity.h"

namespace oubli {
namespace {

using nlohmann::json;

Sheet empty_sheet(const ImageSet& data) {
  Sheet sheet;
  sheet.channels = data.channels;
  sheet.height = data.height;
  sheet.width = data.width;
  return sheet;
}

// States after deletion, in order of appearance.
std::vector<std::string> states_after(const InversionResult& result) {
  std::vector<std::string> out;
  for (const Reconstruction& r : result.reconstructions)
    if (r.forgotten && std::ranges::find(out, r.state) == out.end()) out.push_back(r.state);
  return out;
}

std::vector<std::uint32_t> forgotten_classes(const InversionResult& result) {
  std::vector<std::uint32_t> out;
  for (const Reconstruction& r : result.reconstructions)
    if (r.forgotten && std::ranges::find(out, *r.forgotten) == out.end())
      out.push_back(*r.forgotten);
  return out;
}

Sheet::Tile tile(const InversionResult& result, const std::string& state,
                 std::optional<std::uint32_t> forgotten, std::uint32_t target, bool ghost = false) {
  for (const Reconstruction& r : result.reconstructions)
    if (r.network == 0 && r.state == state && r.forgotten == forgotten && r.target == target &&
        r.ghost == ghost)
      return {min_max_scaled(r.image), forgotten == target};
  return {};
}

void add_row(Sheet& sheet, std::string title, std::vector<Sheet::Tile> tiles) {
  sheet.row_titles.push_back(std::move(title));
  sheet.rows.push_back(std::move(tiles));
}

struct Column {
  const char* key;
  const char* title;
  MeanStd LikenessSummary::*field;
};
constexpr Column kColumns[] = {
    {"correlation", "correlation with the class mean", &LikenessSummary::correlation},
    {"ssim", "SSIM", &LikenessSummary::ssim},
    {"own", "correlation with what is the class's own", &LikenessSummary::own},
    {"recognised", "nearest to its own class", &LikenessSummary::recognised},
    {"unchanged", "correlation with before", &LikenessSummary::unchanged}};

std::vector<std::string> cells(const LikenessSummary& summary) {
  std::vector<std::string> out{summary.state, summary.target};
  for (const Column& column : kColumns) {
    const auto& [mean, deviation] = summary.*column.field;
    out.push_back(summary.networks > 1 ? fmt::format("{:.2f} ± {:.2f}", mean, deviation)
                                       : fmt::format("{:.2f}", mean));  // one has no spread
  }
  return out;
}

}  // namespace

Sheet figure_sheet(const InversionResult& result, const ImageSet& data, std::uint32_t forgotten) {
  Sheet sheet = empty_sheet(data);
  sheet.column_titles = data.class_names;
  const auto row = [&](const auto& tile_of) {
    std::vector<Sheet::Tile> tiles;
    for (std::uint32_t c = 0; c < data.classes(); ++c) tiles.push_back(tile_of(c));
    return tiles;
  };
  add_row(sheet, "training image", row([&](std::uint32_t c) {
            return Sheet::Tile{result.first_images[c], false};
          }));
  add_row(sheet, "before",
          row([&](std::uint32_t c) { return tile(result, "before", std::nullopt, c); }));
  for (const std::string& state : states_after(result))
    add_row(sheet, state, row([&](std::uint32_t c) { return tile(result, state, forgotten, c); }));
  return sheet;
}

Sheet full_sheet(const InversionResult& result, const ImageSet& data) {
  Sheet sheet = empty_sheet(data);
  std::vector<std::string> states;
  for (const std::string& state : states_after(result))
    if (state != "retrained") states.push_back(state);
  for (std::size_t s = 0; s < states.size(); ++s) {
    if (s > 0) sheet.gap_before.push_back(sheet.column_titles.size());
    for (std::size_t c = 0; c < data.classes(); ++c)
      sheet.column_titles.push_back(c == 0 ? states[s] : "");
  }
  const auto row = [&](const auto& tile_of) {
    std::vector<Sheet::Tile> tiles;
    for (const std::string& state : states)
      for (std::uint32_t c = 0; c < data.classes(); ++c) tiles.push_back(tile_of(state, c));
    return tiles;
  };
  add_row(sheet, "training image", row([&](const std::string&, std::uint32_t c) {
            return Sheet::Tile{result.first_images[c], false};
          }));
  add_row(sheet, "before", row([&](const std::string&, std::uint32_t c) {
            return tile(result, "before", std::nullopt, c);
          }));
  for (const std::uint32_t forgotten : forgotten_classes(result))
    add_row(sheet, "without " + data.class_names[forgotten],
            row([&](const std::string& state, std::uint32_t c) {
              return tile(result, state, forgotten, c);
            }));
  return sheet;
}

Sheet ghost_sheet(const InversionResult& result, const ImageSet& data) {
  Sheet sheet = empty_sheet(data);
  const auto forgotten = forgotten_classes(result);
  std::vector<Sheet::Tile> training;
  for (const std::uint32_t c : forgotten) {
    sheet.column_titles.push_back(data.class_names[c]);
    training.push_back({result.first_images[c], false});
  }
  add_row(sheet, "training image", std::move(training));
  for (const std::string& state : states_after(result)) {
    std::vector<Sheet::Tile> tiles;
    for (const std::uint32_t c : forgotten) {
      tiles.push_back(tile(result, state, c, c, true));
      tiles.back().framed = false;  // every one is of the forgotten class
    }
    add_row(sheet, state, std::move(tiles));
  }
  return sheet;
}

std::vector<LikenessSummary> summarise(const InversionResult& result) {
  // Means over the classes of each network first: networks are what is independent.
  struct Group {
    std::string state, target;
    std::map<std::size_t, std::vector<const Likeness*>> by_network;
  };
  std::vector<Group> groups;
  for (const Reconstruction& r : result.reconstructions) {
    std::string target = "retained";
    if (!r.forgotten)
      target = "every class";
    else if (r.target == *r.forgotten)
      target = r.ghost ? "forgotten, ghost logit" : "forgotten, guessed logit";
    auto group = std::ranges::find_if(
        groups, [&](const Group& g) { return g.state == r.state && g.target == target; });
    if (group == groups.end()) group = groups.insert(group, {r.state, target, {}});
    group->by_network[r.network].push_back(&r.likeness);
  }

  std::vector<LikenessSummary> out;
  for (const Group& group : groups) {
    const auto spread = [&](const auto& value) {
      std::vector<double> means;
      for (const auto& [network, likenesses] : group.by_network) {
        double sum = 0;
        for (const Likeness* likeness : likenesses) sum += value(*likeness);
        means.push_back(sum / static_cast<double>(likenesses.size()));
      }
      return mean_std(means);
    };
    LikenessSummary summary;
    summary.state = group.state;
    summary.target = group.target;
    summary.networks = group.by_network.size();
    for (const auto& [network, likenesses] : group.by_network)
      summary.pictures += likenesses.size();
    summary.correlation = spread([](const Likeness& l) { return l.correlation; });
    summary.ssim = spread([](const Likeness& l) { return l.ssim; });
    summary.own = spread([](const Likeness& l) { return l.own; });
    summary.recognised = spread([](const Likeness& l) { return l.recognised ? 1.0 : 0.0; });
    summary.unchanged = spread([](const Likeness& l) { return l.unchanged; });
    out.push_back(std::move(summary));
  }
  return out;
}

TextTable to_table(const std::vector<LikenessSummary>& summaries) {
  using enum TextTable::Align;
  std::vector<TextTable::Column> columns{{"network", left}, {"class attacked", left}};
  for (const char* title : {"correlation", "SSIM", "own part", "recognised", "as before"})
    columns.push_back({title, right});
  TextTable table(std::move(columns));
  for (const LikenessSummary& summary : summaries) table.add_row(cells(summary));
  return table;
}

json to_json(const InversionStudy& study, const ImageSet& data, const InversionResult& result,
             const std::vector<LikenessSummary>& summaries, const std::vector<NamedSheet>& sheets) {
  json out{
      {"format", "oubli-inversion"},  {"version", 1},
      {"data_set", data.name},        {"height", data.height},
      {"width", data.width},          {"class_names", data.class_names},
      {"network", study.spec.name},   {"networks", summaries.empty() ? 0 : summaries[0].networks},
      {"seed", study.training.seed},  {"epochs", study.training.epochs},
      {"steps", study.descent.steps}, {"step_size", study.descent.step_size},
      {"guess", study.guess},         {"training_accuracy", result.accuracy}};
  out["caption"] = fmt::format(
      "An attacker descends on the input, {} steps of {} times the gradient, until the model "
      "takes the picture for the class; where the class's output was removed, the attacker puts "
      "a constant {} in its place, or uses the mean of the remaining logits (the ghost logit). "
      "Networks: {}; the pictures are of the first, each stretched to full contrast.",
      study.descent.steps, study.descent.step_size, study.guess,
      out["networks"].get<std::size_t>());
  const bool retrained = std::ranges::any_of(
      summaries, [](const LikenessSummary& summary) { return summary.state == "retrained"; });
  if (retrained)
    out["caption"] = out["caption"].get<std::string>() +
                     " 'retrained' is a network that never saw the class: what is found there is "
                     "no trace of it.";
  out["sheets"] = json::array();
  for (const NamedSheet& sheet : sheets)
    out["sheets"].push_back(
        {{"file", sheet.file}, {"title", sheet.title}, {"description", sheet.description}});

  json table{
      {"title", "How like its class a reconstruction is"},
      {"note",
       "Mean ± standard deviation over networks, if there are several. Class's own: its mean image "
       "minus the mean image "
       "of all classes. Nearest: share of reconstructions closer to their own class than to any "
       "other. Before: the reconstruction from the same network before deletion."},
      {"columns", json::array({{{"title", "network"}}, {{"title", "class attacked"}}})},
      {"rows", json::array()}};
  for (const Column& column : kColumns)
    table["columns"].push_back({{"title", column.title}, {"number", true}});
  out["likeness"] = json::array();
  for (const LikenessSummary& summary : summaries) {
    json entry{{"state", summary.state},
               {"target", summary.target},
               {"networks", summary.networks},
               {"pictures", summary.pictures}};
    for (const Column& column : kColumns) entry[column.key] = summary.*column.field;
    out["likeness"].push_back(std::move(entry));
    table["rows"].push_back(cells(summary));
  }
  out["tables"] = json::array({std::move(table)});
  return out;
}

}  // namespace oubli
