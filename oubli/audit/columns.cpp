#include "oubli/audit/columns.h"

#include <fmt/format.h>

#include "oubli/base/error.h"

namespace oubli {

void check_columns_gone(const AuditInput& input, std::size_t forgotten,
                        std::uint32_t largest_label) {
  const std::size_t columns = input.seen.columns, names = input.class_names.size();
  const std::size_t classes = columns + forgotten;
  const bool labels_agree = largest_label + std::size_t{1} == classes;
  if (input.unseen.columns + forgotten == columns && !labels_agree)
    fail_column_per_class(input.seen, fmt::format("{} more than {}", forgotten, input.unseen.name));
  if (input.before && input.before->columns == columns && !labels_agree)
    fail_column_per_class(input.seen, "as many as before unlearning");
  if (names == columns) fail_column_per_class(input.seen, "as many as there are class names");
  const bool before_agrees = input.before && input.before->columns == classes;
  if (labels_agree || before_agrees || names == classes) return;
  if (largest_label + std::size_t{1} == columns)
    fail_column_per_class(input.seen,
                          fmt::format("the largest label is {}; were there more classes than that, "
                                      "--class-names or --before would say so",
                                      largest_label));
  fail(ErrorCode::bad_input,
       "{}: {} columns and {} forgotten make {} classes, but the largest label is {}. If there is "
       "one column for every class: the forgotten classes' columns must be gone: unlearned, or "
       "retrained without. If there are {} classes: --class-names or --before must say so",
       input.seen.name, columns, forgotten, classes, largest_label, classes);
}

}  // namespace oubli
