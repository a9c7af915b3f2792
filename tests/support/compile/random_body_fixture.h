#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "reprise/program/program.h"

/// For tests of generated code only.
namespace reprise::compile {

inline constexpr std::array<int64_t, 8> kHeadWidths = {2, 6, 16, 30, 32, 64, 66, 128};

/// Makes a body of a few random ops over rows of a random width; some ops work on heads.
class RandomBody {
  using Node = program::Node;
  using NodeAttributes = program::NodeAttributes;
  using Program = program::Program;
  using Symbol = program::Symbol;
  using ValueId = program::ValueId;

 public:
  RandomBody(uint32_t seed, DType dtype) : random_(seed), dtype_(dtype) {
    head_ = kHeadWidths[random_() % kHeadWidths.size()];
    heads_ = 1 + static_cast<int64_t>(random_() % 3);
    width_ = head_ * heads_;
    if (random_() % 4 == 0) {  // one head, wide enough for a loop in the generated code
      heads_ = 1;
      width_ = head_ = 2 * (100 + static_cast<int64_t>(random_() % 400));
    }
    for (int i = 0; i < 2; ++i) rows_.push_back(input({Symbol::num_tokens, width_}));
  }

  Program make() {
    const size_t steps = 1 + random_() % 6;
    for (size_t i = 0; i < steps; ++i) add_step();
    const size_t outputs = 1 + random_() % 3;
    for (size_t i = 0; i < outputs; ++i) {
      body_.outputs.push_back(
          rows_[rows_.size() - 1 - random_() % std::min<size_t>(rows_.size(), 4)]);
    }
    return std::move(body_);
  }

 private:
  ValueId input(program::SymShape shape, DType dtype) {
    return body_.add_input(fmt::format("in{}", body_.inputs.size()), {dtype, shape});
  }
  ValueId input(program::SymShape shape) { return input(shape, dtype_); }
  ValueId add(OpCode op,
              std::vector<ValueId> inputs,
              program::SymShape shape,
              NodeAttributes attributes = {}) {
    const ValueId result = body_.add_value({dtype_, shape});
    body_.nodes.push_back({op, attributes, std::move(inputs), {result}});
    return result;
  }
  ValueId any_row() { return rows_[random_() % rows_.size()]; }
  [[nodiscard]] bool has_room() const { return body_.inputs.size() < 10; }

  void add_step() {
    const program::SymShape shape = {Symbol::num_tokens, width_};
    switch (random_() % (has_room() ? 8 : 2)) {
      default:
        return rows_.push_back(add(OpCode::add, {any_row(), any_row()}, shape));
      case 2:
        return rows_.push_back(
            add(OpCode::rms_norm, {any_row(), input({width_})}, shape, {.epsilon = 1e-5F}));
      case 3: {
        const ValueId normed = body_.add_value({dtype_, shape});
        const ValueId sum = body_.add_value({dtype_, shape});
        body_.nodes.push_back({OpCode::fused_add_rms_norm,
                               {.epsilon = 1e-6F},
                               {any_row(), any_row(), input({width_})},
                               {normed, sum}});
        rows_.push_back(normed);
        return rows_.push_back(sum);
      }
      case 4: {
        const ValueId ids = input({Symbol::num_tokens}, DType::i32);
        return rows_.push_back(add(OpCode::embedding, {ids, input({37, width_})}, shape));
      }
      case 5:
        return rows_.push_back(
            add(OpCode::silu_and_mul, {input({Symbol::num_tokens, 2 * width_})}, shape));
      case 6:
        return add_part();
      case 7:
        return add_heads();
    }
  }

  // Adds a part of a wider input, at a random offset.
  void add_part() {
    const ValueId wide = input({Symbol::num_tokens, width_ + 24});
    const auto begin = static_cast<int64_t>(random_() % 25);
    rows_.push_back(add(OpCode::slice,
                        {wide},
                        {Symbol::num_tokens, width_},
                        {.dim = 1, .begin = begin, .length = width_}));
  }

  // Adds ops on heads: norm, rotation or both.
  void add_heads() {
    const program::SymShape in_heads = {Symbol::num_tokens, heads_, head_};
    const auto split = [&] {
      return add(OpCode::unflatten, {any_row()}, in_heads, {.length = heads_});
    };
    ValueId q = split();
    ValueId k = split();
    const auto kind = random_() % 3;
    if (kind != 0) q = add(OpCode::rms_norm, {q, input({head_})}, in_heads, {.epsilon = 1e-6F});
    if (kind != 1) {
      const ValueId positions = input({Symbol::num_tokens}, DType::i32);
      const ValueId table = input({37, head_}, DType::f32);
      const ValueId q_turned = body_.add_value({dtype_, in_heads});
      const ValueId k_turned = body_.add_value({dtype_, in_heads});
      body_.nodes.push_back({OpCode::rope, {}, {q, k, positions, table}, {q_turned, k_turned}});
      q = q_turned;
      k = k_turned;
    }
    for (const ValueId value : {q, k}) {
      rows_.push_back(add(OpCode::flatten, {value}, {Symbol::num_tokens, width_}));
    }
  }

  std::mt19937 random_;
  DType dtype_;
  int64_t head_ = 0;
  int64_t heads_ = 0;
  int64_t width_ = 0;
  Program body_;
  std::vector<ValueId> rows_;  // [T, width]
};

}  // namespace reprise::compile
