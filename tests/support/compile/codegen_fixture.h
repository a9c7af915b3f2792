#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "reprise/compile/codegen/compiler_interface.h"
#include "reprise/device/device.h"
#include "reprise/kernels/cpu_executor.h"
#include "reprise/kernels/isa.h"
#include "reprise/kernels/row_group/row_group_arguments.h"
#include "reprise/program/object_code.h"
#include "reprise/program/program.h"

/// For tests and benchmarks of generated code only.
namespace reprise::compile {

/// The compiler for this instruction set, from the plug-in in the program's folder; nullptr if
/// there is none.
[[nodiscard]] std::unique_ptr<CompilerInterface> find_compiler(kernels::Isa isa);

/// The values that inputs get.
enum class Numbers : uint8_t {
  ordinary,  // normally distributed
  any_bits,  // NaNs, infinities, subnormals, numbers next to a rounding tie
};

/// How the rows of a tensor lie in memory.
enum class Rows : uint8_t { dense, strided };

/// Memory for one call of a body, and both ways to compute it.
class GroupBench {
 public:
  explicit GroupBench(kernels::Isa isa, uint32_t seed = 1);

  struct Options {
    int64_t num_rows = 1;     // value of every symbol that is a number of rows of an output
    int64_t table_rows = 37;  // value of the other symbols
    Numbers numbers = Numbers::ordinary;
    Rows rows = Rows::dense;
  };
  /// Makes new inputs with the body's types. Some ids are outside of every table.
  [[nodiscard]] std::vector<Tensor> make_inputs(const program::Program& body,
                                                const Options& options);
  /// Makes new outputs, filled with a pattern that no result contains.
  [[nodiscard]] std::vector<Tensor> make_outputs(const program::Program& body, int64_t num_rows);

  /// Runs the body op by op with the precompiled kernels of the instruction set.
  [[nodiscard]] std::vector<Tensor> interpret(const program::Program& body,
                                              std::span<const Tensor> inputs);
  [[nodiscard]] kernels::CpuExecutor& executor() noexcept { return executor_; }
  [[nodiscard]] device::Stream& stream() noexcept { return *stream_; }

 private:
  [[nodiscard]] Tensor make(const TensorType& type, Rows rows);
  [[nodiscard]] Tensor copy(const Tensor& tensor);
  void fill(const Tensor& tensor, Numbers numbers);

  std::mt19937 random_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::MemoryPool> pool_;
  kernels::CpuExecutor executor_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

/// The arguments of a call that computes all rows of the outputs.
[[nodiscard]] kernels::RowGroupArguments arguments_of(std::span<const Tensor> inputs,
                                                      std::span<const Tensor> outputs,
                                                      int64_t num_rows,
                                                      int64_t rows_per_block);

/// Describes the first difference in a sentence; empty if there is none. Two NaNs count as equal.
[[nodiscard]] std::string difference(const Tensor& got, const Tensor& want);

/// Makes a body by name: "add_rms_norm", "silu_and_mul", ... Its rows have `width` elements; in a
/// body with `heads`, each head has `width` elements.
struct BodyOptions {
  DType dtype = DType::bf16;
  int64_t width = 64;
  int64_t heads = 3;
  int64_t kv_heads = 2;
};
[[nodiscard]] std::span<const std::string_view> body_names();
[[nodiscard]] program::Program make_body(std::string_view name, const BodyOptions& options);

}  // namespace reprise::compile
