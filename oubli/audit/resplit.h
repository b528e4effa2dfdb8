#pragma once

#include <cstddef>
#include <span>

#include "oubli/audit/leaks.h"
#include "oubli/audit/population.h"
#include "oubli/audit/tell_apart.h"

namespace oubli {

// How an advantage varies with the networks that the attack learns from, too: populations are split
// into training and test networks again and again.

// The networks of one population in every split.
struct SplitSizes {
  std::size_t train = 0, test = 0;
};

// The mean of an attack's advantages in J splits, each with other training and test networks, and
// its 95 % interval: Student's t with J - 1 degrees of freedom times sqrt(1/J + rho/(1 - rho)) s. s
// is their standard deviation, and rho the correlation of two splits, which share networks [Nadeau
// and Bengio, "Inference for the Generalization Error", Machine Learning 52, 2003, section 3]. They
// take rho = q, the share of networks that is tested: right where only test networks count. Where
// an attack learns what the training networks happen to have, pairs of a training and a test
// network count, and two splits share 2 q (1 - q) of those. The larger is taken, of both
// populations. Simulated coverage (resplit_statistical_test.cpp): 0.93 to 0.99 from 20 + 20
// networks on, 100 + 100 of them with a share of 0.3; 0.88 to 0.95 with rho = q.
// `answers`: of one test network. As many independent answers would give no narrower interval.
[[nodiscard]] Figure over_splits(std::span<const double> advantages, const SplitSizes& first,
                                 const SplitSizes& second, std::size_t answers);

// `leaks` is tell_apart(first, second, samples, options), split 0. The attacks and observers that
// `options` name are tried in splits 1 to `splits` - 1, too, and get AttackLeak::splits and
// AttackLeak::over_splits. Each split costs as much as the attacks of split 0.
void add_splits(Leaks& leaks, const Population& first, const Population& second,
                const AuditSamples& samples, AuditOptions options, std::size_t splits);

}  // namespace oubli
