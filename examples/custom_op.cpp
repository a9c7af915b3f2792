// An op of your own in a compiled model: its schema, its kernel, its shape function, and a name
// that `splitting_ops` may list. The op of this example clips numbers. It stays outside graphs,
// like a library call that cannot be captured.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "reprise/compile/pipeline.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/kernels/cpu_executor.h"
#include "reprise/kernels/isa.h"
#include "reprise/program/split.h"
#include "reprise/program/text.h"
#include "reprise/program/trace.h"
#include "reprise/tensor/custom_op.h"
#include "reprise/tensor/ops.h"

using namespace reprise;

namespace {

// The kernel of the op: one block per row. Its arguments are copied when a launch is recorded.
struct alignas(16) ClipArguments {
  const float* x;
  float* out;
  int64_t width;
};
void clip_rows(const void* arguments, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const ClipArguments*>(arguments);
  for (int64_t i = blocks.begin * a.width; i < blocks.end * a.width; ++i) {
    a.out[i] = std::clamp(a.x[i], -1.0F, 1.0F);
  }
}
constexpr device::Kernel kClipKernel{"clip", clip_rows};

const CustomOp kClip{
    .name = "example::clip",
    .num_inputs = 1,
    .infer_types = [](std::span<const Tensor> in,
                      std::span<TensorType> out) { out[0] = in[0].type(); },
    .launch_cpu =
        [](device::Stream& stream, std::span<const Tensor> in, std::span<const Tensor> out) {
          const ClipArguments arguments{
              in[0].data_as<float>(), out[0].data_as<float>(), in[0].size(1)};
          const device::BufferUse uses[] = {
              {in[0].data(), in[0].type().bytes(), device::BufferUse::Access::read},
              {out[0].data(), out[0].type().bytes(), device::BufferUse::Access::write}};
          stream.launch({.kernel = &kClipKernel,
                         .num_blocks = static_cast<uint32_t>(in[0].size(0)),
                         .args = std::as_bytes(std::span(&arguments, 1)),
                         .uses = uses});
        }};

}  // namespace

int main() {
  const auto device = device::create_cpu_device({});
  const auto stream = device->create_stream();
  const auto pool = device->create_pool();
  const auto isa = kernels::best_isa(device::detect_cpu_features());
  kernels::CpuExecutor executor(*stream, *pool, kernels::kernel_table(isa));

  // A model that uses the op between two other ops.
  std::vector<float> weights(64 * 64 + 64, 0.125F);
  const Tensor matrix = Tensor::borrow({DType::f32, {64, 64}}, weights.data(), executor);
  const Tensor norm = Tensor::borrow({DType::f32, {64}}, weights.data() + 64 * 64, executor);
  const auto model = [&](std::span<const Tensor> in) {
    const Tensor hidden = ops::linear(in[0], matrix);
    const Tensor clipped = ops::custom(kClip, {&hidden, 1}).front();
    return std::vector{ops::rms_norm(ops::add(in[0], clipped), norm, 1e-5F)};
  };

  // The model is traced once for any number of rows, split at the op, and rewritten by passes.
  program::TraceSignature signature;
  signature.inputs = {{"x", {DType::f32, {program::Symbol::num_tokens, 64}}}};
  signature.parameter_memory = {matrix.extent(), norm.extent()};
  const program::TracedProgram traced = program::trace(signature, model);
  const CustomOp* const mine[] = {&kClip};
  const std::vector<std::string> splitting_ops = {"example::clip"};
  program::SplitProgram pieces =
      program::split(traced.program, program::parse_splitting_ops(splitting_ops, mine));
  for (program::Program& piece : pieces.programs) (void)compile::make_pipeline({}).run(piece);
  for (const program::Piece& piece : pieces.pieces) {
    std::printf("%s\n%s\n",
                piece.is_splitting ? "outside graphs:" : "a graph of its own:",
                program::print(pieces.programs[piece.program]).c_str());
  }

  // The model's own code and the compiled pieces must give the same result.
  std::vector<float> x(3 * 64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3.0F;
  const std::vector<Tensor> inputs = {Tensor::borrow({DType::f32, {3, 64}}, x.data(), executor)};
  const Tensor expected = model(inputs).front();
  program::SplitInterpreter interpreter(pieces);
  const Tensor actual = interpreter.run(inputs, traced.slots, {.num_tokens = 3}, executor).front();
  stream->synchronize();
  const bool is_same = std::equal(
      expected.data_as<float>(), expected.data_as<float>() + 3 * 64, actual.data_as<float>());
  std::printf("%zu pieces, the same result as the model: %s\n",
              pieces.pieces.size(),
              is_same ? "yes" : "NO");
  return is_same && pieces.pieces.size() == 3 ? 0 : 1;
}
