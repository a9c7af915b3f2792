#include "reprise/program/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "reprise/program/verify.h"
#include "tests/support/program/program_fixture.h"

namespace reprise::program {
namespace {

using testing::HasSubstr;

constexpr const char* kLayer = R"(program {
  input %input_ids: i32[T]
  input %slot_mapping: i32[T]
  input %query_start_loc: i32[R+1]
  input %seq_lens: i32[R]
  input %block_table: i32[R, 4]
  parameter p0: bf16[97, 64]
  parameter p1: bf16[64]
  state s0: bf16[9, 2, 16, 16]
  state s1: bf16[9, 2, 16, 16]
  %0: bf16[T, 64] = embedding(%input_ids, p0)  // model.embed_tokens
  %1: bf16[T, 64] = rms_norm(%0, p1) {epsilon=1e-05}  // model.layers.0.input_layernorm
  %2: bf16[T, 32] = slice(%1) {dim=1, begin=32, length=32}
  %3: bf16[T, 2, 16] = unflatten(%2) {heads=2}
  %4: bf16[T, 2, 16] = empty()
  %5: s0, %6: s1 = kv_write(%3, %3, s0, s1, %slot_mapping)
  %7: bf16[T, 2, 16] = attention(%3, %5, %6, %query_start_loc, %seq_lens, %block_table, %4) {scale=0.25, sliding_window=8}
  %8: bf16[T, 32] = flatten(%7)
  return %8
  keep %5, %6
}
)";

TEST(ProgramText, prints_what_it_parsed) { EXPECT_EQ(print(program_of(kLayer)), kLayer); }

TEST(ProgramText, ignores_spaces_and_blank_lines) {
  EXPECT_EQ(print(parse("\n program  {\n\n\tinput %x :f32[ 2*T - 3,4 ]\r\nreturn %x\n}\n\n")),
            "program {\n  input %x: f32[2*T-3, 4]\n  return %x\n}\n");
}

TEST(ProgramText, numbers_values_by_position_not_by_id) {
  Program late;
  const ValueId unused_first = late.add_value({DType::f32, {Symbol::num_tokens, 8}});
  const ValueId x = late.add_input("x", {DType::f32, {Symbol::num_tokens, 8}});
  late.nodes.push_back({.op = OpCode::add, .inputs = {x, x}, .outputs = {unused_first}});
  late.outputs = {unused_first};
  EXPECT_EQ(print(late),
            "program {\n  input %x: f32[T, 8]\n  %0: f32[T, 8] = add(%x, %x)\n  return %0\n}\n");
}

TEST(ProgramText, writes_floats_so_that_they_come_back) {
  for (float epsilon : {1e-5F, 1e-6F, 0.1F, 1.0F / 3.0F, 1e-38F, 0.0F, 16777217.0F}) {
    Program program;
    const ValueId x = program.add_input("x", {DType::f32, {Symbol::num_tokens, 8}});
    const ValueId w = program.add_parameter({DType::f32, {8}});
    const ValueId y = program.add_value({DType::f32, {Symbol::num_tokens, 8}});
    program.nodes.push_back({.op = OpCode::rms_norm,
                             .attributes = {.epsilon = epsilon},
                             .inputs = {x, w},
                             .outputs = {y}});
    program.outputs = {y};
    EXPECT_EQ(parse(print(program)).nodes[0].attributes.epsilon, epsilon);
  }
}

TEST(ProgramText, keeps_the_layout_of_a_weight) {
  const std::string text =
      "program {\n"
      "  input %x: bf16[T, 64]\n"
      "  parameter p0: bf16_panels[32, 64]\n"
      "  parameter p1: bf16_blocks90[2, 16, 64]\n"
      "  parameter p2: bf16_f8e4m3_rows_panels[32, 64]\n"
      "  %0: bf16[T, 32] = linear(%x, p0)\n"
      "  return %0\n"
      "}\n";
  const Program program = parse(text);
  EXPECT_EQ(print(program), text);
  EXPECT_EQ(program.type(program.parameters[0]).layout, column_panels_layout());
  EXPECT_EQ(program.type(program.parameters[1]).layout, block_panels_layout(90));
  EXPECT_EQ(program.type(program.parameters[2]).layout.row_bytes, 64 + 4);
}

TEST(ProgramText, keeps_a_location_on_its_line) {
  Program program =
      parse("program {\n  input %x: f32[T]\n  %0: f32[T] = add(%x, %x)\n  return %0\n}\n");
  program.nodes[0].location = "  a // b\n  return %9\t";
  const std::string text = print(program);
  EXPECT_THAT(text, HasSubstr("add(%x, %x)  // a // b   return %9\n"));
  EXPECT_EQ(print(parse(text)), text);
}

