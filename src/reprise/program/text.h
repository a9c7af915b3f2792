#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/program/program.h"

/// The text form of programs:
///
///     program {
///       input %input_ids: i32[T]
///       input %slot_mapping: i32[T]
///       parameter p0: bf16[97, 64]
///       state s0: bf16[9, 2, 16, 16]
///       %0: bf16[T, 64] = embedding(%input_ids, p0)  // model.embed_tokens
///       %1: bf16[T, 64] = rms_norm(%0, p1) {epsilon=1e-05}
///       %7: s0, %8: s1 = kv_write(%5, %6, s0, s1, %slot_mapping)
///       return %9
///       keep %7, %8
///     }
///
/// A program with groups starts with them. A group is printed as a program: `group g0 { input ...
/// return ... }`. A custom op has its own name, `namespace::op`.
///
/// Inputs, parameters, states and results are numbered in order. `none` stands for an operand that
/// is left out. `keep` lists the last version of each state.
namespace reprise::program {

/// The text does not follow the grammar of programs.
class ProgramSyntaxError : public InvalidArgument {
 public:
  ProgramSyntaxError(size_t line, size_t column, const std::string& message);

  [[nodiscard]] size_t line() const noexcept { return line_; }      // from 1
  [[nodiscard]] size_t column() const noexcept { return column_; }  // from 1, in bytes

 private:
  size_t line_;
  size_t column_;
};

/// The text of a program. Values are numbered anew, so programs that differ only in ValueIds have
/// the same text. print(parse(print(p))) == print(p).
[[nodiscard]] std::string print(const Program& program);

/// print() without the names of inputs and without locations, because neither changes what the
/// program computes. Programs with equal canonical texts can share code.
[[nodiscard]] std::string canonical_text(const Program& program);

/// Reads the text that print() writes. The result is not verified, see verify(). Custom ops are
/// looked up by name in `custom_ops`, which must outlive the program.
/// \throws ProgramSyntaxError
[[nodiscard]] Program parse(std::string_view text,
                            std::span<const CustomOp* const> custom_ops = {});

}  // namespace reprise::program
