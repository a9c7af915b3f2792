#include "reprise/program/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reprise/program/text.h"
#include "tests/support/program/program_fixture.h"

namespace reprise::program {
namespace {

using testing::HasSubstr;

std::string violation_of(const std::string& body) {
  return verify(parse("program {\n" + body + "}\n")).value_or("");
}

constexpr const char* kCaches = R"(
  input %k: bf16[T, 2, 16]
  input %slots: i32[T]
  input %starts: i32[R+1]
  input %lens: i32[R]
  input %blocks: i32[R, 4]
  buffer %b: bf16[T, 2, 16]
  parameter p0: bf16[9, 2, 16, 16]
  state s0: bf16[9, 2, 16, 16]
  state s1: bf16[9, 2, 16, 16]
)";

TEST(Verify, accepts_writes_and_reads_in_order) {
  EXPECT_EQ(violation_of(std::string(kCaches) + R"(
  %0: bf16[T, 2, 16] = attention(%k, s0, s1, %starts, %lens, %blocks, %b) {scale=1}
  %1: s0, %2: s1 = kv_write(%0, %k, s0, s1, %slots)
  %3: bf16[T, 2, 16] = empty()
  %4: bf16[T, 2, 16] = attention(%k, %1, %2, %starts, %lens, %blocks, %3) {scale=1}
  %5: s0, %6: s1 = kv_write(%4, %k, %1, %2, %slots)
  return %4
  keep %5, %6
)"),
            "");
}

TEST(Verify, refuses_a_read_of_state_that_was_overwritten) {
  EXPECT_THAT(violation_of(std::string(kCaches) + R"(
  %0: s0, %1: s1 = kv_write(%k, %k, s0, s1, %slots)
  %2: bf16[T, 2, 16] = attention(%k, s0, %1, %starts, %lens, %blocks, %b) {scale=1}
  return %2
  keep %0, %1
)"),
              HasSubstr("op 1 (attention): operand 1 is not the current version of state s0"));
}

TEST(Verify, refuses_two_writes_of_one_version) {
  EXPECT_THAT(violation_of(std::string(kCaches) + R"(
  %0: s0, %1: s1 = kv_write(%k, %k, s0, s1, %slots)
  %2: s0, %3: s1 = kv_write(%k, %k, s0, s1, %slots)
  return %k
  keep %2, %3
)"),
              HasSubstr("op 1 (kv_write): operand 2 is not the current version"));
  EXPECT_THAT(violation_of(std::string(kCaches) + R"(
  %0: s0, %1: s0 = kv_write(%k, %k, s0, s0, %slots)
  return %k
  keep %1, s1
)"),
              HasSubstr("result 1 is not the next version"));
}

TEST(Verify, refuses_a_write_that_is_not_kept) {
  EXPECT_THAT(violation_of(std::string(kCaches) + R"(
  %0: s0, %1: s1 = kv_write(%k, %k, s0, s1, %slots)
  return %k
  keep s0, s1
)"),
              HasSubstr("keep: must name the last version"));
  EXPECT_THAT(violation_of(std::string(kCaches) + "return %k\nkeep s0\n"), HasSubstr("keep:"));
}

TEST(Verify, refuses_state_where_a_value_belongs_and_values_where_state_does) {
  EXPECT_THAT(violation_of(std::string(kCaches) + R"(
  %0: bf16[9, 2, 16, 16] = add(s0, s0)
  return %0
  keep s0, s1
)"),
              HasSubstr("operand 0 must not be state"));
  EXPECT_THAT(violation_of(std::string(kCaches) + R"(
  %0: bf16[T, 2, 16] = attention(%k, p0, p0, %starts, %lens, %blocks, %b) {scale=1}
  return %0
  keep s0, s1
)"),
              HasSubstr("operand 1 must be state"));
  EXPECT_THAT(violation_of(std::string(kCaches) + "return s0\nkeep s0, s1\n"),
              HasSubstr("return:"));
}

TEST(Verify, refuses_to_overwrite_what_is_used_elsewhere) {
  EXPECT_THAT(violation_of(std::string(kCaches) + R"(
  %0: bf16[T, 2, 16] = attention(%k, s0, s1, %starts, %lens, %blocks, %k) {scale=1}
  return %0
  keep s0, s1
)"),
              HasSubstr("must be a buffer or a fresh empty"));
  EXPECT_THAT(violation_of(std::string(kCaches) + R"(
  %0: bf16[T, 2, 16] = empty()
  %1: bf16[T, 2, 16] = attention(%k, s0, s1, %starts, %lens, %blocks, %0) {scale=1}
  %2: bf16[T, 2, 16] = add(%0, %1)
  return %2
  keep s0, s1
)"),
              HasSubstr("overwritten and used elsewhere"));
}

TEST(Verify, refuses_types_that_the_op_does_not_give) {
  EXPECT_THAT(violation_of("input %x: f32[T, 8]\n%0: f32[T, 9] = add(%x, %x)\nreturn %0\n"),
              HasSubstr("the result is float32[7, 8], not float32[7, 9]"));
  EXPECT_THAT(
      violation_of(
          "input %x: f32[T, 8]\ninput %y: f32[R, 8]\n%0: f32[T, 8] = add(%x, %y)\nreturn %0\n"),
      HasSubstr("wrong shape of b with T=7, R=3, L=2"));
}

TEST(Verify, refuses_a_function_that_the_op_does_not_have) {
  const std::string begin = "input %x: f32[T, 8]\n%0: f32[T, 4] = activation_and_mul(%x)";
  EXPECT_EQ(violation_of(begin + " {function=gelu}\nreturn %0\n"), "");
  EXPECT_THAT(violation_of(begin + " {function=relu}\nreturn %0\n"), HasSubstr("no such function"));
  EXPECT_THAT(violation_of(begin + "\nreturn %0\n"), HasSubstr("no such function"));
}

TEST(Verify, refuses_what_fits_only_some_sizes) {
  // The types fit for T = 7 and R = 3, because R+4 is then T. They fit for no other sizes.
  EXPECT_THAT(
      violation_of(
          "input %x: f32[T, 8]\ninput %y: f32[R+4, 8]\n%0: f32[T, 8] = add(%x, %y)\nreturn %0\n"),
      HasSubstr("T=1031"));
  EXPECT_THAT(
      violation_of(
          "input %x: f32[T, 8]\n%0: f32[2, 8] = slice(%x) {dim=0, begin=0, length=2}\nreturn %0\n"),
      HasSubstr("the slice leaves the tensor with T=1"));
}

TEST(Verify, refuses_to_flatten_heads_that_lie_apart) {
  EXPECT_THAT(violation_of(R"(
  input %x: f32[T, 4, 16]
  %0: f32[T, 4, 8] = slice(%x) {dim=2, begin=0, length=8}
  %1: f32[T, 32] = flatten(%0)
  return %1
)"),
              HasSubstr("adjacent heads"));
}

TEST(Verify, refuses_sizes_that_no_tensor_has) {
  EXPECT_THAT(violation_of("input %x: f32[T-9]\nreturn %x\n"), HasSubstr("negative size"));
  EXPECT_THAT(
      violation_of("input %x: f32[2000000000, 2000000000, 2000000000, 2000000000]\nreturn %x\n"),
      HasSubstr("too large"));
}

TEST(Verify, refuses_wrong_numbers_of_operands_and_results) {
  EXPECT_THAT(violation_of("input %x: f32[T, 8]\n%0: f32[T, 8] = add(%x)\nreturn %0\n"),
              HasSubstr("takes 2 operands, not 1"));
  EXPECT_THAT(violation_of("input %x: f32[T, 8]\nadd(%x, %x)\nreturn %x\n"),
              HasSubstr("has 1 results, not 0"));
  EXPECT_THAT(violation_of("input %x: f32[T, 8]\n%0: f32[T, 8] = add(%x, none)\nreturn %0\n"),
              HasSubstr("operand 1 must not be left out"));
}

TEST(Verify, refuses_broken_ids) {
  const ValueType type{DType::f32, {Symbol::num_tokens, 8}};
  Program good;
  const ValueId x = good.add_input("x", type);
  const ValueId y = good.add_value(type);
  good.nodes.push_back({.op = OpCode::add, .inputs = {x, x}, .outputs = {y}});
  good.outputs = {y};
  ASSERT_EQ(verify(good).value_or(""), "");

  Program early = good;
  early.nodes[0].inputs[0] = y;
  EXPECT_THAT(verify(early).value_or(""), HasSubstr("used before it is defined"));
  Program twice = good;
  twice.nodes.push_back(twice.nodes[0]);
  EXPECT_THAT(verify(twice).value_or(""), HasSubstr("defined twice"));
  Program nowhere = good;
  nowhere.nodes[0].inputs[0] = ValueId{77};
  EXPECT_THAT(verify(nowhere).value_or(""), HasSubstr("does not exist"));
  Program loose = good;
  (void)loose.add_value(type);
  EXPECT_THAT(verify(loose).value_or(""), HasSubstr("never defined"));
  Program idle = good;
  idle.nodes[0].attributes.scale = 2;
  EXPECT_THAT(verify(idle).value_or(""), HasSubstr("does not read"));
  Program returned = good;
  returned.outputs = {returned.add_parameter(type)};
  EXPECT_THAT(verify(returned).value_or(""), HasSubstr("a parameter is not a result"));
  EXPECT_THROW(check(returned), ProgramError);
}

TEST(SymInt, is_found_by_two_samples_and_confirmed_by_the_third) {
  const auto fitted = [](int64_t a, int64_t b, int64_t c) {
    const std::array samples = {
        SizeSample{a, {7, 3, 2}}, SizeSample{b, {1031, 5, 3}}, SizeSample{c, {131, 11, 13}}};
    const std::optional<SymInt> found = fit(samples);
    return found ? found->to_string() : "none";
  };
  EXPECT_EQ(fitted(64, 64, 64), "64");
  EXPECT_EQ(fitted(7, 1031, 131), "T");
  EXPECT_EQ(fitted(4, 6, 12), "R+1");
  EXPECT_EQ(fitted(2, 3, 13), "L");
  EXPECT_EQ(fitted(18, 2066, 266), "2*T+4");
  EXPECT_EQ(fitted(7, 1031, 7), "none");
  EXPECT_EQ(fitted(3, 515, 65), "none");  // T / 2
}

}  // namespace
}  // namespace reprise::program
