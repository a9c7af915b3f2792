#include "tests/support/compile/codegen_fixture.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "reprise/compile/codegen/plugin.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/program/interpreter.h"
#include "reprise/program/text.h"
#include "tests/support/kernels/reference.h"

namespace reprise::compile {
namespace {

using program::Program;
using program::SymbolValues;

constexpr size_t kAlignment = 64;

SymbolValues symbols_of(const Program& body, const GroupBench::Options& options) {
  SymbolValues values = {options.table_rows, options.table_rows, options.table_rows};
  values[body.type(body.outputs.front()).shape[0].symbol()] = options.num_rows;
  return values;
}

bool is_nan(uint64_t bits, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return (bits & 0x7fffffffU) > 0x7f800000U;
    case DType::bf16:
      return (bits & 0x7fffU) > 0x7f80U;
    case DType::f16:
      return (bits & 0x7fffU) > 0x7c00U;
    default:
      return false;
  }
}

uint64_t bits_at(const Tensor& tensor, int64_t row, int64_t head, int64_t column) {
  const size_t bytes = dtype_bytes(tensor.dtype());
  int64_t offset = row * tensor.stride(0) + column;
  if (tensor.rank() == 3) offset += head * tensor.stride(1);
  uint64_t bits = 0;
  std::memcpy(&bits, tensor.data_as<std::byte>() + static_cast<size_t>(offset) * bytes, bytes);
  return bits;
}

uint32_t any_float_bits(std::mt19937& random) {
  static constexpr std::array<uint32_t, 12> kSpecial = {0x00000000,
                                                        0x80000000,
                                                        0x7f800000,
                                                        0xff800000,
                                                        0x7fc00000,
                                                        0x7f800001,
                                                        0xff812345,
                                                        0x00000001,
                                                        0x807fffff,
                                                        0x7f7fffff,
                                                        0x00800000,
                                                        0x7fffffff};
  switch (random() % 8) {
    case 0:
      return kSpecial[random() % kSpecial.size()];
    case 1:
      return random();
    case 2:  // subnormal numbers
      return random() & 0x807fffffU;
    default: {  // ordinary numbers
      std::normal_distribution<float> normal(0.0F, 2.0F);
      return std::bit_cast<uint32_t>(normal(random));
    }
  }
}

uint16_t any_half_bits(std::mt19937& random, DType dtype) {
  if (dtype == DType::bf16) return static_cast<uint16_t>(any_float_bits(random) >> 16);
  if (random() % 4 != 0) {  // a number within a few powers of two around 1
    return static_cast<uint16_t>((random() & 0x83ffU) | ((13 + random() % 4) << 10));
  }
  return static_cast<uint16_t>(random());
}

}  // namespace

std::unique_ptr<CompilerInterface> find_compiler(kernels::Isa isa) {
  return load_codegen_plugin(default_codegen_plugin_paths(), isa).compiler;
}

GroupBench::GroupBench(kernels::Isa isa, uint32_t seed)
    : random_(seed),
      device_(device::create_cpu_device({.num_threads = 1, .pin_threads = false})),
      stream_(device_->create_stream()),
      pool_(device_->create_pool()),
      executor_(*stream_, *pool_, kernels::kernel_table(isa)) {}

Tensor GroupBench::make(const TensorType& type, Rows rows) {
  Shape shape = type.shape;  // shape of the memory that contains the tensor
  if (rows == Rows::strided) {
    for (int dim = 1; dim < shape.rank(); ++dim) shape[dim] += 2 * dim + 1;
  }
  const size_t bytes = TensorType{type.dtype, shape}.bytes();
  memory_.push_back(std::make_unique<std::byte[]>(bytes + 2 * kAlignment));
  std::memset(memory_.back().get(), 0xff, bytes + 2 * kAlignment);
  const auto address = reinterpret_cast<uintptr_t>(memory_.back().get());
  void* data = reinterpret_cast<void*>((address + kAlignment - 1) / kAlignment * kAlignment);
  const Tensor around = Tensor::borrow({type.dtype, shape}, data, executor_);
  return around.with_layout(type.shape, around.strides(), 0);
}

