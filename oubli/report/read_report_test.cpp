#include "oubli/report/read_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/report/comparison.h"
#include "oubli/report/page.h"
#include "oubli/report/verdict.h"

namespace oubli::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

json figure_json(double value) {
  return {{"value", value}, {"low", value - 0.01}, {"high", value + 0.02}};
}

json leak_json(const char* observer, double advantage) {
  return {{"observer", observer},
          {"attacks",
           {{{"attack", "adaboost"}, {"advantage", figure_json(advantage)}},
            {{"attack", "logistic"}, {"advantage", {{"value", nullptr}, {"reason", "too few"}}}}}},
          {"worst", "adaboost"},
          {"ks", figure_json(advantage / 2)},
          {"ks_ones", figure_json(advantage / 3)}};
}

json leaks_json(double advantage) {
  json classes = json::array();
  for (int label = 0; label < 3; ++label)
    classes.push_back({{"class", label},
                       {"forgotten", label == 1},
                       {"observers", {leak_json("logits", advantage / (1 + label))}}});
  return {{"classes", classes},
          {"forgotten", {leak_json("logits", advantage)}},
          {"retained", {leak_json("logits", advantage / 10)}}};
}

json audit_json(double advantage) {
  const json share = {{"mean", 0.25}, {"std", 0.05}};
  const json rest = {{"mean", 0.75}, {"std", 0.05}};
  return {{"format", "oubli-audit"},
          {"version", 1},
          {"models", {{"seen", 7}, {"unseen", 8}}},
          {"samples", 90},
          {"classes", 3},
          {"forgotten", {1}},
          {"class_names", {"a", "<b>", "c"}},
          {"leaks", leaks_json(advantage)},
          {"floor", {{"reason", "no second batch"}}},
          {"quality",
           {{{"population", "seen"}, {"accuracy", share}, {"loss", rest}},
            {{"population", "before"}, {"accuracy", nullptr}, {"reason", "not given"}}}},
          {"misclassification",
           {{{"class", 1}, {"population", "seen"}, {"shares", {share, rest}}},
            {{"class", 1}, {"population", "unseen"}, {"shares", {rest, share}}}}}};
}

class ReadReport : public ::testing::Test {
 protected:
  ReadReport() : folder_(fs::temp_directory_path() / fmt::format("oubli-report-{}", ::getpid())) {
    fs::create_directories(folder_);
  }
  ~ReadReport() override { fs::remove_all(folder_); }

