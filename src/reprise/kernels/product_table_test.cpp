#include "reprise/kernels/product_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "reprise/base/error.h"

namespace reprise::kernels {
namespace {

using Kernel = ProductChoice::Kernel;

ProductShape qkv() {
  return {.op = OpCode::linear_rope_kv_write,
          .has_norm = true,
          .has_bias = true,
          .columns = 1152,
          .depth = 896,
          .x_stride = 896};
}

ProductShape head() {
  return {.op = OpCode::lm_head,
          .out_type = DType::f32,
          .columns = 151'936,
          .depth = 896,
          .x_stride = 1792};
}

/// Of a weight in blocks, whose rows of x have 40 bytes for 32 elements.
ProductShape packed_down() {
  return {.op = OpCode::linear_add,
          .columns = 3584,
          .depth = 18'944,
          .x_stride = 23'680,
          .weight = PackedForm(block_panels_layout(9917))};
}

MeasuredRows measured(const ProductChoice& choice, double microseconds) {
  return {.choice = choice, .microseconds = microseconds, .built_in_microseconds = 2.125};
}

const ProductChoice kOwn{.kernel = Kernel::own, .tile_columns = 32};
const ProductChoice kLibrary{
    .kernel = Kernel::library,
    .algorithm = {1, 0xFFFFFFFFFFFFFFFF, 3, 0, 5, 6, 7, 0x8000000000000000}};

ProductTable table() {
  ProductTable table;
  table.set(qkv(), 4, measured(kOwn, 1.5));
  table.set(qkv(), 16, measured(kLibrary, 2.0));
  table.set(qkv(), 24, measured({}, 2.125));
  table.set(head(), 1, measured({.kernel = Kernel::own}, 0.001));
  table.set(head(), 8, measured({.kernel = Kernel::streamed, .tile_columns = 16}, 7));
  table.set(packed_down(), 1, measured({.kernel = Kernel::streamed}, 6.5));
  return table;
}

TEST(ProductTable, rows_that_were_not_measured_take_the_choice_of_the_next_power_of_two) {
  const ProductTable choices = table();
  const auto expect = [&](int64_t rows, const ProductChoice* wanted) {
    const ProductChoice* found = choices.find(qkv(), rows);
    ASSERT_EQ(found == nullptr, wanted == nullptr) << rows;
    if (found != nullptr) {
      EXPECT_EQ(*found, *wanted) << rows;
    }
  };
  for (const int64_t rows : {3, 4}) expect(rows, &kOwn);
  for (const int64_t rows : {9, 15, 16}) expect(rows, &kLibrary);
  // The rule holds where neither these rows nor the next power of two were measured, and for 24
  // rows, because it was the fastest there.
  for (const int64_t rows : {0, 1, 2, 5, 8, 17, 24, 25, 32, 1 << 20}) expect(rows, nullptr);
  ProductShape other = qkv();
  other.has_norm = false;
  EXPECT_EQ(choices.find(other, 4), nullptr);
  EXPECT_TRUE(choices.has(qkv(), 24));
  EXPECT_FALSE(choices.has(qkv(), 3));
  EXPECT_EQ(choices.num_measured(), 6U);
  EXPECT_EQ(choices.num_changed(), 5U);
}

TEST(ProductTable, a_merge_keeps_what_is_there_and_adds_the_rest) {
  ProductTable mine;
  mine.set(qkv(), 16, measured(kOwn, 1));
  ProductTable all = mine;
  all.merge(table());
  EXPECT_EQ(all.num_measured(), 6U);
  EXPECT_EQ(*all.find(qkv(), 16), kOwn);
  ProductTable theirs = table();
  theirs.merge(mine);
  EXPECT_EQ(theirs, table());
}

TEST(ProductTable, is_read_as_it_was_written) {
  EXPECT_EQ(parse_product_table(print(table()), "here"), table());
  EXPECT_EQ(parse_product_table(print(ProductTable()), "here"), ProductTable());
  EXPECT_EQ(describe(qkv()), "linear_rope_kv_write 1152x896 bfloat16, normed, bias");
  EXPECT_EQ(describe(head()), "lm_head 151936x896 bfloat16 to float32, stride 1792");
  EXPECT_EQ(describe(packed_down()), "linear_add 3584x18944 bfloat16, blocks9917, stride 23680");
  EXPECT_EQ(describe(kOwn), "own, tiles of 32");
  EXPECT_EQ(describe({.kernel = Kernel::streamed, .tile_columns = 8}), "streamed, tiles of 8");
  EXPECT_NE(describe(kLibrary), describe(ProductChoice{.kernel = Kernel::library}));
}

std::string replaced(std::string text, const std::string& old, const std::string& by) {
  const size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return at == std::string::npos ? text : text.replace(at, old.size(), by);
}

TEST(ProductTable, a_table_that_was_not_written_like_this_is_refused_with_the_place) {
  const std::string good = print(table());
  for (const auto& [old, by, said] : std::vector<std::array<const char*, 3>>{
           {R"("version": 1)", R"("version": 2)", "'version'"},
           {R"("op":"linear_rope_kv_write")", R"("op":"attention")", "products[2]: 'op'"},
           {R"("type":"bfloat16")", R"("type":"int8")", "'type'"},
           {R"("columns":1152)", R"("columns":0)", "'columns'"},
           {R"("columns":1152)", R"("columns":1.5)", "'columns'"},
           {R"("columns":1152)", R"("columns":18446744073709551615)", "'columns'"},
           {R"("x_stride":896)", R"("x_stride":895)", "'x_stride'"},
           {R"("weight":"blocks9917")", R"("weight":"")", "'weight': unknown layout ''"},
           {R"("weight":"blocks9917")", R"("weight":"blocks")", "'weight': unknown layout"},
           {R"("weight":"blocks9917")", R"("weight":9917)", "'weight': expected a text"},
           {R"("norm":true)", R"("norm":1)", "'norm'"},
           {R"("rows":16)", R"("rows":4)", "listed twice"},
           {R"("rows":16)", R"("rows":-16)", "'rows'"},
           {R"("tile_columns":32)", R"("tile_columns":24)", "'tile_columns'"},
           {R"("kernel":"own")", R"("kernel":"owner")", "'kernel'"},
           {R"("kernel":"own",)", "", "'kernel' is missing"},
           {R"("algorithm":"0)", R"("algorithm":")", "128 hexadecimal digits"},
           {R"("algorithm":"0)", R"("algorithm":"G)", "128 hexadecimal digits"},
           {R"("us":1.5)", R"("us":0)", "'us'"},
           {R"("us":1.5)", R"("us":1.5,"more":1)", "unknown members"},
           {R"("us":1.5)", R"("us":"1.5")", "'us'"},
       }) {
    try {
      (void)parse_product_table(replaced(good, old, by), "the file");
      ADD_FAILURE() << "accepted " << by;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(said)) << by;
      EXPECT_THAT(error.what(), testing::StartsWith("the file")) << by;
    }
  }
}

TEST(ProductTable, no_damage_gives_anything_but_an_error_or_a_table) {
  const std::string good = print(table());
  size_t num_refused = 0;
  const auto read = [&](const std::string& text) {
    try {
      const ProductTable parsed = parse_product_table(text, "here");
      EXPECT_EQ(parse_product_table(print(parsed), "here"), parsed);
    } catch (const InvalidArgument&) {
      ++num_refused;
    }
  };
  for (size_t length = 0; length < good.size() - 2; ++length) read(good.substr(0, length));
  EXPECT_EQ(num_refused, good.size() - 2) << "a shorter text is no table";
  std::mt19937 random(3);
  for (size_t at = 0; at < good.size(); ++at) {
    for (int i = 0; i < 8; ++i) {
      std::string text = good;
      text[at] = static_cast<char>(text[at] ^ 1 << i);
      read(text);
    }
    std::string text = good;
    const size_t from = random() % good.size();
    text.insert(at, good.substr(from, random() % 40));
    read(text);
    text = good;
    text.erase(at, 1 + random() % 40);
    read(text);
  }
}

}  // namespace
}  // namespace reprise::kernels