void GroupBench::fill(const Tensor& tensor, Numbers numbers) {
  std::normal_distribution<double> normal(0.0, 1.0);
  const int64_t heads = tensor.rank() == 3 ? tensor.size(1) : 1;
  const int64_t rows = tensor.rank() == 1 ? 1 : tensor.size(0);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t i = 0; i < tensor.size(-1); ++i) {
        int64_t offset = i;
        if (tensor.rank() > 1) offset += row * tensor.stride(0);
        if (tensor.rank() == 3) offset += head * tensor.stride(1);
        if (tensor.dtype() == DType::f32) {
          tensor.data_as<uint32_t>()[offset] =
              numbers == Numbers::any_bits
                  ? any_float_bits(random_)
                  : std::bit_cast<uint32_t>(static_cast<float>(normal(random_)));
        } else if (numbers == Numbers::any_bits) {
          tensor.data_as<uint16_t>()[offset] = any_half_bits(random_, tensor.dtype());
        } else {
          const Tensor element = tensor.with_layout({1}, {1}, offset);
          kernels::set_element(element, normal(random_), 0);
        }
      }
    }
  }
}

std::vector<Tensor> GroupBench::make_inputs(const Program& body, const Options& options) {
  const SymbolValues symbols = symbols_of(body, options);
  std::vector<Tensor> inputs;
  for (const auto& input : body.inputs) {
    const TensorType type = body.type(input.value).evaluate(symbols);
    Tensor tensor = make(type, type.shape.rank() > 1 ? options.rows : Rows::dense);
    if (type.dtype == DType::i32) {
      for (int64_t i = 0; i < tensor.size(0); ++i) {
        const auto inside = static_cast<int32_t>(random_() % 37);
        tensor.data_as<int32_t>()[i] =
            random_() % 8 == 0 ? static_cast<int32_t>(random_()) : inside;
      }
    } else {
      fill(tensor, options.numbers);
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

std::vector<Tensor> GroupBench::make_outputs(const Program& body, int64_t num_rows) {
  const SymbolValues symbols = symbols_of(body, {.num_rows = num_rows});
  std::vector<Tensor> outputs;
  for (const program::ValueId output : body.outputs) {
    outputs.push_back(make(body.type(output).evaluate(symbols), Rows::dense));
  }
  return outputs;
}

std::vector<Tensor> GroupBench::interpret(const Program& body, std::span<const Tensor> inputs) {
  program::Interpreter interpreter(body);
  std::vector<Tensor> outputs = interpreter.run(inputs, {}, executor_);
  stream_->synchronize();
  for (Tensor& output : outputs) output = copy(output);
  return outputs;
}

// An output may be a view of an input, and the test may overwrite the input: copy it.
Tensor GroupBench::copy(const Tensor& tensor) {
  const Tensor result = make(tensor.type(), Rows::dense);
  const size_t bytes = dtype_bytes(tensor.dtype());
  const int64_t heads = tensor.rank() == 3 ? tensor.size(1) : 1;
  for (int64_t row = 0; row < tensor.size(0); ++row) {
    for (int64_t head = 0; head < heads; ++head) {
      const auto place = [&](const Tensor& of) {
        const int64_t offset = row * of.stride(0) + (of.rank() == 3 ? head * of.stride(1) : 0);
        return of.data_as<std::byte>() + static_cast<size_t>(offset) * bytes;
      };
      std::memcpy(place(result), place(tensor), static_cast<size_t>(tensor.size(-1)) * bytes);
    }
  }
  return result;
}

kernels::RowGroupArguments arguments_of(std::span<const Tensor> inputs,
                                        std::span<const Tensor> outputs,
                                        int64_t num_rows,
                                        int64_t rows_per_block) {
  kernels::RowGroupArguments arguments = {
      .rows = num_rows, .rows_per_block = rows_per_block, .operands = {}};
  size_t next = 0;
  for (const std::span<const Tensor> tensors : {inputs, outputs}) {
    for (const Tensor& tensor : tensors) {
      arguments.operands[next++] = {.data = tensor.data(),
                                    .rows = tensor.size(0),
                                    .row_stride = tensor.stride(0),
                                    .inner_stride = tensor.rank() == 3 ? tensor.stride(1) : 0};
    }
  }
  return arguments;
}

std::string difference(const Tensor& got, const Tensor& want) {
  if (got.type() != want.type()) {
    return fmt::format("{} instead of {}", got.type().to_string(), want.type().to_string());
  }
  const int64_t heads = got.rank() == 3 ? got.size(1) : 1;
  for (int64_t row = 0; row < got.size(0); ++row) {
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t column = 0; column < got.size(-1); ++column) {
        const uint64_t a = bits_at(got, row, head, column);
        const uint64_t b = bits_at(want, row, head, column);
        if (a == b || (is_nan(a, got.dtype()) && is_nan(b, got.dtype()))) continue;
        return fmt::format("[{}, {}, {}] of {} is {:#x} instead of {:#x}",
                           row,
                           head,
                           column,
                           got.type().to_string(),
                           a,
                           b);
      }
    }
  }
  return {};
}

// ---- bodies

namespace {

struct NamedBody {
  std::string_view name;
  std::string_view text;  // D: dtype, W: width, 2W, 3W; Q, K: heads; N: width of q, k and v
};

constexpr std::array kBodies = {
    NamedBody{"add_rms_norm", R"(program {
      input %x: $D[T, $W]
      input %residual: $D[T, $W]
      input %weight: $D[$W]
      %0: $D[T, $W] = add(%residual, %x)
      %1: $D[T, $W] = rms_norm(%0, %weight) {epsilon=1e-06}
      return %1, %0
    })"},
    NamedBody{"add_rms_norm_alone", R"(program {
      input %x: $D[T, $W]
      input %residual: $D[T, $W]
      input %weight: $D[$W]
      %0: $D[T, $W] = add(%residual, %x)
      %1: $D[T, $W] = rms_norm(%0, %weight) {epsilon=1e-06}
      return %1
    })"},
    NamedBody{"fused_add_rms_norm", R"(program {
      input %x: $D[T, $W]
      input %residual: $D[T, $W]
      input %weight: $D[$W]
      %0: $D[T, $W], %1: $D[T, $W] = fused_add_rms_norm(%x, %residual, %weight) {epsilon=1e-05}
      return %0, %1
    })"},
    NamedBody{"rms_norm", R"(program {
      input %x: $D[T, $W]
      input %weight: $D[$W]
      %0: $D[T, $W] = rms_norm(%x, %weight) {epsilon=1e-06}
      return %0
    })"},
    NamedBody{"embedding_rms_norm", R"(program {
      input %ids: i32[T]
      input %table: $D[37, $W]
      input %weight: $D[$W]
      %0: $D[T, $W] = embedding(%ids, %table)
      %1: $D[T, $W] = rms_norm(%0, %weight) {epsilon=1e-06}
      return %0, %1
    })"},
    NamedBody{"gather_rows_rms_norm", R"(program {
      input %x: $D[T, $W]
      input %indices: i32[L]
      input %weight: $D[$W]
      %0: $D[L, $W] = gather_rows(%x, %indices)
      %1: $D[L, $W] = rms_norm(%0, %weight) {epsilon=1e-06}
      return %1
    })"},
    NamedBody{"silu_and_mul", R"(program {
      input %x: $D[T, $2W]
      %0: $D[T, $W] = silu_and_mul(%x)
      return %0
    })"},
    NamedBody{"silu_and_mul_rms_norm", R"(program {
      input %x: $D[T, $2W]
      input %y: $D[T, $2W]
      input %weight: $D[$W]
      %0: $D[T, $2W] = add(%x, %y)
      %1: $D[T, $W] = silu_and_mul(%0)
      %2: $D[T, $W] = rms_norm(%1, %weight) {epsilon=1e-06}
      return %2
    })"},
    NamedBody{"add_chain", R"(program {
      input %a: $D[T, $W]
      input %b: $D[T, $W]
      input %c: $D[T, $W]
      %0: $D[T, $W] = add(%a, %b)
      %1: $D[T, $W] = add(%0, %c)
      %2: $D[T, $W] = add(%1, %1)
      %3: $D[T, $W] = add(%2, %a)
      return %3
    })"},
    NamedBody{"add_add", R"(program {
      input %a: $D[T, $W]
      input %b: $D[T, $W]
      input %c: $D[T, $W]
      %0: $D[T, $W] = add(%a, %b)
      %1: $D[T, $W] = add(%0, %c)
      return %1
    })"},
    NamedBody{"norm_of_norm", R"(program {
      input %a: $D[T, $W]
      input %weight: $D[$W]
      %0: $D[T, $W] = rms_norm(%a, %weight) {epsilon=1e-06}
      %1: $D[T, $W] = rms_norm(%0, %weight) {epsilon=1e-06}
      %2: $D[T, $W] = add(%1, %a)
      return %0, %2
    })"},
    NamedBody{"rope", R"(program {
      input %q: $D[T, $Q, $2W]
      input %k: $D[T, $K, $2W]
      input %positions: i32[T]
      input %cos_sin: f32[37, $2W]
      %0: $D[T, $Q, $2W], %1: $D[T, $K, $2W] = rope(%q, %k, %positions, %cos_sin)
      return %0, %1
    })"},
    NamedBody{"qk_norm_rope", R"(program {
      input %qkv: $D[T, $N]
      input %q_weight: $D[$2W]
      input %k_weight: $D[$2W]
      input %positions: i32[T]
      input %cos_sin: f32[37, $2W]
      %0: $D[T, $Q2W] = slice(%qkv) {dim=1, begin=0, length=$Q2W}
      %1: $D[T, $K2W] = slice(%qkv) {dim=1, begin=$Q2W, length=$K2W}
      %2: $D[T, $Q, $2W] = unflatten(%0) {heads=$Q}
      %3: $D[T, $K, $2W] = unflatten(%1) {heads=$K}
      %4: $D[T, $Q, $2W] = rms_norm(%2, %q_weight) {epsilon=1e-06}
      %5: $D[T, $K, $2W] = rms_norm(%3, %k_weight) {epsilon=1e-06}
      %6: $D[T, $Q, $2W], %7: $D[T, $K, $2W] = rope(%4, %5, %positions, %cos_sin)
      return %6, %7
    })"},
    NamedBody{"qk_norm_rope_of_views", R"(program {
      input %q: $D[T, $Q, $2W]
      input %k: $D[T, $K, $2W]
      input %q_weight: $D[$2W]
      input %k_weight: $D[$2W]
      input %positions: i32[T]
      input %cos_sin: f32[37, $2W]
      %0: $D[T, $Q, $2W] = rms_norm(%q, %q_weight) {epsilon=1e-06}
      %1: $D[T, $K, $2W] = rms_norm(%k, %k_weight) {epsilon=1e-06}
      %2: $D[T, $Q, $2W], %3: $D[T, $K, $2W] = rope(%0, %1, %positions, %cos_sin)
      %4: $D[T, $Q2W] = flatten(%2)
      return %4, %3
    })"},
};

constexpr std::array kNames = [] {
  std::array<std::string_view, kBodies.size()> names;
  for (size_t i = 0; i < kBodies.size(); ++i) names[i] = kBodies[i].name;
  return names;
}();

std::string replace_all(std::string text, std::string_view from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

std::span<const std::string_view> body_names() { return kNames; }

Program make_body(std::string_view name, const BodyOptions& options) {
  for (const NamedBody& body : kBodies) {
    if (body.name != name) continue;
    const int64_t head = 2 * options.width;
    std::string text(body.text);
    text = replace_all(text, "$Q2W", std::to_string(options.heads * head));
    text = replace_all(text, "$K2W", std::to_string(options.kv_heads * head));
    text = replace_all(text, "$2W", std::to_string(head));
    text = replace_all(text, "$W", std::to_string(options.width));
    text = replace_all(text, "$Q", std::to_string(options.heads));
    text = replace_all(text, "$K", std::to_string(options.kv_heads));
    text = replace_all(text, "$N", std::to_string((options.heads + 2 * options.kv_heads) * head));
    text = replace_all(text, "$D", std::string(program::short_name(options.dtype)));
    return program::parse(text);
  }
  throw std::out_of_range(std::string(name));
}

}  // namespace reprise::compile