  fs::path write(const char* name, const std::string& text) {
    write_file(folder_ / name, text);
    return folder_ / name;
  }
  static ReportData read(const fs::path& path) { return read_report(std::vector{path}); }
  static void expect_error(const fs::path& path, ErrorCode code, const std::string& words) {
    try {
      (void)read(path);
      FAIL() << "no error: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  }

  fs::path folder_;
};

// The page's text from the section `id` on, up to the next one.
std::string section(const std::string& text, const std::string& id) {
  const std::size_t begin = text.find("id=\"" + id + "\"");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find("</section>", begin) - begin);
}

TEST_F(ReadReport, AnAuditGivesLeaksDestinationsAndTables) {
  const ReportData data = read(write("audit.json", audit_json(0.4).dump()));
  ASSERT_EQ(data.comparisons.size(), 1U);
  const Comparison& comparison = data.comparisons[0];
  EXPECT_THAT(comparison.forgotten, ::testing::ElementsAre("<b>"));
  ASSERT_EQ(comparison.methods.size(), 1U);
  const Leaks& leaks = comparison.methods[0].audit.leaks;
  EXPECT_DOUBLE_EQ(*leaks.forgotten.at(0).attacks.at(0).advantage.value, 0.4);
  EXPECT_DOUBLE_EQ(*leaks.forgotten[0].attacks[0].advantage.low, 0.39);
  EXPECT_DOUBLE_EQ(*leaks.retained.at(0).attacks.at(0).advantage.value, 0.04);
  EXPECT_EQ(leaks.forgotten[0].attacks[1].advantage.reason, "too few");
  EXPECT_FALSE(comparison.floor);
  EXPECT_EQ(comparison.no_floor, "no second batch");
  EXPECT_THAT(retained_names(comparison.methods[0].audit, 2), ::testing::ElementsAre("a", "c"));
  // Figures that could not be computed are there with their reason.
  const std::string text = page(data);
  EXPECT_THAT(text, HasSubstr("AdaBoost"));
  EXPECT_THAT(section(text, "ks"), HasSubstr("0.200"));
  EXPECT_THAT(section(text, "destinations"), HasSubstr("audited models: where"));
  EXPECT_THAT(section(text, "destinations"), HasSubstr("retrained without it"));
  EXPECT_THAT(text, HasSubstr("not given"));
  EXPECT_THAT(text, HasSubstr("too few"));
  EXPECT_THAT(text, HasSubstr("&lt;b&gt; (forgotten)"));
  EXPECT_THAT(text, Not(HasSubstr("<b>")));
}

TEST_F(ReadReport, WarningsOfAnAuditStandAtTheTop) {
  json document = audit_json(0.4);
  document["warnings"] = {"the floor <is> not comparable", "another"};
  const ReportData data = read(write("audit.json", document.dump()));
  EXPECT_THAT(data.comparisons.at(0).warnings,
              ::testing::ElementsAre("the floor <is> not comparable", "another"));
  const std::string text = page(data);
  for (const char* id : {"answer", "leak"}) {
    EXPECT_THAT(section(text, id), HasSubstr("Warning: the floor &lt;is&gt; not comparable."));
    EXPECT_THAT(section(text, id), HasSubstr("Warning: another."));
  }
  const std::string leak = section(text, "leak");
  EXPECT_LT(leak.find("Warning: another."), leak.find("<svg"));
  document.erase("warnings");  // written before there were any
  EXPECT_THAT(page(read(write("audit.json", document.dump()))), Not(HasSubstr("Warning")));
}

TEST_F(ReadReport, WarningsOfResultsNameTheirMethod) {
  json warned = audit_json(0.5);
  warned["warnings"] = {"too few"};
  json floor = audit_json(0.03);
  floor["warnings"] = {"too small"};
  const json results = {
      {"format", "oubli-results"},
      {"version", 1},
      {"experiment", "mnist"},
      {"parts",
       {{{"hidden", 50},
         {"models", {{"seen", 9}, {"unseen", 9}}},
         {"floor", floor},
         {"methods",
          {{{"method", "naive"}, {"audit", warned}},
           {{"method", "normalization"},
            {"audit", audit_json(0.4)},
            {"failed", {{{"id", "seen-3"}, {"reason", "A is singular"}}}}},
           {{"method", "zeroing"}, {"audit", nullptr}, {"reason", "one network only"}}}}}}}};
  write("results.json", results.dump());
  const ReportData data = read(folder_);
  EXPECT_THAT(data.comparisons.at(0).warnings,
              ::testing::ElementsAre(
                  "naive: too few",
                  "normalization: network seen-3 could not be filtered and is left out: A is "
                  "singular",
                  "zeroing: not measured: one network only", "floor: too small"));
  EXPECT_THAT(section(page(data), "leak"), HasSubstr("Warning: zeroing: not measured: one"));
}

// Nothing measured at all: the warnings are all that there is to say.
TEST_F(ReadReport, WarningsWithoutFiguresAreShownToo) {
  const json results = {{"format", "oubli-results"},
                        {"version", 1},
                        {"parts",
                         {{{"hidden", 50},
                           {"models", {{"seen", 1}}},
                           {"methods", {{{"method", "naive"}, {"reason", "one network"}}}}}}}};
  write("results.json", results.dump());
  const std::string text = page(read(folder_));
  EXPECT_THAT(section(text, "answer"), HasSubstr("Warning: naive: not measured: one network."));
  EXPECT_THAT(section(text, "leak"), HasSubstr("Warning: naive: not measured: one network."));
}

TEST_F(ReadReport, MissingIntervalsHaveTheirReasonBesideThePicture) {
  json document = audit_json(0.4);
  const json bare = {{"value", 0.4}, {"interval_reason", "1 and 2 test models"}};
  document["leaks"]["forgotten"][0]["attacks"][0]["advantage"] = bare;
  document["leaks"]["forgotten"][0]["ks_ones"] = {{"value", 0.1}, {"interval_reason", "no <ks>"}};
  document["leaks"]["classes"][0]["observers"][0]["attacks"][0]["advantage"] = {
      {"value", 0.39}, {"interval_reason", "one class alone"}};
  const ReportData data = read(write("audit.json", document.dump()));
  EXPECT_EQ(data.comparisons.at(0)
                .methods.at(0)
                .audit.leaks.forgotten.at(0)
                .attacks.at(0)
                .advantage.reason,
            "1 and 2 test models");
  const std::string text = page(data);
  EXPECT_THAT(section(text, "answer"), HasSubstr("1 and 2 test models"));
  EXPECT_THAT(section(text, "leak"),
              HasSubstr("No interval (AdaBoost, audited models): 1 and 2 test models."));
  EXPECT_THAT(section(text, "leak"), HasSubstr("0.400 (no interval)"));
  EXPECT_THAT(section(text, "ks"),
              HasSubstr("No interval (all-ones direction, audited models): no &lt;ks&gt;."));
  EXPECT_THAT(section(text, "tables"), HasSubstr("0.390 (no interval)"));
  EXPECT_THAT(section(text, "tables"), HasSubstr("one class alone"));
}

TEST_F(ReadReport, MissingFiguresAreShownWithTheirReason) {
  json document = audit_json(0.4);
  const auto missing = [](const char* reason) {
    return json{{"value", nullptr}, {"reason", reason}};
  };
  json& leaks = document["leaks"];
  for (const char* group : {"forgotten", "retained"}) {
    json label = leak_json("label", 0.1);
    label["ks"] = label["ks_ones"] = missing("a label is not a number");
    leaks[group].push_back(label);
  }
  for (json& attack : leaks["classes"][2]["observers"][0]["attacks"])
    attack["advantage"] = missing("no images of it");
  document["quality"][0] = {
      {"population", "seen"}, {"accuracy", nullptr}, {"loss", nullptr}, {"reason", "no samples"}};
  document["flips"] = {{"all", nullptr},
                       {"forgotten", nullptr},
                       {"correct", nullptr},
                       {"reason", "no logits from before"}};
  document["probes"] = {{{"class", 1},
                         {"seen", nullptr},
                         {"unseen", nullptr},
                         {"reason", "old"},
                         {"seen_reason", "no features of seen"},
                         {"unseen_reason", "no features of unseen"}}};
  const std::string text = page(read(write("audit.json", document.dump())));
  // The attack that was not computed, below the picture and not only in the closed table.
  EXPECT_THAT(section(text, "leak"),
              HasSubstr("Not computed (logistic regression, audited models): too few."));
  EXPECT_THAT(section(text, "leak"), HasSubstr("no second batch"));  // the floor
  EXPECT_THAT(section(text, "answer"), HasSubstr("no second batch"));
  EXPECT_THAT(section(text, "ks"), HasSubstr("a label is not a number"));
  const std::string tables = section(text, "tables");
  EXPECT_THAT(tables, HasSubstr("not computed: no images of it"));
  EXPECT_THAT(tables, HasSubstr("not computed: no samples"));
  EXPECT_THAT(tables, HasSubstr("not computed: no logits from before"));
  EXPECT_THAT(tables, HasSubstr("not computed: no features of seen"));
  EXPECT_THAT(tables, HasSubstr("not computed: no features of unseen"));
  EXPECT_THAT(tables, HasSubstr("not computed: not given"));  // before unlearning
}

// "correct" over some of the models only: the figure stands, and what is wrong with it beside it.
TEST_F(ReadReport, AReasonBesideAFigureIsKept) {
  json document = audit_json(0.4);
  const json some = {{"mean", 0.01}, {"std", 0.0}};
  document["flips"] = {{"all", some}, {"forgotten", some}, {"correct", some}, {"reason", "3 of 7"}};
  const std::string tables = section(page(read(write("audit.json", document.dump()))), "tables");
  EXPECT_THAT(tables, HasSubstr("1.00 ± 0.00"));
  EXPECT_THAT(tables, HasSubstr("audited models: 3 of 7."));
}

TEST_F(ReadReport, EachClassKeepsMethodsThatWereNotMeasured) {
  json none = audit_json(0.5);
  for (json& attack : none["leaks"]["forgotten"][0]["attacks"])
    attack["advantage"] = {{"value", nullptr}, {"reason", "no images"}};
  const json results = {
      {"format", "oubli-results"},
      {"version", 1},
      {"class_names", {"a", "<b>", "c"}},
      {"parts",
       {{{"hidden", 50},
         {"models", {{"seen", 9}}},
         {"methods", {{{"method", "naive"}, {"audit", audit_json(0.5)}}}}}}},
      {"each_class",
       {{{"forgotten", {0}},
         {"methods",
          {{{"method", "naive"}, {"audit", none}},
           {{"method", "zeroing"}, {"audit", nullptr}, {"reason", "one network only"}}}}}}}};
  write("results.json", results.dump());
  const ReportData data = read(folder_);
  ASSERT_EQ(data.comparisons.at(0).charts.size(), 1U);
  const DotChart& chart = data.comparisons[0].charts[0];
  ASSERT_EQ(chart.rows.size(), 1U);
  ASSERT_EQ(chart.rows[0].marks.size(), 2U);
  EXPECT_EQ(chart.rows[0].marks[0].figure.reason, "no images");
  EXPECT_EQ(chart.rows[0].marks[1].figure.reason, "one network only");
  EXPECT_THAT(section(page(data), "tables"), HasSubstr("Not computed (a, zeroing): one network"));
}

TEST_F(ReadReport, ResultsUseThePartsFloorAndTheMainVariantsOnly) {
  const json results = {
      {"format", "oubli-results"},
      {"version", 1},
      {"experiment", "mnist"},
      {"class_names", {"a", "<b>", "c"}},
      {"parts",
       {{{"hidden", 10}, {"models", {{"seen", 2}}}, {"methods", json::array()}},
        {{"hidden", 50},
         {"models", {{"seen", 9}, {"unseen", 9}}},
         {"floor", audit_json(0.03)},
         {"methods",
          {{{"method", "naive"}, {"audit", audit_json(0.6)}},
           {{"method", "normalization"}, {"samples", "10"}, {"audit", audit_json(0.5)}},
           {{"method", "normalization"},
            {"samples", "all"},
            {"means_from", "test"},
            {"audit", audit_json(0.4)}}}}}}},
      {"tables",
       {{{"title", "T"},
         {"columns", {"method", "NN"}},
         {"keys", 1},
         {"rows",
          {{{"group", "unlearned"},
            {"keys", {"naive"}},
            {"cells",
             {{{"measure", "NN"},
               {"observer", "logits"},
               {"paper", 0.5},
               {"ours", 0.25},
               {"low", 0.2},
               {"high", 0.3},
               {"digits", 2}}}}}}}}}}};
  write("results.json", results.dump());
  const ReportData data = read(folder_);
  ASSERT_EQ(data.comparisons.size(), 2U);
  const Comparison& first = data.comparisons[0];
  EXPECT_EQ(first.title, "50 units");  // most networks first
  ASSERT_EQ(first.methods.size(), 2U);
  EXPECT_EQ(first.methods[1].name, "normalization");
  const auto verdicts = judge(first, judged_method(first, ""));
  EXPECT_DOUBLE_EQ(*verdicts.at(0).worst->advantage.value, 0.4);
  EXPECT_DOUBLE_EQ(*verdicts.at(0).worst->floor.value, 0.03);
  EXPECT_DOUBLE_EQ(*verdicts.at(0).naive->advantage.value, 0.6);
  ASSERT_EQ(data.published.size(), 1U);
  EXPECT_THAT(
      data.published[0].table.rows.at(0),
      ::testing::ElementsAre("unlearned", "naive", "NN", "logits", "0.50", "0.25", "0.20 to 0.30"));
  EXPECT_THAT(data.published[0].charts.at(0).axis, HasSubstr("observer sees logits"));
}

TEST_F(ReadReport, EveryFigureSaysWhatItsObserverSees) {
  json document = audit_json(0.4);
  for (const char* group : {"forgotten", "retained"})
    document["leaks"][group].push_back(leak_json("label", 0.1));
  document["leaks"]["classes"][0]["observers"].push_back(leak_json("label", 0.1));
  const json some = {{"mean", 0.01}, {"std", 0.0}};
  document["flips"] = {{"all", some}, {"forgotten", some}, {"correct", some}};
  document["probes"] = {{{"class", 1}, {"seen", some}, {"unseen", some}}};
  const std::string text = page(read(write("audit.json", document.dump())));
  for (const char* id : {"leak", "ks"})
    for (const char* title : {"Observer sees logits", "Observer sees the top-1 label"})
      EXPECT_THAT(section(text, id), HasSubstr(title)) << id;
  EXPECT_THAT(section(text, "destinations"), HasSubstr("share of its inputs, by top-1 label"));
  const std::string tables = section(text, "tables");
  EXPECT_THAT(tables, HasSubstr("<td>top-1 label</td>"));
  EXPECT_THAT(tables, HasSubstr("accuracy %, from the top-1 label"));
  EXPECT_THAT(tables, HasSubstr("loss, from the probabilities"));
  EXPECT_THAT(tables, HasSubstr("Top-1 labels changed against naive deletion"));
  EXPECT_THAT(tables, HasSubstr("an observer who holds the file"));
}

// Forgetting each class in turn is drawn for who sees most of what was measured, and says who.
TEST_F(ReadReport, EachClassIsForOneObserver) {
  json labels = audit_json(0.5);
  labels["leaks"]["forgotten"] = {leak_json("label", 0.2)};
  json both = audit_json(0.5);
  both["leaks"]["forgotten"].push_back(leak_json("label", 0.2));
  const auto axis_and_first = [&](const json& first, const json& second) {
    const json results = {
        {"format", "oubli-results"},
        {"version", 1},
        {"parts", {{{"hidden", 50}, {"methods", json::array()}}}},
        {"each_class",
         {{{"forgotten", {0}}, {"methods", {{{"method", "naive"}, {"audit", first}}}}},
          {{"forgotten", {1}}, {"methods", {{{"method", "naive"}, {"audit", second}}}}}}}};
    write_file(folder_ / "results.json", results.dump(), true);
    const DotChart chart = read(folder_).comparisons.at(0).charts.at(0);
    return std::pair(chart.axis, to_text(chart.rows.at(0).marks.at(0).figure, 1));
  };
  const std::string axis = "advantage of the strongest attack, observer sees ";
  EXPECT_EQ(axis_and_first(both, both),
            std::pair(axis + "logits", std::string("0.5 (0.5 to 0.5)")));
  EXPECT_EQ(axis_and_first(labels, labels),
            std::pair(axis + "the top-1 label", std::string("0.2 (0.2 to 0.2)")));
  EXPECT_EQ(axis_and_first(labels, both),
            std::pair(axis + "logits", std::string("not computed: not measured for logits")));
}

TEST_F(ReadReport, SaysWhatIsWrongWithAFile) {
  expect_error(write("x.json", "{"), ErrorCode::bad_input, "not valid JSON");
  expect_error(write("x.json", "[1]"), ErrorCode::bad_input, "not a JSON object");
  expect_error(write("x.json", R"({"format": "else"})"), ErrorCode::bad_input, "format 'else'");
  expect_error(write("x.json", R"({"format": "oubli-audit", "version": 2})"), ErrorCode::bad_input,
               "version 2, this program reads up to 1");
  json damaged = audit_json(0.4);
  damaged["misclassification"][0].erase("shares");
  expect_error(write("x.json", damaged.dump()), ErrorCode::bad_input,
               "x.json: misclassification[0].shares: nothing where a list is wanted");
  damaged = audit_json(0.4);
  damaged["leaks"]["forgotten"][0]["attacks"][0]["attack"] = "new-attack";
  expect_error(write("x.json", damaged.dump()), ErrorCode::bad_input,
               "x.json: leaks.forgotten[0].attacks[0].attack: no attack is named 'new-attack'");
  expect_error(write("x.json", R"({"format": 3})"), ErrorCode::bad_input,
               "x.json: format: 3 where text is wanted");
  expect_error(write("x.json", R"({"format": "oubli-receipt", "version": 1})"),
               ErrorCode::bad_input, "x.json: request: nothing where an object is wanted");
  damaged = audit_json(0.4);
  damaged["models"]["seen"] = 1e30;
  expect_error(write("x.json", damaged.dump()), ErrorCode::bad_input,
               "1e+30 where a whole number from 0 to 18446744073709551615 is wanted");
  fs::remove(folder_ / "x.json");
  expect_error(folder_, ErrorCode::missing,
               "has none of results.json, inversion.json and methods.json");
  expect_error(folder_ / "none.json", ErrorCode::io, "none.json");
}

TEST_F(ReadReport, PicturesLieBesideTheirDocument) {
  json inversion = {{"format", "oubli-inversion"},
                    {"version", 1},
                    {"sheets", {{{"file", "sheet.png"}, {"title", "t"}, {"description", "d"}}}}};
  write("sheet.png", "bytes");
  EXPECT_EQ(read(write("inversion.json", inversion.dump())).inversion->sheets.at(0).png, "bytes");
  for (const char* name : {"/etc/passwd", "../sheet.png", "..", ""}) {
    inversion["sheets"][0]["file"] = name;
    expect_error(write("inversion.json", inversion.dump()), ErrorCode::bad_input,
                 "is not the name of a file beside it");
  }
}

TEST_F(ReadReport, AnInversionCountsItsPictures) {
  const auto entry = [](const char* state, double share, int networks, int pictures) {
    return json{{"state", state},
                {"target", "forgotten, ghost logit"},
                {"networks", networks},
                {"pictures", pictures},
                {"own", {{"mean", 0.5}, {"std", 0.1}}},
                {"recognised", {{"mean", share}, {"std", 0.0}}}};
  };
  json inversion = {{"format", "oubli-inversion"},
                    {"version", 1},
                    {"class_names", {"a", "b", "c", "d"}},
                    {"likeness", {entry("naive", 0.75, 1, 4), entry("retrained", 0.5, 2, 2)}}};
  const auto sentence_of = [&] {
    write_file(folder_ / "inversion.json", inversion.dump(), true);
    return read(folder_).inversion->sentence;
  };
  EXPECT_THAT(sentence_of(),
              HasSubstr("the forgotten class is recognised in 3 of 4 pictures of 1 network after "
                        "naive, in 1 of 2 pictures of 2 networks that never saw it (guessing: 1 in "
                        "4)."));
  inversion["likeness"][0].erase("pictures");  // as older files
  EXPECT_THAT(sentence_of(), HasSubstr("in 75 % of the pictures of 1 network after naive"));
}

TEST_F(ReadReport, ThePageIsNothingThatWasRead) {
  const json inversion = {
      {"format", "oubli-inversion"},
      {"version", 1},
      {"caption", ""},
      {"sheets", {{{"file", "sheet.png"}, {"title", "t"}, {"description", "d"}}}}};
  write("sheet.png", "bytes");
  const fs::path audit = write("audit.json", audit_json(0.4).dump());
  const fs::path folder = write("inversion.json", inversion.dump()).parent_path();
  for (const char* const name : {"sheet.png", "audit.json", "inversion.json"}) {
    const std::string before = read_text_file(folder / name);
    try {
      write_report(std::vector{folder, audit}, folder / name, /*replace=*/true);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_THAT(error.what(), HasSubstr("is the input"));
    }
    EXPECT_EQ(read_text_file(folder / name), before);
  }
  write_report(std::vector{folder, audit}, folder / "report.html", /*replace=*/true);
}

TEST_F(ReadReport, AMethodThatIsAskedForMustBeThere) {
  const fs::path audit = write("audit.json", audit_json(0.4).dump());
  const std::string there = read(audit).comparisons.at(0).methods.at(0).name;
  write_report(std::vector{audit}, folder_ / "r.html", /*replace=*/true, there);
  try {
    write_report(std::vector{audit}, folder_ / "r.html", /*replace=*/true, "bogus");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("--method bogus: was not audited here; there is " + there));
  }
}

}  // namespace
}  // namespace oubli::report