TEST(ProgramText, of_equal_programs_is_equal_whatever_things_are_called) {
  const char* a =
      "program {\n input %x: f32[T, 8]\n %0: f32[T, 8] = add(%x, %x) // here\n return %0\n}";
  const char* b =
      "program {\n input %y: f32[T, 8]\n %0: f32[T, 8] = add(%y, %y) // there\n return %0\n}";
  EXPECT_NE(print(parse(a)), print(parse(b)));
  EXPECT_EQ(canonical_text(parse(a)), canonical_text(parse(b)));
}

struct BadText {
  const char* text;
  size_t line;
  size_t column;
  const char* message;
};

TEST(ProgramText, says_where_it_is_wrong) {
  const std::vector<BadText> cases = {
      {"", 1, 1, "expected 'program'"},
      {"graph {", 1, 6, "begins with"},
      {"program {\n", 2, 1, "expected an op"},
      {"program {\n  input %x: f32[T\n", 2, 18, "expected ']'"},
      {"program {\n  input %x: f31[T]\n", 2, 13, "'f31'"},
      {"program {\n  input %x: bf16_blocks0[4, 8]\n", 2, 13, "'blocks0'"},
      {"program {\n  input %x: bf16_panels[4, T]\n", 2, 13, "'panels'"},
      {"program {\n  input %x: bf16_panels[4]\n", 2, 13, "'panels'"},
      {"program {\n  input %x: f32[Q]\n", 2, 17, "'Q'"},
      {"program {\n  input %x: f32[1, 2, 3, 4, 5]\n", 2, 28, "more than 4"},
      {"program {\n  input %x: f32[2147483648]\n", 2, 17, "above"},
      {"program {\n  input %x: f32[99999999999999999999]\n", 2, 17, "is not a number"},
      {"program {\n  input %7: f32[T]\n", 2, 10, "begins with a letter"},
      {"program {\n  input %x: f32[T]\n  input %x: f32[T]\n", 3, 10, "defined twice"},
      {"program {\n  parameter p1: f32[T]\n", 2, 13, "expected p0"},
      {"program {\n  return %x\n}", 2, 10, "%x is not defined"},
      {"program {\n  %0: f32[T] = add(%0, %0)\n", 2, 20, "%0 is not defined"},
      {"program {\n  %1: f32[T] = empty()\n", 2, 3, "expected %0"},
      {"program {\n  %0: f32[T] = conv()\n", 2, 16, "'conv'"},
      {"program {\n  %0: f32[T] = empty() {dim=1}\n", 2, 25, "no attribute 'dim'"},
      {"program {\n  %0: f32[T] = activation(none) {function=tanh}\n", 2, 43, "'tanh'"},
      {"program {\n  %0: f32[T] = empty() /x\n", 2, 25, "expected '/'"},
      {"program {\n  return\n} x", 3, 3, "after the program"},
      {"program {\n  state s0: f32[T]\n  return\n}", 4, 1, "'keep'"},
  };
  for (const BadText& bad : cases) {
    SCOPED_TRACE(bad.text);
    try {
      (void)parse(bad.text);
      FAIL() << "was accepted";
    } catch (const ProgramSyntaxError& error) {
      EXPECT_THAT(error.what(), HasSubstr(bad.message));
      EXPECT_EQ(error.line(), bad.line) << error.what();
      EXPECT_EQ(error.column(), bad.column) << error.what();
    }
  }
}

TEST(ProgramText, refuses_attributes_twice_or_not_finite) {
  const std::string begin =
      "program {\n  input %x: f32[T, 8]\n  parameter p0: f32[8]\n  %0: f32[T, 8] = rms_norm(%x, "
      "p0) ";
  EXPECT_THROW((void)parse(begin + "{epsilon=1, epsilon=2}\n"), ProgramSyntaxError);
  EXPECT_THROW((void)parse(begin + "{epsilon=nan}\n"), ProgramSyntaxError);
  EXPECT_THROW((void)parse(begin + "{epsilon=1e99}\n"), ProgramSyntaxError);
  EXPECT_THROW((void)parse(begin + "{epsilon=}\n"), ProgramSyntaxError);
}

// For any text, parse() returns a program or throws ProgramSyntaxError, verify() returns, and the
// text of a parsed program can be parsed again.
TEST(ProgramText, survives_mutations) {
  std::mt19937 random(1);
  const std::string alphabet = std::string("%ps01234T+-*[]{}(),:=/ \n\t\r_x\x7f\xff") + '\0';
  int num_parsed = 0;
  int num_well_formed = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = kLayer;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text.erase(at, 1 + random() % 8);
          break;
        case 1:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
        case 2:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
      }
    }
    try {
      const Program program = parse(text);
      ++num_parsed;
      const std::string printed = print(program);
      ASSERT_EQ(print(parse(printed)), printed) << text;
      if (!verify(program)) ++num_well_formed;
    } catch (const ProgramSyntaxError&) {  // NOLINT(bugprone-empty-catch): one of the two ends
    }
  }
  EXPECT_GT(num_parsed, 500);
  EXPECT_GT(num_well_formed, 100);
  EXPECT_LT(num_well_formed, num_parsed);
}

}  // namespace
}  // namespace reprise::program
