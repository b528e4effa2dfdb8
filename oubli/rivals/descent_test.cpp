#include "oubli/rivals/descent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "oubli/rivals/test_request.h"

namespace oubli {
namespace {

const nn::Optimizer kPlain{.kind = nn::Optimizer::Kind::sgd, .learning_rate = 0.5, .momentum = 0};

// The loss of the network on `images` with one number of its parameters moved by `by`.
double loss_with(const nn::Network& network, const ImageSet& images, std::size_t parameter,
                 std::size_t element, float by) {
  std::vector<nn::Parameter> parameters = network.parameters();
  parameters[parameter].values[element] += by;
  return nn::score(nn::Network(network.spec(), parameters).logits(images), images.labels).loss;
}

TEST(Descent, OneStepFollowsTheGradientAndMinusOneClimbsIt) {
  const TestRequest& request = test_request();
  const std::vector<std::size_t> images{0, 1, 2, 3, 9};
  const ImageSet batch = select_images(request.train, images);
  for (const float sign : {1.0F, -1.0F}) {
    Descent descent(request.network, request.train, images.size(), kPlain);
    descent.run(images, label_loss(request.train.labels, 4, sign), {});
    const nn::Network after = descent.network();
    for (std::size_t p = 0; p < after.parameters().size(); ++p) {
      const std::vector<float>& old = request.network.parameters()[p].values;
      for (const std::size_t element : {std::size_t{0}, old.size() / 2, old.size() - 1}) {
        constexpr float kMove = 1e-2F;
        const double slope = (loss_with(request.network, batch, p, element, kMove) -
                              loss_with(request.network, batch, p, element, -kMove)) /
                             (2 * static_cast<double>(kMove));
        const double step = static_cast<double>(after.parameters()[p].values[element]) -
                            static_cast<double>(old[element]);
        // Central differences err by the third derivative (below 10 here) times kMove^2 / 6, and
        // losses in float by 1e-6 / kMove.
        EXPECT_NEAR(step, -0.5 * static_cast<double>(sign) * slope, 4e-4) << p << ' ' << element;
      }
    }
  }
}

TEST(Descent, AStopInBetweenChangesNothing) {
  const TestRequest& request = test_request();
  std::vector<std::size_t> images(160);
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = i;
  const auto loss = label_loss(request.train.labels, 4);
  Descent whole(request.network, request.train, 32, {});
  Descent parts(request.network, request.train, 32, {});
  whole.run(images, loss, {});
  parts.run(std::span(images).first(64), loss, {});
  parts.run(std::span(images).subspan(64), loss, {});
  EXPECT_EQ(whole.network().parameters(), parts.network().parameters());
}

TEST(Descent, CertainProbabilitiesAreLabels) {
  const TestRequest& request = test_request();
  const std::vector<std::size_t> images{5, 2, 8};
  std::map<std::size_t, std::size_t> row_of;
  Matrix<float> targets(3, 4);
  for (std::size_t i = 0; i < 3; ++i) {
    row_of[images[i]] = i;
    targets(i, request.train.labels[images[i]]) = 1;
  }
  const std::vector<float> logits{1, 2, 3, 4, -5, 0, 5, 1, 9, 9, 9, 9};
  std::vector<float> by_label(12), by_row(12);
  label_loss(request.train.labels, 4)(images, logits, by_label);
  soft_loss(targets, row_of)(images, logits, by_row);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_NEAR(by_label[i], by_row[i], 1e-6F);
}

TEST(Descent, RefusesWeightsThatAreNoNumbers) {
  const TestRequest& request = test_request();
  nn::Optimizer wild = kPlain;
  wild.learning_rate = 1e38;
  Descent descent(request.network, request.train, 2, wild);
  const std::vector<std::size_t> images{0, 1, 2, 3, 4, 5};
  EXPECT_THROW(descent.run(images, label_loss(request.train.labels, 4), {}), Error);
}

}  // namespace
}  // namespace oubli
