#include "reprise/structured_output/number_leaf.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "reprise/base/error.h"
#include "reprise/structured_output/schema_validator.h"

namespace reprise::structured_output {
namespace {

/// Whether the leaf accepts the whole text.
bool takes(const NumberLeaf& leaf, const std::string& text) {
  NumberLeaf::State state;
  for (const char byte : text) {
    if (!leaf.take_byte(state, static_cast<uint8_t>(byte))) return false;
  }
  return leaf.may_end(state);
}

TEST(NumberLeaf, takes_the_integers_between_its_bounds_and_no_others) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const int64_t low = static_cast<int64_t>(random() % 3000) - 1500;
    const int64_t high = low + static_cast<int64_t>(random() % 400);
    const int64_t step = 1 + static_cast<int64_t>(random() % 9);
    const Json schema = {{"minimum", low}, {"maximum", high}, {"multipleOf", step}};
    try {
      const NumberLeaf leaf("integer", schema);
      for (int64_t value = low - 50; value <= high + 50; ++value) {
        const bool is_valid = value >= low && value <= high && value % step == 0;
        EXPECT_EQ(takes(leaf, std::to_string(value)), is_valid) << schema << value;
      }
    } catch (const InvalidArgument&) {
      for (int64_t value = low; value <= high; ++value) EXPECT_NE(value % step, 0) << schema;
    }
  }
}

TEST(NumberLeaf, every_text_that_was_begun_can_be_ended) {
  std::mt19937_64 random(2);
  const SchemaValidator validator(Json::object());
  for (int round = 0; round < 2000; ++round) {
    const double low = std::round((static_cast<double>(random() % 4000) - 2000) * 125) / 1000;
    Json schema = {{"minimum", low},
                   {random() % 2 == 0 ? "maximum" : "exclusiveMaximum",
                    low + 0.5 + static_cast<double>(random() % 1000) / 8}};
    if (random() % 2 == 0) schema["multipleOf"] = std::vector{0.01, 0.25, 0.1, 2.5}[random() % 4];
    std::string text;
    try {
      const NumberLeaf leaf("number", schema);
      NumberLeaf::State state;
      while (!leaf.may_end(state) || random() % 2 == 0) {
        constexpr std::string_view kBytes = "-.0123456789";
        std::string next;
        for (const char byte : kBytes) {
          NumberLeaf::State after = state;
          if (leaf.take_byte(after, static_cast<uint8_t>(byte))) next += byte;
        }
        if (next.empty()) break;
        text += next[random() % next.size()];
        ASSERT_TRUE(leaf.take_byte(state, static_cast<uint8_t>(text.back())));
      }
      ASSERT_TRUE(leaf.may_end(state)) << schema << text;
      EXPECT_TRUE(validator.is_valid(Json::parse(text), schema)) << schema << text;
    } catch (const InvalidArgument&) {
      EXPECT_TRUE(schema.contains("multipleOf")) << schema;
    }
  }
}

TEST(NumberLeaf, knows_the_bounds_of_64_bits_and_of_doubles) {
  const NumberLeaf safe("integer", {{"minimum", -9007199254740991}, {"maximum", 9007199254740991}});
  EXPECT_TRUE(takes(safe, "9007199254740991"));
  EXPECT_TRUE(takes(safe, "-9007199254740991"));
  EXPECT_FALSE(takes(safe, "9007199254740992"));
  const NumberLeaf whole("integer",
                         {{"minimum", std::numeric_limits<int64_t>::min()},
                          {"maximum", std::numeric_limits<int64_t>::max()}});
  EXPECT_TRUE(takes(whole, "9223372036854775807"));
  EXPECT_FALSE(takes(whole, "9223372036854775808"));
  EXPECT_TRUE(takes(whole, "-9223372036854775808"));
  EXPECT_TRUE(takes(NumberLeaf("number", {{"maximum", 1.7976931348623157e308}}), "12.5"));
  const NumberLeaf small("number", {{"exclusiveMinimum", 2e-7}, {"exclusiveMaximum", 9e-7}});
  EXPECT_TRUE(takes(small, "0.0000005"));
  EXPECT_FALSE(takes(small, "0.0000002"));
  EXPECT_THROW(NumberLeaf("number", {{"minimum", 1e300}}), InvalidArgument);
}

}  // namespace
}  // namespace reprise::structured_output
