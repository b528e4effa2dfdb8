#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "oubli/report/html.h"
#include "oubli/report/verdict.h"

namespace oubli::report {

// A part that is closed until asked for, unless the page is to show all.
[[nodiscard]] inline std::string folded(bool full, const std::string& title,
                                        const std::string& body) {
  if (body.empty()) return "";
  if (full) return title + "\n" + body;
  return fmt::format("<details class=\"fold\"><summary>{}</summary>\n{}</details>\n", title, body);
}

// Collects the sections and the list of links to them.
class Sections {
 public:
  explicit Sections(bool full) : full_(full) {}
  [[nodiscard]] bool full() const { return full_; }

  void add(const std::string& id, const std::string& title, const std::string& body,
           bool fold = false) {
    if (body.empty()) return;
    links_ += fmt::format("<a href=\"#{}\">{}</a>\n", id, escape(title));
    const std::string heading = fmt::format("<h2>{}</h2>", escape(title));
    const bool closed = fold && !full_;
    if (closed) closed_.push_back(title);
    body_ +=
        fmt::format("<section id=\"{}\"{}>{}</section>\n", id, closed ? " class=\"folded\"" : "",
                    fold ? folded(full_, heading, body) : heading + "\n" + body);
  }
  [[nodiscard]] const std::string& links() const { return links_; }
  // For paper: what is not on it.
  [[nodiscard]] std::string body() const {
    if (closed_.empty()) return body_;
    return body_ + fmt::format(
                       "<p class=\"paper note\">Folded away here: {}. The page itself has "
                       "them; 'oubli report --full' prints them.</p>\n",
                       escape(join(closed_)));
  }

 private:
  bool full_;
  std::string links_;
  std::string body_;
  std::vector<std::string> closed_;
};

}  // namespace oubli::report
