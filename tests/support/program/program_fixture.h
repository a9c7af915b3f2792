#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "reprise/program/interpreter.h"
#include "reprise/program/program.h"
#include "reprise/tensor/op.h"

/// For tests of programs only.
namespace reprise::program {

/// Computes fingerprints instead of numbers: a tensor's content is a hash of the op that made it,
/// of the op's attributes and of the content of its operands. Writes into states and buffers change
/// the content in place, so lost, doubled or reordered effects change every later result. Runs
/// every program that type-checks, at any size, without allocating tensors.
class FingerprintExecutor final : public OpExecutor {
 public:
  void execute(const OpCall& call,
               std::span<const Tensor> inputs,
               std::span<Tensor> outputs) override;

  /// A tensor whose content is `seed`.
  [[nodiscard]] Tensor make(const TensorType& type, uint64_t seed);
  [[nodiscard]] static uint64_t content(const Tensor& tensor) {
    return *tensor.data_as<uint64_t>();
  }

  [[nodiscard]] size_t num_ops() const noexcept { return num_ops_; }

 private:
  std::deque<uint64_t> cells_;
  size_t num_ops_ = 0;
};

/// Fingerprints of the outputs of a run, then of the states.
[[nodiscard]] std::vector<uint64_t> fingerprints(const Program& program,
                                                 const SymbolValues& values);
/// The same for a program that is split into pieces. \pre `program` was split at these ops
[[nodiscard]] std::vector<uint64_t> split_fingerprints(const Program& program,
                                                       std::span<const OpCode> splitting_ops,
                                                       const SymbolValues& values);

struct RandomProgramOptions {
  DType dtype = DType::f32;
  bool collectives = true;  // ops that need several ranks
  bool fused = true;        // ops that only the compiler makes, and eight-bit ops
  int num_steps = 12;       // each step adds one op, or the few ops of an attention layer
};

/// Makes a well-formed program over a batch of tokens with the inputs of a decoder (input_ids,
/// positions, slot_mapping, query_start_loc, seq_lens, block_table, logits_indices, num_logits).
/// The program may contain every op, views of views, several writes and reads of one state, and
/// dead code. Equal seeds give equal programs.
[[nodiscard]] Program random_program(uint32_t seed, const RandomProgramOptions& options = {});

/// parse() for text with the indentation of a raw string.
[[nodiscard]] Program program_of(const std::string& text);

}  // namespace reprise::program
