// Mutates the tensors and the configuration of quantised checkpoints. Every mutation is either read
// or refused with a named error, and no reader allocates much more than the size of the tensors.
//
//     quantized_mutation_test --mutations=1000000    a long run

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/codecs/bitsandbytes_matrix.h"
#include "reprise/weights/codecs/gptq_matrix.h"
#include "reprise/weights/codecs/nvfp4_matrix.h"
#include "reprise/weights/codecs/packed_matrix.h"
#include "reprise/weights/codecs/scaled_matrix.h"
#include "reprise/weights/files/safetensors.h"
#include "tests/support/source_dir.h"
#include "tests/support/weights/memory_weights.h"

namespace {

// The cases have less than 50 KB; the values of a matrix of four bits take eight times its bytes.
constexpr size_t kLargestAllocation = size_t{4} << 20;

void* allocate(size_t bytes) {
  if (bytes > kLargestAllocation) std::abort();
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);  // NOLINT
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return allocate(bytes); }
void* operator new[](size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }            // NOLINT
void operator delete[](void* memory) noexcept { std::free(memory); }          // NOLINT
void operator delete(void* memory, size_t) noexcept { std::free(memory); }    // NOLINT
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }  // NOLINT

namespace reprise::weights {
namespace {

using Random = std::mt19937_64;

struct Stored {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};
using Tensors = std::map<std::string, Stored>;

struct Case {
  Tensors tensors;
  QuantizationConfig config;
};

uint64_t below(Random& random, uint64_t bound) { return random() % bound; }

int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

// Adds the cases of a golden file.
void add_goldens(const std::string& name, std::map<std::string, Case>& cases) {
  const SafetensorsFile file(
      InputFile::open(std::string(source_dir()) + "/tests/goldens/quantized/" + name));
  for (const TensorEntry& tensor : file.tensors()) {
    const size_t slash = tensor.name.find('/');
    const std::string own = tensor.name.substr(slash + 1);
    if (own == "values") continue;
    Case& to = cases[tensor.name.substr(0, slash)];
    Stored stored{tensor.spec.dtype, tensor.spec.shape, {}};
    stored.bytes.resize(tensor.size_bytes());
    file.read(tensor, 0, stored.bytes);
    to.tensors[own] = std::move(stored);
    to.config.method = QuantizationMethod::compressed_tensors;
  }
}

std::map<std::string, Case> golden_cases() {
  std::map<std::string, Case> cases;
  add_goldens("matrices.safetensors", cases);
  add_goldens("nvfp4.safetensors", cases);
  cases["fp8_block"].config.block_rows = 16;
  cases["fp8_block"].config.block_columns = 128;
  return cases;
}

Stored random_tensor(Random& random, DType dtype, std::vector<int64_t> shape) {
  Stored stored{dtype, std::move(shape), {}};
  stored.bytes.resize(static_cast<size_t>(elements_of(stored.shape)) * dtype_bytes(dtype));
  for (std::byte& byte : stored.bytes) byte = static_cast<std::byte>(random());
  return stored;
}

// Adds cases of GPTQ and AWQ, in which any codes are valid.
void add_gptq_and_awq(Random& random, std::map<std::string, Case>& cases) {
  Case& gptq = cases["gptq"];
  gptq.tensors["m.qweight"] = random_tensor(random, DType::i32, {32, 24});
  gptq.tensors["m.qzeros"] = random_tensor(random, DType::i32, {8, 3});
  gptq.tensors["m.scales"] = random_tensor(random, DType::f16, {8, 24});
  gptq.tensors["m.g_idx"] = random_tensor(random, DType::i32, {256});
  for (int32_t k = 0; k < 256; ++k) {
    const int32_t group = k / 32;
    std::memcpy(gptq.tensors["m.g_idx"].bytes.data() + k * 4, &group, sizeof group);
  }
  gptq.config = {.method = QuantizationMethod::gptq, .bits = 4, .group_size = 32};
  Case& awq = cases["awq"];
  awq.tensors["m.qweight"] = random_tensor(random, DType::i32, {256, 3});
  awq.tensors["m.qzeros"] = random_tensor(random, DType::i32, {2, 3});
  awq.tensors["m.scales"] = random_tensor(random, DType::f16, {2, 24});
  awq.config = {.method = QuantizationMethod::awq, .bits = 4, .group_size = 128};
}

// Float8 and four bits in shapes that stay packed.
void add_float_panels(Random& random, std::map<std::string, Case>& cases) {
  const auto float8 = [&](DType dtype, std::vector<int64_t> shape) {
    Stored stored = random_tensor(random, dtype, std::move(shape));
    for (std::byte& code : stored.bytes) code &= std::byte{0x77};  // no NaN
    return stored;
  };
  const auto ones = [&](std::vector<int64_t> shape) {
    Stored stored = random_tensor(random, DType::f32, std::move(shape));
    const float one = 1;
    for (size_t i = 0; i < stored.bytes.size(); i += sizeof one) {
      std::memcpy(stored.bytes.data() + i, &one, sizeof one);
    }
    return stored;
  };
  Case& rows = cases["float8_rows"];
  rows.tensors["m.weight"] = float8(DType::f8e4m3, {32, 64});
  rows.tensors["m.weight_scale"] = ones({32, 1});
  rows.config.method = QuantizationMethod::fp8;
  Case& blocks = cases["float8_blocks"];
  blocks.tensors["m.weight"] = float8(DType::f8e5m2, {32, 256});
  blocks.tensors["m.weight_scale_inv"] = ones({2, 2});
  blocks.config = {.method = QuantizationMethod::fp8, .block_rows = 16, .block_columns = 128};
  Case& four = cases["float4"];
  const std::string_view state = R"({"shape": [32, 128], "blocksize": 64})";
  Stored text{DType::u8, {static_cast<int64_t>(state.size())}, {}};
  for (const char c : state) text.bytes.push_back(static_cast<std::byte>(c));
  four.tensors["m.weight"] = random_tensor(random, DType::u8, {2048, 1});
  four.tensors["m.weight.absmax"] = ones({64});
  four.tensors["m.weight.quant_map"] = ones({16});
  four.tensors["m.weight.quant_state.bitsandbytes__fp4"] = std::move(text);
  four.config.method = QuantizationMethod::bitsandbytes;
}

std::unique_ptr<WeightSource> open(const Case& test) {
  auto source = std::make_unique<MemoryWeights>();
  for (const auto& [name, stored] : test.tensors) {
    source->add(name, stored.dtype, stored.shape, stored.bytes);
  }
  if (test.config.method == QuantizationMethod::gptq ||
      test.config.method == QuantizationMethod::awq) {
    MatrixMap matrices = find_gptq_matrices(*source, test.config);
    return std::make_unique<QuantizedMatrices>(std::move(source), std::move(matrices));
  }
  MatrixMap matrices = find_scaled_matrices(*source, test.config);
  matrices.merge(find_packed_matrices(*source));
  matrices.merge(find_bitsandbytes_matrices(*source));
  matrices.merge(find_nvfp4_matrices(*source));
  return std::make_unique<QuantizedMatrices>(std::move(source), std::move(matrices));
}

void read_all(const WeightSource& weights) {
  for (const std::string_view name : weights.names()) {
    const TensorSpec& spec = *weights.find(name);
    if (spec.dtype != DType::f32) continue;
    const int64_t count = elements_of(spec.shape);
    std::vector<std::byte> numbers(static_cast<size_t>(count) * sizeof(float));
    weights.read(name, DType::f32, numbers);
    const auto format = weights.panel_format(name);
    if (!format) continue;
    std::vector<std::byte> panels(
        static_cast<size_t>(panel_bytes(*format, spec.shape[0], spec.shape[1])));
    weights.read_panels(name, panels);
  }
}

// A consistent file has exactly as many bytes as type and shape require.
void fit_bytes(Stored& stored, Random& random) {
  const size_t bytes = static_cast<size_t>(elements_of(stored.shape)) * dtype_bytes(stored.dtype);
  const size_t before = stored.bytes.size();
  stored.bytes.resize(bytes);
  for (size_t i = before; i < bytes; ++i) stored.bytes[i] = static_cast<std::byte>(random());
}

void mutate_tensor(Random& random, Stored& stored) {
  constexpr std::array kTypes = {DType::f32,
                                 DType::bf16,
                                 DType::f16,
                                 DType::f8e4m3,
                                 DType::f8e5m2,
                                 DType::i8,
                                 DType::u8,
                                 DType::i32,
                                 DType::i64};
  switch (below(random, 5)) {
    case 0:
      stored.dtype = kTypes[below(random, kTypes.size())];
      break;
    case 1:
      if (stored.shape.empty()) stored.shape.push_back(1);
      stored.shape[below(random, stored.shape.size())] = static_cast<int64_t>(below(random, 40));
      break;
    case 2:
      if (below(random, 2) == 0) {
        stored.shape.push_back(static_cast<int64_t>(below(random, 3)));
      } else if (!stored.shape.empty()) {
        stored.shape.pop_back();
      }
      break;
    case 3:
      if (!stored.shape.empty()) std::swap(stored.shape.front(), stored.shape.back());
      break;
    default:
      for (uint64_t i = below(random, 12); i > 0 && !stored.bytes.empty(); --i) {
        stored.bytes[below(random, stored.bytes.size())] = static_cast<std::byte>(random());
      }
  }
  fit_bytes(stored, random);
}

void mutate(Random& random, Case& test) {
  auto chosen = test.tensors.begin();
  std::advance(chosen, static_cast<std::ptrdiff_t>(below(random, test.tensors.size())));
  switch (below(random, 8)) {
    case 0:
      test.tensors.erase(chosen);
      return;
    case 1: {
      constexpr std::array kNames = {"m.weight",
                                     "m.weight_scale",
                                     "m.weight_packed",
                                     "m.weight_zero_point",
                                     "m.weight_g_idx",
                                     "m.SCB",
                                     "m.weight.absmax",
                                     "m.weight_global_scale",
                                     "m.weight_scale_2",
                                     "m.qweight",
                                     "m.g_idx"};
      const Stored copy = chosen->second;
      test.tensors[kNames[below(random, kNames.size())]] = copy;
      return;
    }
    case 2:
      test.config.bits = below(random, 2) == 0 ? 4 : 8;
      test.config.group_size = static_cast<int64_t>(below(random, 300));
      test.config.block_rows = static_cast<int64_t>(below(random, 20));
      test.config.block_columns = 1 + static_cast<int64_t>(below(random, 200));
      return;
    default:
      mutate_tensor(random, chosen->second);
  }
}

uint64_t num_rounds = 4000;  // set by main()

TEST(QuantizedMutation, is_read_or_refused_by_name) {
  Random random(7);
  std::map<std::string, Case> cases = golden_cases();
  add_gptq_and_awq(random, cases);
  add_float_panels(random, cases);
  for (const char* name : {"float8_rows", "float8_blocks", "float4"}) {
    ASSERT_TRUE(open(cases.at(name))->panel_format("m.weight")) << name;
  }
  for (const auto& [name, test] : cases) {
    ASSERT_NO_THROW(read_all(*open(test))) << name;
  }
  uint64_t num_accepted = 0;
  std::set<std::string> codes;
  for (uint64_t round = 0; round < num_rounds; ++round) {
    auto chosen = cases.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(below(random, cases.size())));
    Case test = chosen->second;
    for (uint64_t i = 1 + below(random, 3); i > 0 && !test.tensors.empty(); --i) {
      mutate(random, test);
    }
    try {
      read_all(*open(test));
      ++num_accepted;
    } catch (const FileError& error) {
      codes.insert(std::string(error.code()));
    }
  }
  // Both outcomes must be common; otherwise the mutations test nothing.
  EXPECT_GT(num_accepted, num_rounds / 20);
  EXPECT_LT(num_accepted, num_rounds * 9 / 10);
  EXPECT_EQ(codes,
            (std::set<std::string>{
                "E_CONFIG", "E_DTYPE", "E_DUPLICATE", "E_MISSING", "E_SHAPE", "E_VALUE"}));
}

}  // namespace

void set_mutations(uint64_t rounds) { num_rounds = rounds; }

}  // namespace reprise::weights

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kFlag = "--mutations=";
  for (const char* argument : std::span(argv, static_cast<size_t>(argc)).subspan(1)) {
    if (!std::string_view(argument).starts_with(kFlag)) return 2;
    reprise::weights::set_mutations(std::strtoull(argument + kFlag.size(), nullptr, 10));
  }
  return RUN_ALL_TESTS();
}
