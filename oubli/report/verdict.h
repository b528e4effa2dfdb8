#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oubli/audit/verdict.h"
#include "oubli/report/charts.h"
#include "oubli/report/report_data.h"

// "Can I hand this model over, and against whom?" in one sentence and one picture.
namespace oubli::report {

// An attack on the forgotten classes, and what the same attack finds where there is nothing to
// find.
struct AttackFound {
  Observer observer = Observer::logits;  // who it is open to
  Attack attack = Attack::nearest_neighbours;
  std::size_t answers = 1;  // of one network, that it is given together
  Figure advantage;
  Figure floor;
};

// The strongest attack of one observer against one method, of those tried. Who sees logits can work
// out probabilities, and who sees those the label: the attacks on them are open to him as well.
struct ObserverVerdict {
  enum class Level {
    not_told_apart,  // the interval reaches the floor's (0 where none was measured), no leak above
    faint,           // above the floor, by less than kFaint
    can_tell,
    unknown,    // nothing was computed
    undecided,  // the interval reaches the floor's, but also kFaint above the floor
  };
  Observer observer = Observer::logits;
  Level level = Level::unknown;
  std::optional<AttackFound> worst = {};
  std::optional<AttackFound> naive = {};  // the worst against naive deletion, if measured
  Verdict verdict = {};                   // over all attacks that are open to him, at once
  bool has_interval = false;
  std::string reason = {};  // why nothing was computed, or no interval
};

// The method the page judges: `wanted` if measured, else normalization, else the first measured.
[[nodiscard]] std::string judged_method(const Comparison& comparison, const std::string& wanted);

// One per observer measured, in the order logits, probabilities, label.
[[nodiscard]] std::vector<ObserverVerdict> judge(const Comparison& comparison,
                                                 const std::string& method);

// The answer in one sentence.
[[nodiscard]] std::string sentence(const std::vector<ObserverVerdict>& verdicts,
                                   const std::string& method);
[[nodiscard]] std::string sentence(const Receipt& receipt);

// How often an attacker is right from one answer and from several: of the observer who sees most.
[[nodiscard]] std::vector<std::string> plain_words(const std::vector<ObserverVerdict>& verdicts);

[[nodiscard]] VerdictChart chart(const std::vector<ObserverVerdict>& verdicts,
                                 const std::string& method);
// The same picture for a single deletion: the AUCs of its leak check.
[[nodiscard]] DotChart chart(const Receipt& receipt);

// "random forest (10 trees)", "likelihood ratio per image, 10 answers"
[[nodiscard]] std::string title_of(Attack attack, std::size_t answers);

// What an observer sees, in words: "logits", "probabilities", "the top-1 label".
[[nodiscard]] std::string seen_by(Observer observer);

// "alice", "alice and bob", "alice, bob and carol"
[[nodiscard]] std::string join(const std::vector<std::string>& words);

}  // namespace oubli::report
