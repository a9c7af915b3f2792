#include "benchmarks/cuda_gemm.h"

#include <array>
#include <random>

namespace reprise::benchmark {
void fill_at_random(device::Stream& stream, const Tensor& tensor) {
  constexpr size_t kElements = (size_t{1} << 20) + 24;
  const bool has_codes = dtype_bytes(tensor.dtype()) == 1 || tensor.layout().has_codes();
  std::mt19937 random(5);
  std::uniform_int_distribution<uint32_t> mantissa(0, 0xff);
  std::vector<uint16_t> block(kElements);
  // Numbers from 0.5 to 2, positive and negative.
  for (uint16_t& element : block) {
    const uint32_t number = mantissa(random) + (random() % 2 << 15);
    element = static_cast<uint16_t>(has_codes ? 0x3838 + (number & 0x8787) : 0x3f00 + number);
  }
  const size_t bytes = tensor.type().bytes();
  for (size_t done = 0; done < bytes;) {
    const size_t now = std::min(bytes - done, kElements * sizeof(uint16_t));
    stream.copy_from_host(tensor.data_as<std::byte>() + done, block.data(), now);
    done += now;
  }
}

double product_seconds(const Gpu& gpu,
                       int64_t rows,
                       int64_t columns,
                       int64_t depth,
                       std::optional<PanelFormat> codec) {
  constexpr int kRepeats = 20;
  runner::Execution execution(*gpu.device, executor_of(gpu));
  device::Stream& stream = execution.stream();
  std::vector<device::Buffer> memory;
  const auto make = [&](const TensorType& type) {
    memory.push_back(gpu.device->allocate(type.bytes()));
    const Tensor tensor = Tensor::borrow(type, memory.back().data(), execution.executor());
    fill_at_random(stream, tensor);
    return tensor;
  };
  const WeightLayout layout = codec ? layout_of(*codec, depth) : WeightLayout();
  const bool has_int8_rows = activation_form(layout.family) == ActivationForm::int8_rows;
  const Tensor x = make({has_int8_rows ? DType::i8 : DType::bf16, {rows, depth}});
  const Tensor weight = make({DType::bf16, {columns, depth}, layout});
  const Tensor scale = has_int8_rows ? make({DType::f32, {rows}}) : Tensor();
  const auto multiply = [&] {
    for (int i = 0; i < kRepeats; ++i) {
      std::array<Tensor, 1> out;
      execution.executor().execute(
          {.code = OpCode::linear, .attributes = {}}, std::array{x, weight, Tensor(), scale}, out);
    }
    stream.synchronize();
  };
  multiply();
  std::vector<double> seconds;
  for (int i = 0; i < 7; ++i) seconds.push_back(seconds_of(multiply));
  return median(seconds) / kRepeats;
}

double gemm_peak(const Gpu& gpu) {
  const auto flops_of = [&](int64_t columns, int64_t depth) {
    constexpr int64_t kRows = 4096;
    const auto products = static_cast<double>(kRows * columns * depth);
    return 2.0 * products / product_seconds(gpu, kRows, columns, depth);
  };
  return std::max({flops_of(28672, 4096),   // gate and up
                   flops_of(4096, 14336),   // down
                   flops_of(6144, 4096)});  // q, k and v
}

}  // namespace reprise::benchmark
